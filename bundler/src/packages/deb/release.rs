//! A suite's Release file: which index files there are, with their digests, and how far the
//! suite is to be trusted and preferred.

use super::world::Priority;
use eggo_bundles::Digest;
use std::collections::HashMap;

#[derive(Debug, Clone)]
pub struct Release {
    /// When it was made, in Unix seconds; `None` also for one that cannot be read.
    pub date: Option<i64>,
    /// Unix seconds.
    pub valid_until: Option<i64>,
    pub by_hash: bool,
    pub priority: Priority,
    /// Empty: not said.
    pub architectures: Vec<String>,
    /// `all` packages are only in files of their own.
    pub separate_all: bool,
    files: HashMap<String, Listed>,
    /// Whether there is a list under a hash that is no longer good.
    has_weak: bool,
}

/// An index file that the Release vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub path: String,
    pub sha256: Digest,
    pub size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRelease {
    #[error("has only weak hashes (MD5 or SHA1), no SHA256")]
    WeakHashes,
    #[error("lists no files")]
    NoFiles,
    #[error("has a line `{0}` under SHA256 that is not `DIGEST SIZE PATH`")]
    BadLine(String),
    #[error("has a date `{0}` that cannot be read")]
    BadDate(String),
}

impl Release {
    pub fn parse(text: &str) -> Result<Self, BadRelease> {
        let mut release = Self {
            date: None,
            valid_until: None,
            by_hash: false,
            priority: Priority::Normal,
            architectures: Vec::new(),
            separate_all: false,
            files: HashMap::new(),
            has_weak: false,
        };
        let (mut not_automatic, mut but_upgrades) = (false, false);
        let mut in_sha256 = false;
        for line in text.lines() {
            if line.starts_with([' ', '\t']) {
                if in_sha256 {
                    let listed = parse_file(line)?;
                    release.files.insert(listed.path.clone(), listed);
                }
                continue;
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            in_sha256 = name == "sha256";
            match name.as_str() {
                "date" => release.date = parse_date(value).ok(),
                "valid-until" => release.valid_until = Some(parse_date(value)?),
                "acquire-by-hash" => release.by_hash = value == "yes",
                "notautomatic" => not_automatic = value == "yes",
                "butautomaticupgrades" => but_upgrades = value == "yes",
                "architectures" => {
                    release.architectures = value.split_whitespace().map(str::to_string).collect();
                }
                "no-support-for-architecture-all" => release.separate_all = value != "Packages",
                "md5sum" | "sha1" => release.has_weak = true,
                _ => {}
            }
        }
        // Where `all` is named among the architectures and nothing is said against it.
        let says =
            text.lines().any(|line| line.to_ascii_lowercase().starts_with("no-support-for-architecture-all"));
        release.separate_all =
            if says { release.separate_all } else { release.architectures.iter().any(|a| a == "all") };
        release.priority = match (not_automatic, but_upgrades) {
            (false, _) => Priority::Normal,
            (true, true) => Priority::OnlyUpgrades,
            (true, false) => Priority::NotAutomatic,
        };
        match (release.files.is_empty(), release.has_weak) {
            (false, _) => Ok(release),
            (true, true) => Err(BadRelease::WeakHashes),
            (true, false) => Err(BadRelease::NoFiles),
        }
    }

    /// The `Packages` file in `folder`, in the form that is quickest to read.
    pub fn packages(&self, folder: &str) -> Option<&Listed> {
        let folder = folder.trim_start_matches("./");
        let forms = [".zst", ".xz", ".gz", ".bz2", ""];
        forms.iter().find_map(|form| {
            let path = format!("{folder}Packages{form}");
            self.files.get(&path).or_else(|| self.files.get(&format!("./{path}")))
        })
    }
}

fn parse_file(line: &str) -> Result<Listed, BadRelease> {
    let bad = || BadRelease::BadLine(line.trim().to_string());
    let mut words = line.split_whitespace();
    let (digest, size, path) = (words.next(), words.next(), words.next());
    let sha256 = digest.and_then(|digest| digest.parse().ok()).ok_or_else(bad)?;
    let size = size.and_then(|size| size.parse().ok()).ok_or_else(bad)?;
    let path = path
        .filter(|path| !path.starts_with('/') && path.split('/').all(|part| part != ".."))
        .ok_or_else(bad)?;
    Ok(Listed { path: path.to_string(), sha256, size })
}

/// `Sat, 10 Jun 2023 08:53:33 UTC`
fn parse_date(text: &str) -> Result<i64, BadRelease> {
    let bad = || BadRelease::BadDate(text.to_string());
    let words: Vec<&str> = text.split_whitespace().collect();
    // Some writers leave the weekday out, or write the zone as +0000.
    let words = if words.first().is_some_and(|word| word.ends_with(',')) { &words[1..] } else { &words[..] };
    let [day, month, year, time, zone @ ..] = words else { return Err(bad()) };
    if !matches!(zone, [] | ["UTC" | "GMT" | "Z" | "+0000"]) {
        return Err(bad());
    }
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|name| name == month).ok_or_else(bad)? as i8 + 1;
    let mut clock = time.split(':').map(|part| part.parse::<i8>());
    let mut next = || clock.next().and_then(Result::ok).ok_or_else(bad);
    let (hour, minute, second) = (next()?, next()?, next()?);
    let year = year.parse::<i16>().map_err(|_| bad())?;
    let day = day.parse::<i8>().map_err(|_| bad())?;
    let date = jiff::civil::DateTime::new(year, month, day, hour, minute, second, 0).map_err(|_| bad())?;
    Ok(date.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| bad())?.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn reads_what_matters() {
        let text = format!(
            "Origin: Debian\nDate: Sat, 10 Jun 2023 08:53:33 UTC\nValid-Until: Sat, 17 Jun 2023 08:53:33 UTC\nAcquire-By-Hash: yes\n\
             NotAutomatic: yes\nButAutomaticUpgrades: yes\nArchitectures: all amd64 arm64\n\
             No-Support-for-Architecture-all: Packages\nMD5Sum:\n 00 1 x\nSHA256:\n \
             {DIGEST} 3 main/binary-amd64/Packages\n {DIGEST} 4 main/binary-amd64/Packages.xz\n"
        );
        let release = Release::parse(&text).unwrap();
        assert_eq!((release.date, release.valid_until), (Some(1_686_387_213), Some(1_686_992_013)));
        assert!(release.by_hash && !release.separate_all);
        assert_eq!(release.priority, Priority::OnlyUpgrades);
        assert_eq!(release.packages("main/binary-amd64/").unwrap().path, "main/binary-amd64/Packages.xz");
        assert_eq!(release.packages("main/binary-arm64/"), None);
    }

    #[test]
    fn refuses_weak_hashes_and_escaping_paths() {
        assert_eq!(Release::parse("MD5Sum:\n 00 1 Packages\n").unwrap_err(), BadRelease::WeakHashes);
        assert_eq!(Release::parse("Origin: x\n").unwrap_err(), BadRelease::NoFiles);
        for path in ["../Packages", "/Packages"] {
            let text = format!("SHA256:\n {DIGEST} 3 {path}\n");
            assert!(matches!(Release::parse(&text).unwrap_err(), BadRelease::BadLine(_)), "{path}");
        }
        assert!(matches!(Release::parse("Valid-Until: soon\n").unwrap_err(), BadRelease::BadDate(_)));
    }
}
