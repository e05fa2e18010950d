//! Modes as people write them: `"755"`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{mode:o}"))
}

pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    u32::from_str_radix(&text, 8).map_err(|_| D::Error::custom(format!("`{text}` is not a mode like 755")))
}
