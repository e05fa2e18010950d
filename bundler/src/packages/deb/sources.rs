//! Where apt takes its packages from: `sources.list`, `sources.list.d/*.list` and the deb822
//! `*.sources`, with their options (sources.list(5)). Text to types; the network is elsewhere.

use crate::http::recorded;
use std::path::{Path, PathBuf};

/// One repository: some suites at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Mirrors of each other, the preferred one first.
    pub urls: Vec<String>,
    /// A suite that ends in `/` makes a flat repository.
    pub suites: Vec<String>,
    pub components: Vec<String>,
    /// Debian's names; empty: any.
    pub architectures: Vec<String>,
    /// Those that it is not asked for, whatever is above.
    pub excluded: Vec<String>,
    pub signed_by: SignedBy,
    /// Accepted without a signature.
    pub trusted: bool,
    pub check_valid_until: bool,
    /// Where it is, for messages: `/etc/apt/sources.list:3`.
    pub place: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedBy {
    /// Whatever keys the machine trusts for every repository.
    Default,
    Files(Vec<PathBuf>),
    /// An armored key inside of the source.
    Inline(String),
    /// Of those keys, the ones with these fingerprints.
    Fingerprints(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSource {
    #[error("{place}: `{}` is not a source: {reason}", printable(.text))]
    Malformed { place: String, text: String, reason: &'static str },
    #[error("{place}: `{}` is neither http, https nor file", printable(.url))]
    Scheme { place: String, url: String },
}

/// The words of a source without the users and passwords of its urls.
fn printable(text: &str) -> String {
    text.split_whitespace().map(recorded).collect::<Vec<_>>().join(" ")
}

impl Source {
    fn new(place: String) -> Self {
        Self {
            urls: Vec::new(),
            suites: Vec::new(),
            components: Vec::new(),
            architectures: Vec::new(),
            excluded: Vec::new(),
            signed_by: SignedBy::Default,
            trusted: false,
            check_valid_until: true,
            place,
        }
    }

    pub fn serves(&self, architecture: &str) -> bool {
        let names = |list: &[String]| list.iter().any(|name| name == architecture);
        (self.architectures.is_empty() || names(&self.architectures)) && !names(&self.excluded)
    }

    pub(super) fn check(self) -> Result<Self, BadSource> {
        let malformed =
            |reason| BadSource::Malformed { place: self.place.clone(), text: self.urls.join(" "), reason };
        if self.urls.is_empty() || self.suites.is_empty() {
            return Err(malformed("it needs a URI and a suite"));
        }
        if self.suites.iter().any(|suite| !suite.ends_with('/')) && self.components.is_empty() {
            return Err(malformed("a suite needs components, or ends in `/`"));
        }
        if self.suites.iter().any(|suite| suite.split('/').any(|part| part == "..")) {
            return Err(malformed("a suite must not contain `..`"));
        }
        let known = |url: &&String| {
            ["http://", "https://", "file:/"].iter().any(|scheme| url.starts_with(scheme))
                // One list is followed; a list of lists is not.
                || (self.urls.len() == 1 && mirror_file(url).is_some())
        };
        if let Some(url) = self.urls.iter().find(|url| !known(url)) {
            return Err(BadSource::Scheme { place: self.place.clone(), url: url.clone() });
        }
        Ok(self)
    }
}

/// The file that lists the mirrors, of a url for apt's `mirror` method (apt-transport-mirror(1)):
/// `mirror+file:///etc/apt/mirrors/debian.list`. Lists on the network are not followed.
pub fn mirror_file(url: &str) -> Option<&str> {
    let path = url.strip_prefix("mirror+file:").or_else(|| url.strip_prefix("mirror:file:"))?;
    Some(path.strip_prefix("//").unwrap_or(path)).filter(|path| path.starts_with('/'))
}

/// The mirrors of such a file, best first: a url a line, and perhaps a tab and more about it.
pub fn parse_mirrors(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut mirrors: Vec<(u32, String)> = Vec::new();
    for line in lines {
        let mut words = line.split_whitespace();
        let Some(url) = words.next() else { continue };
        let priority = words.filter_map(|word| word.strip_prefix("priority:")?.parse().ok()).next();
        // Without a number it comes after all that have one.
        mirrors.push((priority.unwrap_or(u32::MAX), url.to_string()));
    }
    mirrors.sort_by_key(|(priority, _)| *priority);
    mirrors.into_iter().map(|(_, url)| url).collect()
}

/// The one-line style.
pub fn parse_list(file: &Path, text: &str) -> Result<Vec<Source>, BadSource> {
    let mut sources = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        let Some(rest) = line.strip_prefix("deb").filter(|rest| rest.starts_with([' ', '\t', '['])) else {
            // `deb-src` carries no packages, and whatever else there is apt reports itself.
            continue;
        };
        let mut source = Source::new(format!("{}:{}", file.display(), number + 1));
        let place = source.place.clone();
        let malformed =
            |reason| BadSource::Malformed { place: place.clone(), text: line.to_string(), reason };
        let rest = rest.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(|| malformed("`[` is never closed"))?,
            None => ("", rest),
        };
        for option in options.split_whitespace() {
            let (key, value) = option.split_once('=').ok_or_else(|| malformed("an option is `key=value`"))?;
            let values = value.split(',').map(str::to_string);
            set_option(&mut source, key, values.collect());
        }
        let mut words = rest.split_whitespace().map(str::to_string);
        source.urls.extend(words.next());
        source.suites.extend(words.next());
        source.components.extend(words);
        if source.urls.iter().any(|url| url.starts_with("cdrom:")) {
            continue;
        }
        sources.push(source.check()?);
    }
    Ok(sources)
}

/// The deb822 style. Several URIs are several repositories, not mirrors.
pub fn parse_deb822(file: &Path, text: &str) -> Result<Vec<Source>, BadSource> {
    let mut sources = Vec::new();
    for (line, stanza) in stanzas(text) {
        let get = |wanted: &str| {
            let found = stanza.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.as_str())
        };
        let words = |name: &str| -> Vec<String> {
            get(name).unwrap_or("").split_whitespace().map(str::to_string).collect()
        };
        let enabled = get("Enabled").is_none_or(is_true);
        if !enabled || !words("Types").iter().any(|kind| kind == "deb") {
            continue;
        }
        let mut source = Source::new(format!("{}:{line}", file.display()));
        (source.suites, source.components) = (words("Suites"), words("Components"));
        for (key, field) in [
            ("arch", "Architectures"),
            ("arch+", "Architectures-Add"),
            ("arch-", "Architectures-Remove"),
            ("trusted", "Trusted"),
            ("check-valid-until", "Check-Valid-Until"),
        ] {
            if get(field).is_some() {
                set_option(&mut source, key, words(field));
            }
        }
        match get("Signed-By") {
            Some(value) if value.contains("-----BEGIN PGP") => {
                // A lone dot stands for an empty line.
                let lines = value.lines().map(|line| if line.trim() == "." { "" } else { line.trim() });
                let key: Vec<&str> = lines.skip_while(|line| line.is_empty()).collect();
                source.signed_by = SignedBy::Inline(key.join("\n") + "\n");
            }
            Some(_) => set_option(&mut source, "signed-by", words("Signed-By")),
            None => {}
        }
        let urls = words("URIs");
        if urls.is_empty() {
            source.clone().check()?;
        }
        for url in urls.into_iter().filter(|url| !url.starts_with("cdrom:")) {
            sources.push(Source { urls: vec![url], ..source.clone() }.check()?);
        }
    }
    Ok(sources)
}

fn set_option(source: &mut Source, key: &str, values: Vec<String>) {
    let first = values.first().map_or("", String::as_str);
    match key {
        "arch" => source.architectures = values,
        // Without a list of its own it serves any already.
        "arch+" if source.architectures.is_empty() => {}
        "arch+" => source.architectures.extend(values),
        "arch-" => source.excluded.extend(values),
        "trusted" => source.trusted = is_true(first),
        "check-valid-until" => source.check_valid_until = is_true(first),
        "signed-by" => {
            let values: Vec<String> = values.into_iter().filter(|value| !value.is_empty()).collect();
            source.signed_by = match values.first() {
                Some(first) if first.starts_with('/') => {
                    SignedBy::Files(values.into_iter().map(PathBuf::from).collect())
                }
                Some(_) => SignedBy::Fingerprints(values),
                None => SignedBy::Default,
            };
        }
        // The others say how to fetch or what besides packages.
        _ => {}
    }
}

fn is_true(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "yes" | "true" | "with" | "on" | "enable" | "1")
}

type Stanza = Vec<(String, String)>;

/// Paragraphs with the line each begins at. Comments may be anywhere, even inside of a field.
fn stanzas(text: &str) -> Vec<(usize, Stanza)> {
    let mut found: Vec<(usize, Stanza)> = Vec::new();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            open = false;
            continue;
        }
        if !open {
            found.push((number + 1, Vec::new()));
            open = true;
        }
        let Some((_, stanza)) = found.last_mut() else { continue };
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = stanza.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            stanza.push((name.trim().to_string(), value.trim().to_string()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_one_line_style() {
        let text = "# comment\n\
            deb-src http://a/ s main\n\
            deb [arch=amd64,arm64 signed-by=/k.gpg trusted=yes check-valid-until=no] http://a/debian sid main contrib # c\n\
            deb http://flat/ ./\n\
            deb cdrom:[Debian]/ sid main\n";
        let sources = parse_list(Path::new("s.list"), text).unwrap();
        assert_eq!(sources.len(), 2);
        let first = &sources[0];
        assert_eq!(first.place, "s.list:3");
        assert_eq!(first.urls, ["http://a/debian"]);
        assert_eq!((first.suites.as_slice(), first.components.len()), (&["sid".to_string()][..], 2));
        assert_eq!(first.architectures, ["amd64", "arm64"]);
        assert_eq!(first.signed_by, SignedBy::Files(vec!["/k.gpg".into()]));
        assert!(first.trusted && !first.check_valid_until);
        assert_eq!(sources[1].suites, ["./"]);
    }

    #[test]
    fn architectures_are_set_added_and_taken_away() {
        let served = |source: &Source| ["amd64", "arm64"].map(|name| source.serves(name));
        for (options, expected) in [
            ("arch=amd64", [true, false]),
            ("arch+=arm64", [true, true]),
            ("arch=amd64 arch+=arm64", [true, true]),
            ("arch-=i386", [true, true]),
            ("arch-=i386,arm64", [true, false]),
            ("arch=amd64,arm64 arch-=amd64", [false, true]),
        ] {
            let line = format!("deb [{options}] http://a/ sid main\n");
            let sources = parse_list(Path::new("s.list"), &line).unwrap();
            assert_eq!(served(&sources[0]), expected, "{options}");
        }
        let stanza = "Types: deb\nURIs: http://a/\nSuites: s\nComponents: main\n";
        for (field, expected) in
            [("Architectures-Remove: i386 arm64", [true, false]), ("Architectures-Add: arm64", [true, true])]
        {
            let sources = parse_deb822(Path::new("a.sources"), &format!("{stanza}{field}\n")).unwrap();
            assert_eq!(served(&sources[0]), expected, "{field}");
        }
    }

    #[test]
    fn reads_deb822_with_comments_and_inline_keys() {
        let text = "Types: deb deb-src\n# in between\nURIs: http://a/ https://b/\nSuites: s s-updates\n\
            Components: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n \
            -----END PGP PUBLIC KEY BLOCK-----\n\nTypes: deb\nEnabled: no\nURIs: x\n";
        let sources = parse_deb822(Path::new("a.sources"), text).unwrap();
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[1].urls, ["https://b/"]);
        assert_eq!(sources[0].suites, ["s", "s-updates"]);
        let key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc\n-----END PGP PUBLIC KEY BLOCK-----\n";
        assert_eq!(sources[0].signed_by, SignedBy::Inline(key.into()));
    }

    #[test]
    fn mirrors_come_from_their_file_best_first() {
        let file = "/etc/apt/mirrors/debian.list";
        for scheme in ["mirror+file:", "mirror+file://"] {
            assert_eq!(mirror_file(&format!("{scheme}{file}")), Some(file));
        }
        assert_eq!(mirror_file("mirror+http://a/list"), None);
        let text = "# near\nhttps://b/debian\n\nhttps://c/debian\tpriority:2 arch:amd64\nhttps://a/debian\tpriority:1\n";
        assert_eq!(parse_mirrors(text), ["https://a/debian", "https://c/debian", "https://b/debian"]);
    }

    #[test]
    fn says_what_is_no_source_and_where() {
        let error = parse_list(Path::new("s.list"), "deb http://a/ sid\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "s.list:1: `http://a/` is not a source: a suite needs components, or ends in `/`"
        );
        assert!(matches!(
            parse_list(Path::new("s.list"), "deb ftp://a/ sid main\n"),
            Err(BadSource::Scheme { .. })
        ));
        assert!(parse_list(Path::new("s.list"), "deb http://a/ ../ \n").is_err());
        for text in
            ["deb http://u:p@a/ sid\n", "deb ftp://u:p@a/ sid main\n", "deb [x http://u:p@a/ s main\n"]
        {
            let error = parse_list(Path::new("s.list"), text).unwrap_err().to_string();
            assert!(error.contains("//a/") && !error.contains("u:p"), "{error}");
        }
    }
}
