//! A Debian package: its members in order, and its control fields. What dpkg-deb refuses is malformed.
//!
//! 1. An `ar` archive: `debian-binary`, `control.tar[.gz|.xz|.zst]`, `data.tar…`; members whose name
//!    begins with `_` may come between them, and are skipped
//! 2. `debian-binary` is format 2
//! 3. In the control tar, the file `control`; no folders
//! 4. In that file, one deb822 paragraph

use super::{Problem, malformed, read_bounded, read_up_to};
use crate::archive::{Fault, Format, Limits, MemberKind, inflate, walk_tar};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

pub const MAGIC: &[u8; 8] = b"!<arch>\n";

const LONGEST_CONTROL_TAR: u64 = 32 << 20;
/// What the control tar may inflate to.
const LONGEST_INFLATED: u64 = 256 << 20;
const LONGEST_CONTROL: u64 = 4 << 20;
const LONGEST_SKIPPED: u64 = 1 << 20;
/// Members that are skipped: `_gpg…` on some packages.
const MOST_SKIPPED: usize = 8;

/// A package's control fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deb {
    /// By name as written in the package; continuation lines are joined by newlines.
    pub fields: BTreeMap<String, String>,
}

impl Deb {
    pub fn name(&self) -> &str {
        self.field("Package")
    }

    pub fn version(&self) -> &str {
        self.field("Version")
    }

    /// Debian's spelling; `all` for every arch.
    pub fn architecture(&self) -> &str {
        self.field("Architecture")
    }

    /// Empty if the package does not have it. Names are compared without case.
    pub fn field(&self, name: &str) -> &str {
        let exact = self.fields.get(name);
        let any =
            || self.fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        exact.or_else(any).map_or("", String::as_str)
    }
}

/// Reads up to the end of the control tar, and nothing of the data.
pub fn read(reader: &mut dyn Read) -> Result<Deb, Problem> {
    let mut members = Members::open(reader)?;
    members.control()
}

/// The members of a package, in the only order that dpkg-deb takes.
pub struct Members<'a> {
    reader: &'a mut dyn Read,
    skipped: usize,
}

struct Header {
    name: String,
    size: u64,
}

impl<'a> Members<'a> {
    /// Steps 1 and 2.
    pub fn open(reader: &'a mut dyn Read) -> Result<Self, Problem> {
        if read_bounded(reader, 8, 8, "magic")? != MAGIC {
            return malformed("it is not an ar archive");
        }
        let mut members = Self { reader, skipped: 0 };
        let first = members.header()?;
        if first.as_ref().is_none_or(|first| first.name != "debian-binary") {
            return malformed("it does not begin with `debian-binary`");
        }
        let size = first.map_or(0, |first| first.size);
        let format = members.content(size, 64, "`debian-binary`")?;
        let format = String::from_utf8_lossy(&format).into_owned();
        match format.split_once('\n').map(|(line, _)| line.split('.').collect::<Vec<_>>()) {
            Some(parts) if parts.len() == 2 && parts[0] == "2" && is_number(parts[1]) => Ok(members),
            _ => malformed(format!("it is of format `{}`, not 2.0", format.trim_end().escape_debug())),
        }
    }

    /// Steps 3 and 4: the first member that counts.
    pub fn control(&mut self) -> Result<Deb, Problem> {
        let Some(Header { name, size }) = self.next()? else {
            return malformed("it has no control archive");
        };
        let format = match name.as_str() {
            "control.tar" => Format::Tar,
            "control.tar.gz" => Format::TarGz,
            "control.tar.xz" => Format::TarXz,
            "control.tar.zst" => Format::TarZst,
            other if other.starts_with("control.tar") => {
                return malformed(format!("its `{}` has an unknown compression", other.escape_debug()));
            }
            other => {
                return malformed(format!(
                    "its member `{}` comes before a control archive",
                    other.escape_debug()
                ));
            }
        };
        let packed = self.content(size, LONGEST_CONTROL_TAR, "control archive")?;
        parse(&find_control(&packed, format)?)
    }

    /// The second member that counts: its name, and its content, which ends early in a package that does.
    pub fn data(&mut self) -> Result<(String, Content<'_>), Problem> {
        match self.next()? {
            Some(header) if header.name.starts_with("data.tar") => {
                let content =
                    Content { reader: &mut *self.reader, left: header.size, padded: header.size % 2 == 1 };
                Ok((header.name, content))
            }
            Some(header) => Err(misplaced(&header.name)),
            None => malformed("it has no data archive"),
        }
    }

    /// After the data nothing that counts may follow.
    pub fn end(&mut self) -> Result<(), Problem> {
        match self.next()? {
            None => Ok(()),
            Some(header) => Err(misplaced(&header.name)),
        }
    }

    /// The next member that counts.
    fn next(&mut self) -> Result<Option<Header>, Problem> {
        loop {
            match self.header()? {
                Some(header) if header.name.starts_with('_') => {
                    self.skipped += 1;
                    if self.skipped > MOST_SKIPPED {
                        return malformed("it has too many members");
                    }
                    self.content(header.size, LONGEST_SKIPPED, "ar member")?;
                }
                header => return Ok(header),
            }
        }
    }

    /// A member of up to `limit` bytes, and the byte that makes its size even.
    fn content(&mut self, size: u64, limit: u64, what: &str) -> Result<Vec<u8>, Problem> {
        let bytes = read_bounded(self.reader, size, limit, what)?;
        if size % 2 == 1 {
            read_up_to(self.reader, &mut [0])?;
        }
        Ok(bytes)
    }

    /// `None` at the end.
    fn header(&mut self) -> Result<Option<Header>, Problem> {
        let mut header = [0; 60];
        match read_up_to(self.reader, &mut header)? {
            0 => return Ok(None),
            length if length < header.len() => return malformed("it ends inside an ar header"),
            _ => {}
        }
        let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&header[range]).into_owned();
        let size = text(48..58);
        let size = Some(size.trim_end_matches(' ')).filter(|size| is_number(size));
        match size.and_then(|size| size.parse().ok()) {
            Some(size) if &header[58..] == b"`\n" => {
                let name = text(0..16);
                Ok(Some(Header { name: name.trim_end_matches(' ').trim_end_matches('/').to_string(), size }))
            }
            _ => malformed("its ar header is damaged"),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn misplaced(name: &str) -> Problem {
    Problem::Malformed(match name.starts_with("control.tar") {
        true => "it has two control archives".to_string(),
        false => format!("its member `{}` is not in its place", name.escape_debug()),
    })
}

/// Content that must be complete, and the byte behind it.
pub struct Content<'a> {
    reader: &'a mut dyn Read,
    left: u64,
    padded: bool,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            if std::mem::take(&mut self.padded) {
                read_up_to(self.reader, &mut [0])?;
            }
            return Ok(0);
        }
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let length = self.reader.read(&mut buffer[..most])?;
        if length == 0 && most > 0 {
            return Err(std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                "it ends inside its data archive",
            ));
        }
        self.left -= length as u64;
        Ok(length)
    }
}

fn find_control(packed: &[u8], format: Format) -> Result<String, Problem> {
    let bad = |error: String| Problem::Malformed(format!("its control archive is damaged: {error}"));
    let mut control = None;
    let limits = Limits { unpacked: LONGEST_INFLATED, setuid: true };
    let tar = inflate(packed, format).map_err(|error| bad(error.to_string()))?;
    let result = walk_tar(tar, limits, &mut |member, content| {
        let is_file = matches!(member.kind, MemberKind::File { .. });
        if matches!(member.kind, MemberKind::Folder) || member.path.contains('/') {
            return Err(format!("`{}` is a folder or in one", member.path).into());
        }
        if member.path == "control" && is_file {
            let mut bytes = Vec::new();
            content.take(LONGEST_CONTROL + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > LONGEST_CONTROL {
                return Err(
                    format!("its control file is longer than the limit of {LONGEST_CONTROL} bytes").into()
                );
            }
            control = Some(bytes);
        }
        Ok(())
    });
    result.map_err(|fault| match fault {
        Fault::Refused(why) => bad(why),
        Fault::Io(error) => bad(error.to_string()),
        Fault::Visitor(error) => bad(error.to_string()),
    })?;
    match control {
        Some(bytes) => String::from_utf8(bytes).or_else(|_| malformed("its control file is not UTF-8")),
        None => malformed("its control archive has no control file"),
    }
}

/// Parses one deb822 paragraph: the only one, with no field twice.
pub fn parse(control: &str) -> Result<Deb, Problem> {
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut last: Option<(String, String)> = None;
    let mut lines = control.lines();
    for line in lines.by_ref().take_while(|line| !line.trim().is_empty()) {
        if line.starts_with('#') {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            let Some((_, value)) = &mut last else {
                return malformed("its control file begins with a continuation");
            };
            value.push('\n');
            value.push_str(line.trim());
        } else {
            let Some((name, value)) = line.split_once(':') else {
                return malformed(format!(
                    "its control file has a line without a field: `{}`",
                    line.escape_debug()
                ));
            };
            if !seen.insert(name.to_ascii_lowercase()) {
                return malformed(format!("its control file has `{}` twice", name.escape_debug()));
            }
            fields.extend(last.replace((name.to_string(), value.trim().to_string())));
        }
    }
    fields.extend(last);
    if lines.any(|line| !line.trim().is_empty()) {
        return malformed("its control file has several paragraphs");
    }
    let deb = Deb { fields };
    for required in ["Package", "Version", "Architecture"] {
        if deb.field(required).is_empty() {
            return malformed(format!("its control file has no `{required}`"));
        }
    }
    let plain = |text: &str, more: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let named = [("Package", "-+._"), ("Version", "-+.~:"), ("Architecture", "-")];
    if let Some((field, _)) = named.iter().find(|(field, more)| !plain(deb.field(field), more)) {
        return malformed(format!("its `{field}` is `{}`", deb.field(field).escape_debug()));
    }
    Ok(deb)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROL: &str =
        "Package: socat\nVersion: 1.7.4.4-2\nArchitecture: amd64\nDepends: libc6 (>= 2.34),\n libssl3\n";

    fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (name, content) in members {
            bytes.extend(
                format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100644, content.len()).bytes(),
            );
            bytes.extend(*content);
            if content.len() % 2 == 1 {
                bytes.push(b'\n');
            }
        }
        bytes
    }

    fn control_tar() -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(CONTROL.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, "./control", CONTROL.as_bytes()).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn reads_every_compression_of_the_control_archive() {
        use std::io::Write as _;
        let plain = control_tar();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&plain).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(&plain).unwrap();
        let packed = [
            ("control.tar", plain.clone()),
            ("control.tar.gz", gz.finish().unwrap()),
            ("control.tar.xz", xz.finish().unwrap()),
            ("control.tar.zst/", zstd::encode_all(&plain[..], 1).unwrap()),
        ];
        for (name, content) in packed {
            let bytes = ar(&[("debian-binary", b"2.0\n"), (name, &content), ("data.tar.xz", b"")]);
            let deb = read(&mut &bytes[..]).unwrap();
            assert_eq!(
                (deb.name(), deb.version(), deb.architecture()),
                ("socat", "1.7.4.4-2", "amd64"),
                "{name}"
            );
            assert_eq!(deb.field("depends"), "libc6 (>= 2.34),\nlibssl3");
        }
    }

    fn refused(bytes: &[u8]) -> String {
        read(&mut &bytes[..]).unwrap_err().to_string()
    }

    #[test]
    fn damage_is_malformed() {
        let whole = ar(&[("debian-binary", b"2.0\n"), ("control.tar", &control_tar())]);
        for length in [0, 8, 20, 70, 100, 600, 1000] {
            let outcome = read(&mut &whole[..length]);
            assert!(matches!(outcome, Err(Problem::Malformed(_))), "{length}");
        }
        let huge = ar(&[("debian-binary", b"2.0\n")]);
        let mut huge =
            [huge, format!("{:<16}{:<32}{:<10}`\n", "control.tar", "", 9_999_999_999_u64).into_bytes()]
                .concat();
        huge.extend([0; 100]);
        assert!(refused(&huge).contains("limit"));
    }

    #[test]
    fn members_come_in_the_order_of_dpkg() {
        let (binary, control) = (("debian-binary", &b"2.0\n"[..]), control_tar());
        let control = ("control.tar", &control[..]);
        let signed = ar(&[binary, ("_gpgorigin", b"x"), control, ("data.tar", b"")]);
        assert!(read(&mut &signed[..]).is_ok());
        for (why, members) in [
            ("begin with `debian-binary`", vec![control]),
            ("begin with `debian-binary`", vec![("foreign", &b"x"[..]), binary, control]),
            ("comes before a control archive", vec![binary, ("foreign", b"x"), control]),
            ("comes before a control archive", vec![binary, ("data.tar", b""), control]),
            ("format `3.0`", vec![("debian-binary", b"3.0\n"), control]),
            ("format `2.0`", vec![("debian-binary", b"2.0"), control]),
            ("no control archive", vec![binary]),
            ("unknown compression", vec![binary, ("control.tar.lz4", b"")]),
        ] {
            let found = refused(&ar(&members));
            assert!(found.contains(why), "{found} lacks {why}");
        }
        for (why, behind) in
            [("two control archives", "control.tar"), ("`data.tar` is not in its place", "data.tar")]
        {
            let bytes = ar(&[binary, control, ("data.tar", b"x"), (behind, b"")]);
            let mut reader = &bytes[..];
            let mut members = Members::open(&mut reader).unwrap();
            members.control().unwrap();
            let mut content = Vec::new();
            let (name, mut data) = members.data().unwrap();
            data.read_to_end(&mut content).unwrap();
            assert_eq!((name.as_str(), &content[..]), ("data.tar", &b"x"[..]));
            assert!(members.end().unwrap_err().to_string().contains(why));
        }
    }

    #[test]
    fn what_is_in_the_control_archive() {
        let with = |path: &str, content: &str| {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            let mut builder = tar::Builder::new(Vec::new());
            builder.append(&header, content.as_bytes()).unwrap();
            [builder.into_inner().unwrap()[..1024].to_vec(), control_tar()].concat()
        };
        let of = |control: Vec<u8>| refused(&ar(&[("debian-binary", b"2.0\n"), ("control.tar", &control)]));
        assert!(of(with("../../etc/passwd", "x")).contains("`..`"));
        assert!(of(with("/etc/passwd", "x")).contains("absolute"));
        assert!(of(with("etc/passwd", "x")).contains("folder"));
        assert!(of(with("control", "x")).contains("twice"));
    }

    #[test]
    fn a_control_file_is_one_paragraph() {
        for (why, text) in [
            ("several paragraphs", format!("{CONTROL}\nPackage: other\n")),
            ("has `package` twice", format!("{CONTROL}package: other\n")),
            ("its `Package` is `../x`", CONTROL.replace("socat", "../x")),
            ("its `Version` is `1 2`", CONTROL.replace("1.7.4.4-2", "1 2")),
        ] {
            let found = parse(&text).unwrap_err().to_string();
            assert!(found.contains(why), "{found} lacks {why}");
        }
        parse(&format!("{CONTROL}\n\n")).unwrap();
    }
}
