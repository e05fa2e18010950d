//! A `Packages` file reduced to what resolving needs, so that it loads in milliseconds.
//!
//! A Debian suite's `Packages` is nine tenths descriptions, tags and hashes of no use here.
//! Distilled once and kept in the cache under the digest of the file that the signed Release
//! names, it is a text of records, a blank line after each:
//!
//! ```text
//! NAME ⇥ VERSION ⇥ ARCHITECTURE ⇥ FLAGS ⇥ RANK ⇥ SIZE ⇥ SHA256 ⇥ FILENAME
//! P provides      R pre-depends      D depends      C conflicts      B breaks      E recommends
//! ```
//!
//! and, after a line `=`, `NAME ⇥ RANK` of packages that are only mentioned. A rank is the
//! position of a name's first mention: where apt finds two providers equally good it takes
//! the one that it heard of last, and so do we.

use std::collections::HashMap;
use std::io::{self, Read};

/// Part of the cache key: change it when the layout changes.
pub const LAYOUT: &str = "1";

/// More than any suite has; a bomb stops here.
const MAX_BYTES: u64 = 1 << 30;
const MAX_STANZA: usize = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("is larger than {MAX_BYTES} bytes when decompressed")]
    TooLarge,
    #[error("is not UTF-8 text near package `{0}`")]
    NotText(String),
    #[error("has a paragraph without `{field}` near package `{near}`")]
    Missing { field: &'static str, near: String },
    #[error("names an unsafe path `{path}` for package `{package}`")]
    UnsafePath { package: String, path: String },
    #[error("has a broken size `{size}` for package `{package}`")]
    BadSize { package: String, size: String },
}

pub fn distill(input: &mut dyn Read) -> Result<String, Error> {
    let mut distiller = Distiller { out: String::new(), ranks: HashMap::new(), last: String::new() };
    let mut input = input.take(MAX_BYTES + 1);
    let mut buffer: Vec<u8> = Vec::with_capacity(2 << 20);
    let mut total = 0;
    loop {
        let before = buffer.len();
        let read = input.by_ref().take(1 << 20).read_to_end(&mut buffer)?;
        total += read as u64;
        if total > MAX_BYTES {
            return Err(Error::TooLarge);
        }
        let mut start = 0;
        // A blank line may straddle two reads.
        let mut from = before.saturating_sub(1);
        while let Some(at) = memchr::memmem::find(&buffer[from..], b"\n\n") {
            distiller.stanza(&buffer[start..from + at + 1])?;
            start = from + at + 2;
            from = start;
        }
        if read == 0 {
            distiller.stanza(&buffer[start..])?;
            return Ok(distiller.finish());
        }
        buffer.drain(..start);
        if buffer.len() > MAX_STANZA {
            return Err(Error::TooLarge);
        }
    }
}

/// The fields that are kept, as they are in the paragraph.
#[derive(Default)]
struct Stanza<'a> {
    package: &'a str,
    version: &'a str,
    architecture: &'a str,
    multi_arch: &'a str,
    essential: &'a str,
    important: &'a str,
    priority: &'a str,
    size: &'a str,
    sha256: &'a str,
    filename: &'a str,
    /// In the order in which apt reads them: that decides the ranks.
    relations: [&'a str; 9],
}

const RELATIONS: [(&str, Option<char>); 9] = [
    ("pre-depends", Some('R')),
    ("depends", Some('D')),
    ("conflicts", Some('C')),
    ("breaks", Some('B')),
    ("recommends", Some('E')),
    ("suggests", None),
    ("replaces", None),
    ("enhances", None),
    ("provides", Some('P')),
];

struct Distiller {
    out: String,
    ranks: HashMap<String, (u32, bool)>,
    last: String,
}

impl Distiller {
    fn stanza(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let text = std::str::from_utf8(bytes).map_err(|_| Error::NotText(self.last.clone()))?;
        if text.trim().is_empty() {
            return Ok(());
        }
        let stanza = parse(text);
        for (field, value) in [
            ("Package", stanza.package),
            ("Version", stanza.version),
            ("Architecture", stanza.architecture),
            ("Filename", stanza.filename),
            ("Size", stanza.size),
        ] {
            if value.is_empty() || value.contains(['\t', '\n']) {
                let near = if stanza.package.is_empty() { &self.last } else { stanza.package };
                return Err(Error::Missing { field, near: near.to_string() });
            }
        }
        self.last = stanza.package.to_string();
        if !is_safe(stanza.filename) {
            let (package, path) = (stanza.package.to_string(), stanza.filename.to_string());
            return Err(Error::UnsafePath { package, path });
        }
        if stanza.size.parse::<u64>().is_err() {
            let (package, size) = (stanza.package.to_string(), stanza.size.to_string());
            return Err(Error::BadSize { package, size });
        }
        let rank = self.mention(stanza.package, true);
        for field in stanza.relations {
            for name in field.split([',', '|']).filter_map(bare_name) {
                self.mention(name, false);
            }
        }
        self.write(&stanza, rank);
        Ok(())
    }

    fn mention(&mut self, name: &str, defined: bool) -> u32 {
        if let Some((rank, known)) = self.ranks.get_mut(name) {
            *known |= defined;
            return *rank;
        }
        let rank = u32::try_from(self.ranks.len()).unwrap_or(u32::MAX);
        self.ranks.insert(name.to_string(), (rank, defined));
        rank
    }

    fn write(&mut self, stanza: &Stanza<'_>, rank: u32) {
        let head = [
            stanza.package,
            stanza.version,
            stanza.architecture,
            &flags(stanza),
            &rank.to_string(),
            stanza.size,
            stanza.sha256,
            stanza.filename,
        ];
        self.out.push_str(&head.join("\t"));
        self.out.push('\n');
        // Provides first: it is the only relation that is read for every package.
        let provides_first = RELATIONS.iter().zip(stanza.relations).rev();
        let (provides, others): (Vec<_>, Vec<_>) =
            provides_first.partition(|((_, tag), _)| *tag == Some('P'));
        for ((_, tag), value) in provides.into_iter().chain(others.into_iter().rev()) {
            let Some(tag) = tag.filter(|_| !value.is_empty()) else { continue };
            self.out.push(tag);
            // A folded field becomes one line.
            self.out.extend(value.chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }));
            self.out.push('\n');
        }
        self.out.push('\n');
    }

    fn finish(mut self) -> String {
        let mut mentioned: Vec<_> = self.ranks.iter().filter(|(_, (_, defined))| !defined).collect();
        mentioned.sort_by_key(|(_, (rank, _))| *rank);
        self.out.push_str("=\n");
        for (name, (rank, _)) in mentioned {
            self.out.push_str(&format!("{name}\t{rank}\n"));
        }
        self.out
    }
}

fn parse(text: &str) -> Stanza<'_> {
    let mut stanza = Stanza::default();
    let bytes = text.as_bytes();
    let mut start = 0;
    while start < bytes.len() {
        // A field goes on over lines that begin with a blank.
        let mut end = start;
        loop {
            end = memchr::memchr(b'\n', &bytes[end..]).map_or(bytes.len(), |at| end + at);
            match bytes.get(end + 1) {
                Some(b' ' | b'\t') => end += 1,
                _ => break,
            }
        }
        let field = &text[start..end];
        start = end + 1;
        let Some((name, value)) = field.split_once(':') else { continue };
        let value = value.trim();
        let slot = match name.to_ascii_lowercase().as_str() {
            "package" => &mut stanza.package,
            "version" => &mut stanza.version,
            "architecture" => &mut stanza.architecture,
            "multi-arch" => &mut stanza.multi_arch,
            "essential" => &mut stanza.essential,
            "important" | "protected" => &mut stanza.important,
            "priority" => &mut stanza.priority,
            "size" => &mut stanza.size,
            "sha256" => &mut stanza.sha256,
            "filename" => &mut stanza.filename,
            other => match RELATIONS.iter().position(|(relation, _)| *relation == other) {
                Some(number) => &mut stanza.relations[number],
                None => continue,
            },
        };
        *slot = value;
    }
    stanza
}

/// The name of a relation's target, with its qualifier: apt holds `a:any` for a name.
fn bare_name(target: &str) -> Option<&str> {
    let target = target.trim_start();
    let end = target.find([' ', '\t', '\n', '(', '[', '<']).unwrap_or(target.len());
    Some(&target[..end]).filter(|name| !name.is_empty())
}

/// The priority as apt numbers it, then letters: `e`ssential, `i`mportant, and Multi-Arch's
/// `a`llowed, `f`oreign, `s`ame.
fn flags(stanza: &Stanza<'_>) -> String {
    let mut flags = String::from(match stanza.priority {
        "required" => "1",
        "important" => "2",
        "standard" => "3",
        "optional" => "4",
        "" => "0",
        _ => "5",
    });
    let letters = [
        (stanza.essential == "yes", 'e'),
        (stanza.important == "yes", 'i'),
        (stanza.multi_arch == "allowed", 'a'),
        (stanza.multi_arch == "foreign", 'f'),
        (stanza.multi_arch == "same", 's'),
    ];
    flags.extend(letters.iter().filter(|(set, _)| *set).map(|(_, letter)| letter));
    flags
}

/// A relative path without `..`; `./` at the front is how flat repositories write.
fn is_safe(path: &str) -> bool {
    !path.starts_with('/')
        && !path.contains(['\\', '\0', '?', '#'])
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "Package: a\nVersion: 1\nArchitecture: all\nEssential: yes\nPriority: required\n\
        Multi-Arch: foreign\nDepends: b (>= 1) | c,\n d\nProvides: v (= 2)\nDescription: words\n more: words\n\
        Filename: ./a.deb\nSize: 5\nSHA256: 00\n\n\
        Package: c\nVersion: 2\nArchitecture: amd64\nFilename: pool/c.deb\nSize: 6\n";

    #[test]
    fn keeps_what_resolving_needs() {
        let text = distill(&mut TWO.as_bytes()).unwrap();
        assert_eq!(
            text,
            "a\t1\tall\t1ef\t0\t5\t00\t./a.deb\nPv (= 2)\nDb (>= 1) | c,  d\n\n\
             c\t2\tamd64\t0\t2\t6\t\tpool/c.deb\n\n=\nb\t1\nd\t3\nv\t4\n"
        );
    }

    #[test]
    fn stanzas_may_straddle_reads() {
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0.take(1).read(buffer).inspect(|n| self.0 = &self.0[*n..])
            }
        }
        assert_eq!(distill(&mut Slow(TWO.as_bytes())).unwrap(), distill(&mut TWO.as_bytes()).unwrap());
    }

    #[test]
    fn refuses_paths_that_leave_the_repository() {
        for path in ["../a.deb", "/etc/a.deb", "pool/../../a.deb", "a\\b.deb"] {
            let text = format!("Package: a\nVersion: 1\nArchitecture: all\nFilename: {path}\nSize: 1\n");
            let error = distill(&mut text.as_bytes()).unwrap_err();
            assert!(matches!(error, Error::UnsafePath { .. }), "{path}: {error}");
        }
        let error = distill(&mut "Package: a\nVersion: 1\n".as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "has a paragraph without `Architecture` near package `a`");
    }
}
