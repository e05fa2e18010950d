//! Where a repository is: urls with variables, `.repo` files, mirror lists and metalinks as text.

use super::xml::{self, Attributes, Visit};
use crate::http::recorded;
use eggo_bundles::{Arch, Digest};

/// A section of a `.repo` file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    pub id: String,
    pub urls: Vec<String>,
    pub mirrorlist: Option<String>,
    pub metalink: Option<String>,
    pub keys: Vec<String>,
    pub exclude: Vec<String>,
    /// Its packages count whatever modules say.
    pub module_hotfixes: bool,
    /// Its metadata must be signed, too.
    pub repo_gpgcheck: bool,
    /// Keys by which dnf would choose other packages than we do.
    pub ignored: Vec<String>,
}

/// A variable that has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` uses `${variable}`, which has no value", recorded(.url))]
pub struct NoValue {
    pub url: String,
    pub variable: String,
}

/// Replaces `$basearch`, `$arch` and `$releasever`.
pub fn expand(url: &str, arch: Arch, releasever: Option<&str>) -> Result<String, NoValue> {
    let mut out = String::with_capacity(url.len());
    let mut rest = url;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (variable, after) = match rest.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(braced) => braced,
            None => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                rest.split_at(end)
            }
        };
        match (variable, releasever) {
            ("basearch" | "arch", _) => out.push_str(arch.machine()),
            ("releasever", Some(value)) => out.push_str(value),
            _ => return Err(NoValue { url: url.to_string(), variable: variable.to_string() }),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// The enabled sections of a `.repo` file.
pub fn repo_file(text: &str) -> Vec<Section> {
    let mut sections: Vec<(Section, bool)> = Vec::new();
    let mut key = String::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(id) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push((Section { id: id.to_string(), ..Section::default() }, true));
            continue;
        }
        let Some((section, enabled)) = sections.last_mut() else { continue };
        // A line that starts with white space continues the value before it.
        let value = if line.starts_with([' ', '\t']) {
            trimmed
        } else {
            let Some((name, value)) = trimmed.split_once('=') else { continue };
            key = name.trim().to_string();
            value.trim()
        };
        let words = || value.split([' ', ',', '\t']).filter(|word| !word.is_empty()).map(str::to_string);
        match key.as_str() {
            "baseurl" => section.urls.extend(words()),
            "mirrorlist" => section.mirrorlist = Some(value.to_string()),
            "metalink" => section.metalink = Some(value.to_string()),
            "gpgkey" => section.keys.extend(words()),
            "exclude" | "excludepkgs" => section.exclude.extend(words()),
            "enabled" => *enabled = is_true(value),
            "repo_gpgcheck" => section.repo_gpgcheck = is_true(value),
            "module_hotfixes" => section.module_hotfixes = is_true(value),
            "includepkgs" | "priority" if !section.ignored.contains(&key) => {
                section.ignored.push(key.clone())
            }
            _ => {}
        }
    }
    sections
        .into_iter()
        .filter(|(section, enabled)| *enabled && section.id != "main")
        .map(|(s, _)| s)
        .collect()
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "yes" | "true" | "on")
}

/// The urls of a mirror list: one a line.
pub fn mirrorlist(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| line.starts_with("http://") || line.starts_with("https://"))
        .map(str::to_string)
        .collect()
}

/// What a metalink says of `repomd.xml`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Metalink {
    /// Roots of the mirrors, best first.
    pub mirrors: Vec<String>,
    /// Any of these is a `repomd.xml` that the mirror manager knows of.
    pub sha256: Vec<Digest>,
}

pub fn metalink(bytes: &[u8]) -> Result<Metalink, xml::Error> {
    let mut reader = MetalinkReader::default();
    xml::walk(bytes, &mut reader)?;
    reader.mirrors.sort_by_key(|(preference, _)| std::cmp::Reverse(*preference));
    let mirrors = reader.mirrors.into_iter().map(|(_, url)| url).collect();
    Ok(Metalink { mirrors, sha256: reader.sha256 })
}

#[derive(Default)]
struct MetalinkReader {
    hash_type: String,
    preference: u32,
    mirrors: Vec<(u32, String)>,
    sha256: Vec<Digest>,
}

impl Visit for MetalinkReader {
    fn start(&mut self, name: &str, attributes: &Attributes<'_>) -> Result<(), String> {
        match name {
            "hash" => self.hash_type = attributes.get("type")?.unwrap_or_default(),
            "url" => {
                let preference = attributes.get("preference")?.and_then(|text| text.parse().ok());
                self.preference = preference.unwrap_or(0);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, name: &str, text: &str) -> Result<(), String> {
        match name {
            "hash" if self.hash_type == "sha256" => self.sha256.extend(text.parse::<Digest>()),
            "url" if text.starts_with("http") => {
                if let Some(root) = text.strip_suffix("repodata/repomd.xml") {
                    self.mirrors.push((self.preference, root.to_string()));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_or_named() {
        let url = "https://r.example/$releasever/os/${basearch}/";
        assert_eq!(expand(url, Arch::Arm64, Some("9")).unwrap(), "https://r.example/9/os/aarch64/");
        assert_eq!(expand("https://r/$infra/", Arch::Amd64, None).unwrap_err().variable, "infra");
    }

    #[test]
    fn repo_files_as_dnf_reads_them() {
        let text = "# c\n[main]\nx=1\n[base]\nname=B\nbaseurl=https://a/$basearch\n  https://b/$basearch\n\
                    gpgkey=file:///k1 file:///k2\nenabled=1\ngpgcheck=1\n[off]\nbaseurl=https://c\nenabled=0\n";
        let sections = repo_file(text);
        assert_eq!(sections.len(), 1);
        assert_eq!(sections[0].urls, ["https://a/$basearch", "https://b/$basearch"]);
        assert_eq!(sections[0].keys, ["file:///k1", "file:///k2"]);
        assert!(sections[0].ignored.is_empty());
        let sections = repo_file("[x]\nbaseurl=https://a\npriority=1\nincludepkgs=a\n  b\ncost=5\n");
        assert_eq!(sections[0].ignored, ["priority", "includepkgs"]);
    }

    #[test]
    fn metalinks_give_mirrors_and_digests() {
        let text = format!(
            "<metalink><files><file name=\"repomd.xml\"><verification><hash type=\"md5\">x</hash>\
             <hash type=\"sha256\">{}</hash></verification><resources>\
             <url protocol=\"https\" preference=\"9\">https://slow/repodata/repomd.xml</url>\
             <url protocol=\"https\" preference=\"99\">https://fast/repodata/repomd.xml</url>\
             <url protocol=\"rsync\">rsync://x/repodata/repomd.xml</url></resources></file></files></metalink>",
            "cd".repeat(32)
        );
        let metalink = metalink(text.as_bytes()).unwrap();
        assert_eq!(metalink.mirrors, ["https://fast/", "https://slow/"]);
        assert_eq!(metalink.sha256.len(), 1);
    }
}
