//! The packages of a repository as its primary metadata tells of them, held compactly: every
//! distinct word once, everything else as numbers.

use super::super::version::Relation;
use super::super::version::rpm::Evr;
pub use super::words::{Word, Words};
use super::xml::{self, Attributes, Visit};
use eggo_bundles::content::rpm::{Dependency, Rpm};
use std::io::BufRead;
use std::ops::Range;

/// Something provided, required, in conflict or obsoleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capability {
    pub name: Word,
    /// `[epoch:]version[-release]`; without a relation it is empty.
    pub evr: Word,
    pub relation: Option<Relation>,
}

#[derive(Debug, Clone)]
pub struct Package {
    /// Which of the loaded repositories it is in.
    pub repo: u16,
    pub name: Word,
    pub arch: Word,
    /// `epoch:version-release`, the epoch only if it is not 0.
    pub evr: Word,
    pub checksum_type: Word,
    pub checksum: Word,
    pub size: u64,
    pub location: Word,
    pub provides: Range<u32>,
    pub requires: Range<u32>,
    pub conflicts: Range<u32>,
    pub obsoletes: Range<u32>,
    pub recommends: Range<u32>,
    pub suggests: Range<u32>,
    /// The files that the primary metadata lists: programs and configuration.
    pub files: Range<u32>,
}

/// All packages of all repositories for one arch, in the order of the files.
#[derive(Default)]
pub struct Metadata {
    pub words: Words,
    pub packages: Vec<Package>,
    pub capabilities: Vec<Capability>,
    pub files: Vec<Word>,
}

impl Metadata {
    /// All packages of a primary metadata file.
    pub fn parse(primary: impl BufRead) -> Result<Self, xml::Error> {
        let mut metadata = Self::default();
        xml::walk(primary, &mut Loader { metadata: &mut metadata, draft: Draft::default(), list: None })?;
        Ok(metadata)
    }

    /// Adds the packages of one repository's metadata that `accept` takes, by name, version and arch.
    pub fn adopt(&mut self, repo: u16, other: Self, accept: impl Fn(&str, &str, &str) -> bool) {
        let accepted: Vec<bool> = other
            .packages
            .iter()
            .map(|p| accept(other.name(p), other.words.get(p.evr), other.arch(p)))
            .collect();
        let Self { words, packages, capabilities, files } = other;
        // The first one's words stay as they are numbered.
        let numbers: Option<Vec<Word>> = if self.packages.is_empty() {
            self.words = words;
            None
        } else {
            Some((0..words.count() as u32).map(|number| self.words.add(words.get(Word(number)))).collect())
        };
        let word = |word: Word| numbers.as_ref().map_or(word, |numbers| numbers[word.0 as usize]);
        for (mut package, _) in packages.into_iter().zip(accepted).filter(|(_, accepted)| *accepted) {
            let Package { name, arch, evr, checksum_type, checksum, location, .. } = &mut package;
            for place in [name, arch, evr, checksum_type, checksum, location] {
                *place = word(*place);
            }
            let Package { provides, requires, conflicts, obsoletes, recommends, suggests, .. } = &mut package;
            for list in [provides, requires, conflicts, obsoletes, recommends, suggests] {
                let start = self.capabilities.len() as u32;
                let taken = capabilities[list.start as usize..list.end as usize].iter();
                self.capabilities.extend(taken.map(|capability| Capability {
                    name: word(capability.name),
                    evr: word(capability.evr),
                    ..*capability
                }));
                *list = start..self.capabilities.len() as u32;
            }
            let first_file = self.files.len() as u32;
            let taken = files[package.files.start as usize..package.files.end as usize].iter();
            self.files.extend(taken.map(|file| word(*file)));
            package.files = first_file..self.files.len() as u32;
            package.repo = repo;
            self.packages.push(package);
        }
    }

    /// A package that targets have and no repository does: it provides itself and nothing else.
    pub fn add_installed(&mut self, name: &str, evr: &str, arch: &str) -> u32 {
        let provides = [Dependency { name: name.into(), flags: sense::EQUAL, version: evr.into() }];
        self.add(name, evr, arch, u16::MAX, [&provides, &[], &[], &[]], &[])
    }

    /// A package as its own header describes it.
    pub fn add_header(&mut self, rpm: &Rpm) -> u32 {
        let lists = [&rpm.provides[..], &rpm.requires, &rpm.conflicts, &rpm.obsoletes];
        self.add(&rpm.name, &rpm.evr(), &rpm.architecture, 0, lists, &rpm.files)
    }

    fn add(
        &mut self,
        name: &str,
        evr: &str,
        arch: &str,
        repo: u16,
        lists: [&[Dependency]; 4],
        files: &[String],
    ) -> u32 {
        let [provides, requires, conflicts, obsoletes] = lists.map(|list| {
            let start = self.capabilities.len() as u32;
            for Dependency { name, flags, version } in list {
                let relation = sense::relation(*flags).filter(|_| !version.is_empty());
                let evr = if relation.is_some() { self.words.add(version) } else { Word::EMPTY };
                self.capabilities.push(Capability { name: self.words.add(name), evr, relation });
            }
            start..self.capabilities.len() as u32
        });
        let first_file = self.files.len() as u32;
        for file in files {
            let word = self.words.add(file);
            self.files.push(word);
        }
        self.packages.push(Package {
            repo,
            name: self.words.add(name),
            arch: self.words.add(arch),
            evr: self.words.add(evr),
            checksum_type: Word::EMPTY,
            checksum: Word::EMPTY,
            size: 0,
            location: Word::EMPTY,
            provides,
            requires,
            conflicts,
            obsoletes,
            recommends: 0..0,
            suggests: 0..0,
            files: first_file..self.files.len() as u32,
        });
        self.packages.len() as u32 - 1
    }

    pub fn name(&self, package: &Package) -> &str {
        self.words.get(package.name)
    }

    pub fn arch(&self, package: &Package) -> &str {
        self.words.get(package.arch)
    }

    pub fn evr(&self, package: &Package) -> Evr<'_> {
        Evr::parse(self.words.get(package.evr))
    }

    pub fn capabilities(&self, range: &Range<u32>) -> &[Capability] {
        &self.capabilities[range.start as usize..range.end as usize]
    }

    pub fn files(&self, package: &Package) -> &[Word] {
        &self.files[package.files.start as usize..package.files.end as usize]
    }

    /// Whether what is provided meets what is required: the versions they allow overlap.
    pub fn meets(&self, provided: &Capability, required: &Capability) -> bool {
        if provided.name != required.name {
            return false;
        }
        // As rpm has it: without a version on either side, the name is enough.
        let (Some(left), Some(right)) = (provided.relation, required.relation) else { return true };
        overlap(
            (left, Evr::parse(self.words.get(provided.evr))),
            (right, Evr::parse(self.words.get(required.evr))),
        )
    }

    /// `name >= version`, as people write it.
    pub fn show(&self, capability: &Capability) -> String {
        let name = self.words.get(capability.name);
        match capability.relation {
            Some(relation) => format!("{name} {relation} {}", self.words.get(capability.evr)),
            None => name.to_string(),
        }
    }
}

/// The bits in which a header writes a relation.
mod sense {
    use super::Relation;

    const LESS: u32 = 2;
    const GREATER: u32 = 4;
    pub(super) const EQUAL: u32 = 8;

    pub(super) fn relation(flags: u32) -> Option<Relation> {
        match flags & (LESS | GREATER | EQUAL) {
            LESS => Some(Relation::Less),
            GREATER => Some(Relation::Greater),
            EQUAL => Some(Relation::Equal),
            bits if bits == LESS | EQUAL => Some(Relation::LessOrEqual),
            bits if bits == GREATER | EQUAL => Some(Relation::GreaterOrEqual),
            _ => None,
        }
    }
}

/// Whether some version satisfies both relations.
pub(super) fn overlap(
    (left, left_evr): (Relation, Evr<'_>),
    (right, right_evr): (Relation, Evr<'_>),
) -> bool {
    use Relation::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
    let order = left_evr.compare(&right_evr);
    let up = |relation| matches!(relation, Greater | GreaterOrEqual);
    let down = |relation| matches!(relation, Less | LessOrEqual);
    let closed = |relation| matches!(relation, Equal | GreaterOrEqual | LessOrEqual);
    match order {
        std::cmp::Ordering::Less => up(left) || down(right),
        std::cmp::Ordering::Greater => down(left) || up(right),
        std::cmp::Ordering::Equal => {
            (up(left) && up(right)) || (down(left) && down(right)) || (closed(left) && closed(right))
        }
    }
}

#[derive(Clone, Copy)]
enum List {
    Provides,
    Requires,
    Conflicts,
    Obsoletes,
    Recommends,
    Suggests,
}

/// A package while its element is open.
#[derive(Default)]
struct Draft {
    open: bool,
    name: String,
    arch: String,
    evr: String,
    checksum_type: String,
    checksum: String,
    size: u64,
    location: String,
    lists: [Vec<Capability>; 6],
    files: Vec<Word>,
}

struct Loader<'a> {
    metadata: &'a mut Metadata,
    draft: Draft,
    list: Option<List>,
}

impl Visit for Loader<'_> {
    fn start(&mut self, name: &str, attributes: &Attributes<'_>) -> Result<(), String> {
        let draft = &mut self.draft;
        match name {
            "package" => *draft = Draft { open: true, ..Draft::default() },
            _ if !draft.open => {}
            "version" => draft.evr = evr(attributes)?,
            "checksum" => draft.checksum_type = attributes.get("type")?.unwrap_or_default(),
            "size" => {
                let size = attributes.required("package")?;
                draft.size = size.parse().map_err(|_| format!("`{size}` is not a size"))?;
            }
            "location" => draft.location = attributes.required("href")?,
            "provides" => self.list = Some(List::Provides),
            "requires" => self.list = Some(List::Requires),
            "conflicts" => self.list = Some(List::Conflicts),
            "obsoletes" => self.list = Some(List::Obsoletes),
            "recommends" => self.list = Some(List::Recommends),
            "suggests" => self.list = Some(List::Suggests),
            "entry" => self.entry(attributes)?,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, name: &str, text: &str) -> Result<(), String> {
        match name {
            _ if !self.draft.open => {}
            "name" => self.draft.name = text.to_string(),
            "arch" => self.draft.arch = text.to_string(),
            "checksum" => self.draft.checksum = text.to_string(),
            "file" => {
                let word = self.metadata.words.add(text);
                self.draft.files.push(word);
            }
            "provides" | "requires" | "conflicts" | "obsoletes" | "recommends" | "suggests" => {
                self.list = None
            }
            "package" => self.package()?,
            _ => {}
        }
        Ok(())
    }
}

impl Loader<'_> {
    fn entry(&mut self, attributes: &Attributes<'_>) -> Result<(), String> {
        let Some(list) = self.list else { return Ok(()) };
        let words = &mut self.metadata.words;
        let (mut name, mut relation) = (None, None);
        attributes.each(|key, value| match key {
            "name" => name = Some(words.add(&value)),
            "flags" => {
                relation = match value.as_ref() {
                    "EQ" => Some(Relation::Equal),
                    "GE" => Some(Relation::GreaterOrEqual),
                    "GT" => Some(Relation::Greater),
                    "LE" => Some(Relation::LessOrEqual),
                    "LT" => Some(Relation::Less),
                    _ => None,
                }
            }
            _ => {}
        })?;
        let name = name.ok_or("an entry without a name")?;
        let evr = match relation {
            Some(_) => words.add(&evr(attributes)?),
            None => Word::EMPTY,
        };
        self.draft.lists[list as usize].push(Capability { name, evr, relation });
        Ok(())
    }

    fn package(&mut self) -> Result<(), String> {
        let draft = std::mem::take(&mut self.draft);
        if draft.name.is_empty() || draft.evr.is_empty() || draft.location.is_empty() {
            return Err(format!("package `{}` lacks a name, version or location", draft.name));
        }
        let metadata = &mut *self.metadata;
        let mut add = |mut list: Vec<Capability>| {
            dedup(&mut list);
            let start = metadata.capabilities.len() as u32;
            metadata.capabilities.extend(list);
            start..metadata.capabilities.len() as u32
        };
        let [provides, requires, conflicts, obsoletes, recommends, suggests] = draft.lists.map(&mut add);
        let first_file = metadata.files.len() as u32;
        metadata.files.extend(draft.files);
        metadata.packages.push(Package {
            repo: 0,
            name: metadata.words.add(&draft.name),
            arch: metadata.words.add(&draft.arch),
            evr: metadata.words.add(&draft.evr),
            checksum_type: metadata.words.add(&draft.checksum_type),
            checksum: metadata.words.add(&draft.checksum),
            size: draft.size,
            location: metadata.words.add(&draft.location),
            provides,
            requires,
            conflicts,
            obsoletes,
            recommends,
            suggests,
            files: first_file..metadata.files.len() as u32,
        });
        Ok(())
    }
}

/// The same requirement is often listed twice, once for the scriptlets.
fn dedup(list: &mut Vec<Capability>) {
    let mut seen = std::collections::HashSet::with_capacity(list.len());
    list.retain(|capability| seen.insert(*capability));
}

fn evr(attributes: &Attributes<'_>) -> Result<String, String> {
    let (mut epoch, mut version, mut release) = (String::new(), String::new(), String::new());
    attributes.each(|key, value| match key {
        "epoch" => epoch = value.into_owned(),
        "ver" => version = value.into_owned(),
        "rel" => release = value.into_owned(),
        _ => {}
    })?;
    let mut evr = String::with_capacity(version.len() + release.len() + 4);
    if !epoch.is_empty() && epoch != "0" {
        evr = epoch + ":";
    }
    evr.push_str(&version);
    if !release.is_empty() {
        evr.push('-');
        evr.push_str(&release);
    }
    Ok(evr)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const PRIMARY: &str = r#"<?xml version="1.0"?>
<metadata xmlns="c" xmlns:rpm="r" packages="1">
<package type="rpm"><name>a&amp;b</name><arch>noarch</arch><version epoch="1" ver="2.0" rel="3"/>
<checksum type="sha256" pkgid="YES">ab</checksum><size package="7"/><location href="p/a.rpm"/>
<format><rpm:provides><rpm:entry name="a" flags="EQ" epoch="1" ver="2.0" rel="3"/></rpm:provides>
<rpm:requires><rpm:entry name="/bin/sh" pre="1"/><rpm:entry name="/bin/sh"/><rpm:entry name="b" flags="GE" ver="1"/></rpm:requires>
<file>/usr/bin/a</file></format></package></metadata>"#;

    #[test]
    fn reads_what_the_solver_needs() {
        let mut metadata = Metadata::default();
        metadata.adopt(0, Metadata::parse(PRIMARY.as_bytes()).unwrap(), |_, _, _| true);
        let package = &metadata.packages[0];
        assert_eq!(metadata.name(package), "a&b");
        assert_eq!(metadata.words.get(package.evr), "1:2.0-3");
        let requires: Vec<String> =
            metadata.capabilities(&package.requires).iter().map(|c| metadata.show(c)).collect();
        assert_eq!(requires, ["/bin/sh", "b >= 1"]);
        assert_eq!(metadata.words.get(metadata.files(package)[0]), "/usr/bin/a");
    }

    #[test]
    fn entities_and_cut_files_are_refused() {
        let bomb = "<!DOCTYPE m [<!ENTITY a \"aaaa\">]><metadata>&a;</metadata>";
        let error = Metadata::parse(bomb.as_bytes()).err().unwrap();
        assert!(matches!(error, xml::Error::DocType { .. }), "{error}");
        let cut = &PRIMARY[..PRIMARY.len() - 40];
        assert!(Metadata::parse(cut.as_bytes()).is_err());
    }

    #[test]
    fn versions_overlap_as_rpm_says() {
        use Relation::*;
        let case = |l, le, r, re| overlap((l, Evr::parse(le)), (r, Evr::parse(re)));
        assert!(case(Equal, "1.0-2", GreaterOrEqual, "1.0"));
        assert!(case(Equal, "1.0-2", Equal, "1.0"));
        assert!(!case(Equal, "1.0-2", Equal, "1.0-3"));
        assert!(!case(Equal, "1.0", Greater, "1.0"));
        assert!(case(LessOrEqual, "2", GreaterOrEqual, "2"));
        assert!(!case(Less, "2", GreaterOrEqual, "2"));
        assert!(case(Greater, "1", Less, "1.5"));
        assert!(!case(Equal, "1", Equal, "1:1"));
    }
}
