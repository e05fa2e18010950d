//! Text with `{version}`, `{arch}` and `{machine}` in it.

use crate::http::recorded;
use eggo_bundles::Arch;
use std::fmt;

/// Every placeholder in it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(String);

const KNOWN: [&str; 4] = ["name", "version", "arch", "machine"];

impl Template {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            let inside = &rest[start + 1..];
            let end =
                inside.find('}').ok_or_else(|| format!("`{}` has a `{{` without `}}`", recorded(text)))?;
            let word = &inside[..end];
            if !KNOWN.contains(&word) {
                let known = KNOWN.map(|word| format!("{{{word}}}")).join(", ");
                let text = recorded(text);
                return Err(format!("`{text}` has the unknown placeholder `{{{word}}}` (known: {known})"));
            }
            rest = &inside[end + 1..];
        }
        Ok(Self(text.to_string()))
    }

    /// `{arch}` is `amd64` or `arm64`, `{machine}` is `x86_64` or `aarch64`.
    pub fn expand(&self, name: &str, version: &str, arch: Arch) -> String {
        self.0
            .replace("{name}", name)
            .replace("{version}", version)
            .replace("{arch}", arch.as_str())
            .replace("{machine}", arch.machine())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Does it lead to another file for another arch?
    pub fn depends_on_arch(&self) -> bool {
        self.0.contains("{arch}") || self.0.contains("{machine}")
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_placeholders_are_filled_in_and_others_refused() {
        let template = Template::parse("https://x/v{version}/{name}-{arch}-{machine}.tar.gz").unwrap();
        assert_eq!(
            template.expand("etcd", "3.4.14", Arch::Arm64),
            "https://x/v3.4.14/etcd-arm64-aarch64.tar.gz"
        );
        assert!(Template::parse("{architecture}").unwrap_err().contains("unknown placeholder"));
        assert!(Template::parse("{arch").unwrap_err().contains("without"));
        assert!(template.depends_on_arch());
        assert!(!Template::parse("{version}").unwrap().depends_on_arch());
    }
}
