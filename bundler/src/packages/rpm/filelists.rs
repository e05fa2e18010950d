//! Which packages have the files that the primary metadata does not list. Large, and read only
//! when somebody requires such a file.

use super::metadata::{Metadata, Word};
use super::xml::{self, Attributes, Visit};
use std::collections::{HashMap, HashSet};
use std::io::BufRead;

/// Looks for `wanted` in a repository's file lists: a line `CHECKSUM PATH` for each that a package has.
pub fn find(wanted: &HashSet<String>, filelists: impl BufRead) -> Result<String, xml::Error> {
    let mut finder = Finder { wanted, package: String::new(), found: String::new() };
    xml::walk(filelists, &mut finder)?;
    Ok(finder.found)
}

/// These lines as numbers of packages of the repository `repo`, and words.
pub fn packages(metadata: &Metadata, repo: u16, lines: &str) -> Vec<(u32, Word)> {
    let packages = metadata.packages.iter().enumerate().filter(|(_, package)| package.repo == repo);
    let by_checksum: HashMap<Word, u32> =
        packages.map(|(id, package)| (package.checksum, id as u32)).collect();
    let read = |line: &str| {
        let (checksum, path) = line.split_once(' ')?;
        let package = by_checksum.get(&metadata.words.find(checksum)?)?;
        Some((*package, metadata.words.find(path)?))
    };
    lines.lines().filter_map(read).collect()
}

struct Finder<'a> {
    wanted: &'a HashSet<String>,
    package: String,
    found: String,
}

impl Visit for Finder<'_> {
    fn start(&mut self, name: &str, attributes: &Attributes<'_>) -> Result<(), String> {
        if name == "package" {
            self.package = attributes.required("pkgid")?;
        }
        Ok(())
    }

    fn end(&mut self, name: &str, text: &str) -> Result<(), String> {
        if name == "file" && self.wanted.contains(text) {
            self.found.push_str(&format!("{} {text}\n", self.package));
        }
        Ok(())
    }
}
