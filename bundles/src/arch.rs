//! The two machine architectures, and every way the world spells them.
//!
//! No other module writes an arch's name as a literal.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A machine architecture that a bundle can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    Amd64,
    Arm64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown arch `{0}` (known: amd64 = x86_64, arm64 = aarch64)")]
pub struct UnknownArch(pub String);

impl Arch {
    pub const ALL: [Arch; 2] = [Arch::Amd64, Arch::Arm64];

    /// The folder in a bundle, Debian's and OCI's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    /// RPM's `$basearch`, and what `uname -m` prints.
    pub fn machine(self) -> &'static str {
        match self {
            Arch::Amd64 => "x86_64",
            Arch::Arm64 => "aarch64",
        }
    }

    /// `e_machine` of an ELF file.
    pub fn elf_machine(self) -> u16 {
        match self {
            Arch::Amd64 => 62,
            Arch::Arm64 => 183,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        match text.to_ascii_lowercase().as_str() {
            "amd64" | "x86_64" | "x86-64" => Ok(Arch::Amd64),
            "arm64" | "aarch64" => Ok(Arch::Arm64),
            _ => Err(UnknownArch(text.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_parses_and_the_canonical_one_prints() {
        for arch in Arch::ALL {
            assert_eq!(arch.as_str().parse(), Ok(arch));
            assert_eq!(arch.machine().parse(), Ok(arch));
        }
        assert_eq!("AARCH64".parse(), Ok(Arch::Arm64));
        assert!("riscv64".parse::<Arch>().is_err());
    }
}
