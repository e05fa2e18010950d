//! The machine of an ELF file.

use super::{Made, Problem, read_up_to};
use crate::{Arch, Kind};
use std::io::Read;

/// The front of an ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elf {
    pub machine: u16,
    /// 32 or 64.
    pub bits: u8,
    /// `e_type`: 1 relocatable, 2 executable, 3 shared or position-independent.
    pub kind: u16,
}

/// None if it is no ELF file (a script, for example).
pub fn read(reader: &mut dyn Read) -> Result<Option<Elf>, Problem> {
    let mut header = [0; 20];
    let length = read_up_to(reader, &mut header)?;
    Ok(parse(&header[..length]))
}

/// The same from the first 20 bytes.
pub fn parse(header: &[u8]) -> Option<Elf> {
    let header: &[u8; 20] = header.first_chunk()?;
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    let word = |at: usize| match header[5] {
        2 => u16::from_be_bytes([header[at], header[at + 1]]),
        _ => u16::from_le_bytes([header[at], header[at + 1]]),
    };
    Some(Elf { machine: word(18), bits: if header[4] == 1 { 32 } else { 64 }, kind: word(16) })
}

impl Elf {
    /// The arch whose machines run it.
    pub fn arch(&self) -> Option<Arch> {
        Arch::ALL.into_iter().find(|arch| self.bits == 64 && arch.elf_machine() == self.machine)
    }

    /// The arch that it is for as an item of `kind`.
    pub fn made_for(&self, kind: Kind) -> Made {
        match kind {
            Kind::Bin => Made::For(self.machine_name()),
            // A folder may hold firmware or BPF objects; what runs on the other arch is a mistake.
            Kind::Dir => match self.arch().filter(|_| self.is_program()) {
                Some(arch) => Made::For(arch.to_string()),
                None => Made::Anywhere,
            },
            _ => Made::Anywhere,
        }
    }

    /// An executable or a shared library.
    pub fn is_program(&self) -> bool {
        matches!(self.kind, 2 | 3)
    }

    /// The machine in words: an arch of ours, or what it is else.
    pub fn machine_name(&self) -> String {
        if let Some(arch) = self.arch() {
            return arch.to_string();
        }
        let known = match self.machine {
            3 => "i386",
            8 => "mips",
            20 => "ppc",
            21 => "ppc64",
            22 => "s390",
            40 => "arm",
            62 => "x32",
            243 => "riscv",
            247 => "bpf",
            258 => "loongarch",
            other => return format!("ELF machine {other}"),
        };
        known.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_is_for_this_machine() {
        let mut own = std::fs::File::open("/proc/self/exe").unwrap();
        let elf = read(&mut own).unwrap().unwrap();
        assert_eq!(elf.arch().unwrap().machine(), std::env::consts::ARCH);
    }

    #[test]
    fn scripts_and_stumps_are_no_elf() {
        assert_eq!(parse(b"#!/bin/sh\necho hello world\n"), None);
        assert_eq!(parse(b"\x7fELF"), None);
        assert_eq!(parse(b""), None);
    }
}
