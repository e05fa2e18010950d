//! Module streams: several versions of one set of packages in one repository.
//!
//! Packages of a stream count only if the stream is enabled: the default one, or the one that
//! the manifest names. A package outside of modules is overridden by one of the same name in an
//! enabled stream, whichever repository that is in.

use eggo_yaml::Node;
use std::collections::{BTreeMap, HashSet};

/// `name-epoch:version-release.arch`
type Nevra = String;

#[derive(Debug, Default)]
pub struct Modules {
    streams: Vec<Stream>,
    defaults: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Stream {
    module: String,
    stream: String,
    artifacts: Vec<Nevra>,
}

/// Which packages the enabled streams leave over.
#[derive(Debug, Default)]
pub struct Filter {
    modular: HashSet<Nevra>,
    enabled: HashSet<Nevra>,
    shadowed: HashSet<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Yaml(#[from] eggo_yaml::Problems),
    #[error("no module stream `{asked}`")]
    NoStream { asked: String, found: Vec<String> },
}

impl Modules {
    /// Each document is parsed by itself: the whole is often larger than a hand-written file may be.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut modules = Self::default();
        for document in text.split("\n---") {
            let body = document.strip_prefix("---").unwrap_or(document);
            for node in eggo_yaml::parse_all(file, body.as_bytes())? {
                modules.add(&node);
            }
        }
        Ok(modules)
    }

    fn add(&mut self, node: &Node) {
        let text = |node: Option<&Node>| node.and_then(Node::as_str).map(str::to_string);
        let Some(data) = node.get("data") else { return };
        match node.get("document").and_then(Node::as_str) {
            Some("modulemd") => {
                let (module, stream) = (text(data.get("name")), text(data.get("stream")));
                let rpms = data.get("artifacts").and_then(|node| node.get("rpms"));
                let rpms = rpms.and_then(Node::as_sequence).unwrap_or(&[]);
                let artifacts = rpms.iter().filter_map(Node::as_str).map(str::to_string).collect();
                if let (Some(module), Some(stream)) = (module, stream) {
                    self.streams.push(Stream { module, stream, artifacts });
                }
            }
            Some("modulemd-defaults") => {
                if let (Some(module), Some(stream)) = (text(data.get("module")), text(data.get("stream"))) {
                    self.defaults.insert(module, stream);
                }
            }
            _ => {}
        }
    }

    /// `asked`: streams besides the default ones, as `module:stream`.
    pub fn filter(&self, asked: &[String]) -> Result<Filter, Error> {
        let mut enabled = self.defaults.clone();
        for text in asked {
            let (module, stream) = text.split_once(':').unwrap_or((text, ""));
            let exists = |s: &&Stream| s.module == module && s.stream == stream;
            if !self.streams.iter().any(|s| exists(&s)) {
                let near = self.streams.iter().filter(|s| s.module == module);
                let found = near.map(|s| format!("{}:{}", s.module, s.stream)).collect();
                return Err(Error::NoStream { asked: text.clone(), found });
            }
            enabled.insert(module.to_string(), stream.to_string());
        }
        let mut filter = Filter::default();
        for stream in &self.streams {
            filter.modular.extend(stream.artifacts.iter().cloned());
            if enabled.get(&stream.module) == Some(&stream.stream) {
                filter.enabled.extend(stream.artifacts.iter().cloned());
                let binaries = stream.artifacts.iter().filter(|nevra| !nevra.ends_with(".src"));
                filter.shadowed.extend(binaries.filter_map(|nevra| name(nevra)).map(str::to_string));
            }
        }
        Ok(filter)
    }
}

impl Filter {
    /// Whether a package counts. `evr` as `[epoch:]version-release`.
    pub fn takes(&self, name: &str, evr: &str, arch: &str) -> bool {
        if self.modular.is_empty() {
            return true;
        }
        let nevra = nevra(name, evr, arch);
        if self.modular.contains(&nevra) {
            self.enabled.contains(&nevra)
        } else {
            !self.shadowed.contains(name)
        }
    }

    /// Whether a package of another repository, outside of modules there, is outside here too and
    /// is overridden by an enabled stream.
    pub fn replaces(&self, name: &str, evr: &str, arch: &str) -> bool {
        self.shadowed.contains(name) && !self.modular.contains(&nevra(name, evr, arch))
    }

    /// Whether a package is of a module.
    pub fn is_modular(&self, name: &str, evr: &str, arch: &str) -> bool {
        !self.modular.is_empty() && self.modular.contains(&nevra(name, evr, arch))
    }
}

fn nevra(name: &str, evr: &str, arch: &str) -> Nevra {
    match evr.contains(':') {
        true => format!("{name}-{evr}.{arch}"),
        false => format!("{name}-0:{evr}.{arch}"),
    }
}

fn name(nevra: &str) -> Option<&str> {
    let (name_version, _release) = nevra.rsplit_once('-')?;
    Some(name_version.rsplit_once('-')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "---
document: modulemd
version: 2
data:
  name: nodejs
  stream: \"10\"
  artifacts:
    rpms:
      - nodejs-1:10.0-1.m.x86_64
---
document: modulemd
version: 2
data:
  name: nodejs
  stream: \"12\"
  artifacts:
    rpms: [nodejs-1:12.0-1.m.x86_64]
---
document: modulemd-defaults
version: 1
data:
  module: nodejs
  stream: \"10\"
";

    #[test]
    fn only_the_default_stream_counts_unless_another_is_asked_for() {
        let modules = Modules::parse("modules.yaml", TEXT).unwrap();
        let default = modules.filter(&[]).unwrap();
        assert!(default.takes("nodejs", "1:10.0-1.m", "x86_64"));
        assert!(!default.takes("nodejs", "1:12.0-1.m", "x86_64"));
        assert!(!default.takes("nodejs", "1:14.0-1", "x86_64"), "outside of modules, shadowed");
        assert!(default.takes("bash", "5.0-1", "x86_64"));
        assert!(default.replaces("nodejs", "1:14.0-1", "x86_64"), "also that of another repository");
        assert!(!default.replaces("nodejs", "1:10.0-1.m", "x86_64"));
        assert!(!default.replaces("bash", "5.0-1", "x86_64"));
        let twelve = modules.filter(&["nodejs:12".into()]).unwrap();
        assert!(twelve.takes("nodejs", "1:12.0-1.m", "x86_64"));
        assert!(!twelve.takes("nodejs", "1:10.0-1.m", "x86_64"));
    }

    #[test]
    fn an_unknown_stream_says_which_there_are() {
        let error = Modules::parse("m", TEXT).unwrap().filter(&["nodejs:99".into()]).unwrap_err();
        let Error::NoStream { found, .. } = error else { panic!() };
        assert_eq!(found, ["nodejs:10", "nodejs:12"]);
    }
}
