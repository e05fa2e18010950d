//! The control fields of a Debian package.
//!
//! 1. An `ar` archive: `debian-binary`, `control.tar[.gz|.xz|.zst]`, `data.tar…`
//! 2. In the control tar, the file `control`
//! 3. In that file, one deb822 paragraph

use super::{Problem, malformed, read_bounded, read_up_to};
use std::collections::BTreeMap;
use std::io::{self, Read};

pub const MAGIC: &[u8; 8] = b"!<arch>\n";

const LONGEST_CONTROL_TAR: u64 = 32 << 20;
/// What the control tar may inflate to before `control` is found in it.
const LONGEST_INFLATED: u64 = 256 << 20;
const LONGEST_CONTROL: u64 = 4 << 20;
/// Members before the control tar: only `debian-binary`, and `_gpg…` on some packages.
const MOST_MEMBERS: usize = 8;

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
    if read_bounded(reader, 8, 8, "magic")? != MAGIC {
        return malformed("it is not an ar archive");
    }
    for _ in 0..MOST_MEMBERS {
        let mut header = [0; 60];
        if read_up_to(reader, &mut header)? < header.len() {
            break;
        }
        let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&header[range]).trim().to_string();
        let name = text(0..16);
        let name = name.trim_end_matches('/');
        let size: u64 = match text(48..58).parse() {
            Ok(size) if &header[58..] == b"`\n" => size,
            _ => return malformed("its ar header is damaged"),
        };
        if name.starts_with("control.tar") {
            let packed = read_bounded(reader, size, LONGEST_CONTROL_TAR, "control archive")?;
            let control = find_control(inflate(name, &packed)?)?;
            return parse(&control);
        }
        if name.starts_with("data.tar") {
            break;
        }
        let padded = size + size % 2;
        read_bounded(reader, padded, 1 << 20, "ar member")?;
    }
    malformed("it has no control archive")
}

fn inflate<'a>(name: &str, packed: &'a [u8]) -> Result<Box<dyn Read + 'a>, Problem> {
    Ok(match name {
        "control.tar" => Box::new(packed),
        "control.tar.gz" => Box::new(flate2::read::MultiGzDecoder::new(packed)),
        "control.tar.xz" => Box::new(liblzma::read::XzDecoder::new(packed)),
        "control.tar.zst" => Box::new(zstd::stream::read::Decoder::new(packed)?),
        other => return malformed(format!("its `{}` has an unknown compression", other.escape_debug())),
    })
}

fn find_control(tar: Box<dyn Read + '_>) -> Result<String, Problem> {
    let bad = |error: io::Error| Problem::Malformed(format!("its control archive is damaged: {error}"));
    let mut archive = tar::Archive::new(tar.take(LONGEST_INFLATED));
    for entry in archive.entries().map_err(bad)? {
        let mut entry = entry.map_err(bad)?;
        let path = entry.path_bytes();
        if matches!(path.as_ref(), b"./control" | b"control") {
            let size = entry.size();
            let bytes =
                read_bounded(&mut entry, size, LONGEST_CONTROL, "control file").map_err(|problem| {
                    match problem {
                        Problem::Io(error) => bad(error),
                        other => other,
                    }
                })?;
            return String::from_utf8(bytes).or_else(|_| malformed("its control file is not UTF-8"));
        }
    }
    malformed("its control archive has no control file")
}

/// Parses one deb822 paragraph.
pub fn parse(control: &str) -> Result<Deb, Problem> {
    let mut fields = BTreeMap::new();
    let mut last: Option<(String, String)> = None;
    for line in control.lines().take_while(|line| !line.trim().is_empty()) {
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
            fields.extend(last.replace((name.to_string(), value.trim().to_string())));
        }
    }
    fields.extend(last);
    let deb = Deb { fields };
    for required in ["Package", "Version", "Architecture"] {
        if deb.field(required).is_empty() {
            return malformed(format!("its control file has no `{required}`"));
        }
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
        assert!(read(&mut &huge[..]).unwrap_err().to_string().contains("limit"));
        assert!(read(&mut &ar(&[("data.tar", b"")])[..]).is_err());
    }
}
