//! A runtime by its name, as deploy.yaml, the kept configuration and the journal have it.

use super::{Runtime, TABLE};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

/// One of the table.
#[derive(Clone, Copy)]
pub struct RuntimeKind(&'static Runtime);

impl RuntimeKind {
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().copied().map(Self)
    }

    /// Their names, for people.
    pub fn names() -> String {
        let names: Vec<&str> = TABLE.iter().map(|runtime| runtime.name).collect();
        let (last, others) = names.split_last().expect("there are runtimes");
        format!("{} or {last}", others.join(", "))
    }
}

impl Default for RuntimeKind {
    fn default() -> Self {
        Self(TABLE[0])
    }
}

impl Deref for RuntimeKind {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0
    }
}

impl PartialEq for RuntimeKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for RuntimeKind {}

impl fmt::Debug for RuntimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// Ignoring case.
impl FromStr for RuntimeKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::all().find(|kind| kind.name.eq_ignore_ascii_case(text)).ok_or(())
    }
}

impl Serialize for RuntimeKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name.to_ascii_lowercase())
    }
}

impl<'de> Deserialize<'de> for RuntimeKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|()| serde::de::Error::custom(format!("`{text}` is no container runtime")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_journals_and_configurations() {
        for (name, kept) in [("docker", "docker"), ("iSulad", "isulad"), ("containerd", "containerd")] {
            let kind: RuntimeKind = name.parse().unwrap();
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{kept}\""));
            assert_eq!(serde_json::from_str::<RuntimeKind>(&json).unwrap(), kind);
            assert_eq!(kind.to_string(), name);
        }
        assert_eq!(RuntimeKind::names(), "docker, iSulad or containerd");
        assert_eq!(RuntimeKind::default().name, "docker");
        assert!("podman".parse::<RuntimeKind>().is_err());
    }

    /// Every script that asks a runtime for something finds it.
    #[test]
    fn every_runtime_has_every_function() {
        for kind in RuntimeKind::all() {
            for function in [
                "works",
                "list_images",
                "load_images",
                "load_archive",
                "remove_images",
                "pin_images",
                "remove_pods",
            ] {
                assert!(kind.shell.contains(&format!("\n{function}() {{")), "{kind}: {function}");
            }
            assert!(kind.shell.contains(kind.client), "{kind}");
        }
    }
}
