//! The platform in an image's configuration, the same in OCI and Docker.

use super::{Problem, malformed};
use serde::Deserialize;
use std::io::Read;

/// Registries refuse larger ones.
const LONGEST_CONFIG: u64 = 8 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Config {
    pub architecture: String,
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub variant: Option<String>,
}

pub fn read_config(reader: &mut dyn Read) -> Result<Config, Problem> {
    let mut bytes = Vec::new();
    reader.take(LONGEST_CONFIG + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_CONFIG {
        return malformed("its image configuration is over 8 MiB long");
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| Problem::Malformed(format!("its image configuration is not valid: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_platform() {
        let text = r#"{"architecture": "arm64", "os": "linux", "variant": "v8", "rootfs": {}}"#;
        let config = read_config(&mut text.as_bytes()).unwrap();
        assert_eq!((config.architecture.as_str(), config.variant.as_deref()), ("arm64", Some("v8")));
        assert!(read_config(&mut &b"{}"[..]).is_err());
    }
}
