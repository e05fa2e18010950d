//! Which packages have the files that the primary metadata does not list. Large, and read only
//! when somebody requires such a file.

use super::metadata::{Metadata, Word};
use super::xml::{self, Attributes, Visit};
use std::collections::{HashMap, HashSet};
use std::io::BufRead;

/// Looks for `wanted` in the file lists of repository `repo`: package number and path.
pub fn find(
    metadata: &Metadata,
    repo: u16,
    wanted: &HashSet<Word>,
    filelists: impl BufRead,
) -> Result<Vec<(u32, Word)>, xml::Error> {
    let packages = metadata.packages.iter().enumerate().filter(|(_, package)| package.repo == repo);
    let by_checksum = packages.map(|(id, package)| (package.checksum.as_str(), id as u32)).collect();
    let mut finder = Finder { metadata, wanted, by_checksum, current: None, found: Vec::new() };
    xml::walk(filelists, &mut finder)?;
    Ok(finder.found)
}

struct Finder<'a> {
    metadata: &'a Metadata,
    wanted: &'a HashSet<Word>,
    by_checksum: HashMap<&'a str, u32>,
    current: Option<u32>,
    found: Vec<(u32, Word)>,
}

impl Visit for Finder<'_> {
    fn start(&mut self, name: &str, attributes: &Attributes<'_>) -> Result<(), String> {
        if name == "package" {
            self.current = self.by_checksum.get(attributes.required("pkgid")?.as_str()).copied();
        }
        Ok(())
    }

    fn end(&mut self, name: &str, text: &str) -> Result<(), String> {
        if let (Some(package), "file") = (self.current, name)
            && let Some(word) = self.metadata.words.find(text)
            && self.wanted.contains(&word)
        {
            self.found.push((package, word));
        }
        Ok(())
    }
}
