//! The machine's own apt setup: its sources, its keys, and the few settings that matter here.
//! apt itself need not be installed.

use super::sources::{self, BadSource, SignedBy, Source};
use crate::http::{Route, Way};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use url::Url;

/// A root folder with apt's files below it: `/`, or a test's.
#[derive(Debug, Clone)]
pub struct System {
    root: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Source(#[from] BadSource),
    #[error("cannot read `{}`", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("this machine has no apt sources")]
    NoSources,
    #[error("apt's configuration names a proxy for `{host}` that is not a url")]
    Proxy { host: String },
}

impl Default for System {
    fn default() -> Self {
        Self::at("/")
    }
}

impl System {
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// All enabled sources, in apt's order.
    pub fn sources(&self) -> Result<Vec<Source>, Error> {
        let mut found = Vec::new();
        let main = self.path("etc/apt/sources.list");
        let mut files = if main.exists() { vec![main] } else { Vec::new() };
        files.extend(self.files_in("etc/apt/sources.list.d", &["list", "sources"])?);
        for file in files {
            let text = std::fs::read_to_string(&file)
                .map_err(|source| Error::Read { file: file.clone(), source })?;
            match file.extension() {
                Some(extension) if extension == "sources" => {
                    found.extend(sources::parse_deb822(&file, &text)?)
                }
                _ => found.extend(sources::parse_list(&file, &text)?),
            }
        }
        if found.is_empty() {
            return Err(Error::NoSources);
        }
        let check_valid_until = self.check_valid_until()?;
        for source in &mut found {
            *source = self.with_mirrors(source.clone())?;
            source.check_valid_until &= check_valid_until;
            // Key files are named as the machine sees them.
            if let SignedBy::Files(files) = &mut source.signed_by {
                for file in files {
                    *file = self.path(file.strip_prefix("/").unwrap_or(file));
                }
            }
        }
        Ok(found)
    }

    /// In place of a url that names a list of mirrors, the mirrors; cloud images have such sources.
    fn with_mirrors(&self, mut source: Source) -> Result<Source, Error> {
        let [url] = source.urls.as_slice() else { return Ok(source) };
        let Some(list) = sources::mirror_file(url) else { return Ok(source) };
        let file = self.path(list.trim_start_matches('/'));
        let text = std::fs::read_to_string(&file).map_err(|source| Error::Read { file, source })?;
        source.urls = sources::parse_mirrors(&text);
        Ok(source.check()?)
    }

    /// The key files that are trusted for every source that names none. A machine without
    /// apt has no such list: there, the archives' own keyrings.
    pub fn trusted_keys(&self) -> Result<Vec<PathBuf>, Error> {
        let single = self.path("etc/apt/trusted.gpg");
        let mut files = if single.exists() { vec![single] } else { Vec::new() };
        files.extend(self.files_in("etc/apt/trusted.gpg.d", &["gpg", "asc"])?);
        if files.is_empty() {
            let keyrings = self.files_in("usr/share/keyrings", &["gpg", "asc"])?;
            let is_archive = |file: &PathBuf| {
                file.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("-archive-keyring"))
            };
            files.extend(keyrings.into_iter().filter(is_archive));
        }
        Ok(files)
    }

    /// How apt reaches the hosts of its sources, where its configuration says so: by
    /// `Acquire::http::Proxy::HOST`, else by `Acquire::http::Proxy`. What is not said of https
    /// is taken from http.
    pub fn routes(&self) -> Result<Vec<Route>, Error> {
        let sources = match self.sources() {
            Err(Error::NoSources) => return Ok(Vec::new()),
            sources => sources?,
        };
        let settings = self.settings()?;
        let mut routes: Vec<Route> = Vec::new();
        for url in sources.iter().flat_map(|source| &source.urls).filter_map(|url| Url::parse(url).ok()) {
            let Some(host) = url.host_str().filter(|_| !routes.iter().any(|route| route.leads_to(&url)))
            else {
                continue;
            };
            let of = |name: &str| setting(&settings, &format!("Acquire::{name}"));
            let names = [format!("Proxy::{host}"), "Proxy".to_string()];
            let proxy = names.iter().find_map(|name| {
                of(&format!("{}::{name}", url.scheme())).or_else(|| of(&format!("http::{name}")))
            });
            let way = match proxy.as_deref() {
                None => continue,
                Some("DIRECT") => Way::Direct,
                Some(proxy) => {
                    Way::Proxy(Url::parse(proxy).map_err(|_| Error::Proxy { host: host.to_string() })?)
                }
            };
            routes.push(Route { scheme: url.scheme().to_string(), host: host.to_string(), way });
        }
        Ok(routes)
    }

    fn check_valid_until(&self) -> Result<bool, Error> {
        let value = setting(&self.settings()?, "Acquire::Check-Valid-Until");
        Ok(value.is_none_or(|value| !matches!(value.as_str(), "false" | "no" | "0")))
    }

    /// apt's configuration as lines: as apt understands it where apt is there, else as its files
    /// stand, the one that counts last.
    fn settings(&self) -> Result<String, Error> {
        if let Some(dump) = self.dump() {
            return Ok(dump);
        }
        let mut files = self.files_in("etc/apt/apt.conf.d", &["", "conf"])?;
        files.push(self.path("etc/apt/apt.conf"));
        let texts: Vec<String> = files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect();
        Ok(texts.join("\n"))
    }

    /// What `apt-config dump` prints, if this is the machine itself and has apt. Asked once.
    fn dump(&self) -> Option<String> {
        static DUMP: LazyLock<Option<String>> = LazyLock::new(|| {
            let output = Command::new("apt-config").arg("dump").output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        });
        if self.root == Path::new("/") { DUMP.clone() } else { None }
    }

    fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.root.join(below)
    }

    /// The files of a folder with one of these extensions, sorted as apt does: by name.
    fn files_in(&self, folder: &str, extensions: &[&str]) -> Result<Vec<PathBuf>, Error> {
        let folder = self.path(folder);
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::Read { file: folder, source }),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(|source| Error::Read { file: folder.clone(), source })?.path();
            let extension = path.extension().map(|e| e.to_string_lossy().into_owned()).unwrap_or_default();
            if extensions.contains(&extension.as_str()) && path.is_file() {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

/// The value of a setting on one line: `Scope::Name "value";`. Nested scopes are not read.
fn setting(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.starts_with('#'));
    let mut found = None;
    for line in lines {
        let Some((front, value)) = line.split_at_checked(name.len()) else { continue };
        let is_it = front.eq_ignore_ascii_case(name) && value.starts_with([' ', '\t', '"']);
        let value = value.trim().trim_end_matches(';').trim().trim_matches('"');
        if is_it && !value.is_empty() {
            found = Some(value.to_string());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_styles_in_order_with_keys_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        let apt = root.path().join("etc/apt");
        for folder in ["sources.list.d", "apt.conf.d", "trusted.gpg.d"] {
            std::fs::create_dir_all(apt.join(folder)).unwrap();
        }
        let write = |path: &str, text: &str| std::fs::write(apt.join(path), text).unwrap();
        write("sources.list", "deb http://one/ s main\n");
        write("sources.list.d/b.list", "deb [signed-by=/usr/k.gpg] http://three/ s main\n");
        write("sources.list.d/a.sources", "Types: deb\nURIs: http://two/\nSuites: s\nComponents: main\n");
        write("sources.list.d/c.list.disabled", "deb http://four/ s main\n");
        write("apt.conf.d/99x", "// words\nacquire::check-valid-until \"false\";\n");
        write("trusted.gpg.d/k.asc", "");
        let system = System::at(root.path());
        let sources = system.sources().unwrap();
        let urls: Vec<&str> = sources.iter().map(|source| source.urls[0].as_str()).collect();
        assert_eq!(urls, ["http://one/", "http://two/", "http://three/"]);
        assert!(sources.iter().all(|source| !source.check_valid_until));
        assert_eq!(sources[2].signed_by, SignedBy::Files(vec![root.path().join("usr/k.gpg")]));
        assert_eq!(system.trusted_keys().unwrap(), [apt.join("trusted.gpg.d/k.asc")]);
        assert!(matches!(System::at("/nowhere").sources(), Err(Error::NoSources)));
    }

    /// As Debian's cloud images have it.
    #[test]
    fn lists_of_mirrors_are_read() {
        let root = tempfile::tempdir().unwrap();
        let apt = root.path().join("etc/apt");
        for folder in ["sources.list.d", "mirrors"] {
            std::fs::create_dir_all(apt.join(folder)).unwrap();
        }
        let write = |path: &str, text: &str| std::fs::write(apt.join(path), text).unwrap();
        write(
            "sources.list.d/debian.sources",
            "Types: deb\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: s\nComponents: main\n",
        );
        let system = System::at(root.path());
        assert!(matches!(system.sources(), Err(Error::Read { .. })));
        write("mirrors/debian.list", "https://deb.debian.org/debian\n#https://off/\nhttp://near/debian\n");
        let sources = system.sources().unwrap();
        assert_eq!(sources.len(), 1);
        assert_eq!(sources[0].urls, ["https://deb.debian.org/debian", "http://near/debian"]);
        for (list, expected) in
            [("# none\n", "needs a URI"), ("mirror+file:///x\nftp://a/\n", "neither http")]
        {
            write("mirrors/debian.list", list);
            let error = system.sources().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn proxies_are_those_of_apt() {
        let root = tempfile::tempdir().unwrap();
        let apt = root.path().join("etc/apt");
        std::fs::create_dir_all(&apt).unwrap();
        let sources =
            ["http://far/", "http://near/", "https://far/", "https://safe/", "file:/disk/", "http://far/x"];
        let lines: Vec<String> = sources.iter().map(|url| format!("deb {url} s main\n")).collect();
        std::fs::write(apt.join("sources.list"), lines.concat()).unwrap();
        let routes = |settings: &str| {
            std::fs::write(apt.join("apt.conf"), settings).unwrap();
            let shown = |route: Route| match route.way {
                Way::Direct => format!("{}://{} direct", route.scheme, route.host),
                Way::Proxy(url) => format!("{}://{} by {url}", route.scheme, route.host),
            };
            System::at(root.path()).routes().map(|routes| routes.into_iter().map(shown).collect::<Vec<_>>())
        };
        assert!(routes("Acquire::http::Proxy-Auto-Detect \"/bin/x\";\n").unwrap().is_empty());
        let settings = "Acquire::http::Proxy \"http://proxy:3128\";\nAcquire::http::Proxy::near \"DIRECT\";\n\
                        Acquire::https::Proxy::safe \"http://other:1\";\n";
        let expected = [
            "http://far by http://proxy:3128/",
            "http://near direct",
            "https://far by http://proxy:3128/",
            "https://safe by http://other:1/",
        ];
        assert_eq!(routes(settings).unwrap(), expected);
        assert!(routes("Acquire::http::Proxy \"no url\";").is_err());
        assert!(System::at("/nowhere").routes().unwrap().is_empty());
    }
}
