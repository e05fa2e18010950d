//! What `scripts/lab status --format json` tells.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Facts {
    pub gateway: String,
    pub key: PathBuf,
    pub known_hosts: PathBuf,
    pub ssh_config: PathBuf,
    pub hosts: Vec<HostFacts>,
    pub upstream: Option<Upstream>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct HostFacts {
    pub name: String,
    pub kind: String,
    pub arch: String,
    pub disk: String,
    pub address: String,
}

impl Facts {
    /// `None` where there is no such lab: it has no number.
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        let all: serde_json::Value = serde_json::from_slice(json).expect("scripts/lab writes JSON");
        let facts = || serde_json::from_value(all.clone());
        (!all["number"].is_null()).then(|| facts().expect("scripts/lab describes itself in its own form"))
    }
}

/// Where the stand-in for the internet is.
#[derive(Debug, Clone, Deserialize)]
pub struct Upstream {
    /// `ADDRESS:PORT` of a registry; plain http.
    pub registry: String,
    /// `http://ADDRESS:PORT`, with `/release/vVERSION/bin/linux/ARCH/` and `/rpm/BASEARCH/`.
    pub http: String,
    /// The same server under its other address: where redirects lead.
    pub other: String,
    /// What that server has, as a folder of this machine.
    pub www: PathBuf,
    /// Where the key is that signs the RPMs.
    pub rpm_key: String,
    /// The RPM repositories' address, with `$basearch` in it.
    pub rpm: String,
    /// The versions of what is under `/github.com/`, by the names of the projects.
    pub releases: BTreeMap<String, String>,
}

impl Upstream {
    /// The address of a path (`/release/…`) that fails, in a way that `scripts/lab.d/README.md` lists: `503-x2`, `cut-50`…
    pub fn failing(&self, kind: &str, path: &str) -> String {
        format!("{}/fault/{kind}{path}", self.http)
    }

    /// An image that fails: `NAME:TAG` under a name with which every client meets the fault.
    pub fn failing_image(&self, kind: &str, image: &str) -> String {
        let server = self.http.trim_start_matches("http://");
        format!("{server}/fault/{kind}/{image}")
    }
}
