//! From a source to its distilled index files: fetched, verified, cached.
//!
//! 1. InRelease, or Release with Release.gpg; a repository without a signature only where the
//!    manifest or the source says so.
//! 2. Its signature, by the keys of the source; its Valid-Until.
//! 3. The `Packages` files that it lists, by hash where the repository offers that. A digest
//!    that does not fit means that the repository changed in between: begin again, once.
//!
//! Step 1 asks the server each time; steps 2 and 3 work on what it said, and a `Packages`
//! file that is known by its digest is not fetched or read again.

use super::distill;
use super::release::{BadRelease, Listed, Release};
use super::sources::{SignedBy, Source};
use super::system::{self, System};
use super::world::Index;
use crate::Tools;
use crate::http::{self, Download, Request};
use crate::lock::LockedRepo;
use crate::packages::blocking;
use crate::packages::history::{self, History, Setback};
use crate::packages::openpgp::{Keyring, Signer, Untrusted};
use eggo_bundles::Arch;
use eggo_terminal::Explain;
use futures::future::try_join_all;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use url::Url;

const MAX_RELEASE: u64 = 64 << 20;
const MAX_DISTILLED: u64 = 512 << 20;

/// A repo of the manifest: some sources under one name.
#[derive(Debug, Clone)]
pub struct Repo {
    pub name: String,
    pub sources: Vec<Source>,
    pub exclude: Vec<String>,
    /// The archs that it serves; empty: whatever the Release files list.
    pub archs: Vec<Arch>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("repo `{repo}`: cannot fetch {file}")]
    Fetch { repo: String, file: String, source: Box<http::Error> },
    #[error("repo `{repo}`: `{url}` is not signed: it has neither InRelease nor Release.gpg")]
    Unsigned { repo: String, url: String },
    #[error("repo `{repo}`: `{url}` has no Release file")]
    NoRelease { repo: String, url: String },
    #[error("repo `{repo}`: `{url}` is not to be trusted: {reason}")]
    Untrusted { repo: String, url: String, reason: Untrusted },
    #[error("repo `{repo}`: no key is known that could vouch for `{url}`")]
    NoKeys { repo: String, url: String },
    #[error("repo `{repo}`: key file `{}`", .file.display())]
    KeyFile { repo: String, file: PathBuf, source: io::Error },
    #[error("repo `{repo}`: key `{name}`: {reason}")]
    BadKey { repo: String, name: String, reason: Untrusted },
    #[error("repo `{repo}`: `{url}` expired on {until} (Valid-Until)")]
    Expired { repo: String, url: String, until: String },
    #[error("repo `{repo}`: `{url}` {reason}")]
    Release { repo: String, url: String, reason: BadRelease },
    #[error("repo `{repo}`: `{url}` lists no `{path}`")]
    NotListed { repo: String, url: String, path: String },
    #[error("repo `{repo}`: `{url}` {reason}")]
    Packages { repo: String, url: String, reason: distill::Error },
    #[error(transparent)]
    Setback(#[from] Setback),
    #[error(transparent)]
    System(#[from] system::Error),
    #[error(transparent)]
    Cache(#[from] crate::cache::Error),
}

impl Explain for Error {
    fn notes(&self) -> Vec<String> {
        match self {
            Error::Fetch { source, .. } => source.notes(),
            Error::Setback(setback) => setback.notes(),
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::Fetch { file, source, .. } if file.contains("/binary-") && is_missing(source) => {
                "if this server does not have every arch, name those that it has with `archs`"
            }
            Error::Fetch { source, .. } => return source.hint(),
            Error::Setback(setback) => return setback.hint(),
            Error::Unsigned { .. } => {
                "a repo without signature is used only with `allow-unsigned: true`, and the bundle records it"
            }
            Error::NoRelease { .. } => "check the url and the suite; a flat repository's suite ends in `/`",
            Error::Untrusted { reason: Untrusted::UnknownKey(_), .. } | Error::NoKeys { .. } => {
                "name the repository's key file with `signed-by`"
            }
            Error::Untrusted { reason: Untrusted::ExpiredKey(_), .. } => {
                "get the repository's current key and name it with `signed-by`"
            }
            Error::KeyFile { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                "distributions ship their keys as packages (debian-archive-keyring, ubuntu-keyring): install it, \
                 or name with `signed-by` where the key is"
            }
            Error::Untrusted { .. } => "do not use it; try another mirror",
            Error::Expired { .. } => {
                "the mirror is out of date: use another one, or set `check-valid-until: false` of this repo if it is \
                 to stay as it was"
            }
            Error::System(system::Error::NoSources) => {
                "write the repo out in the manifest: `url`, `suites`, `components`, `signed-by`"
            }
            Error::System(_) | Error::NotListed { .. } => {
                "fix the source, or write the repo out in the manifest"
            }
            _ => return None,
        };
        Some(hint.to_string())
    }
}

/// Whether no mirror has the file.
fn is_missing(error: &http::Error) -> bool {
    match error {
        http::Error::Mirrors { errors, .. } => errors.iter().all(is_missing),
        http::Error::Read { source, .. } => source.kind() == io::ErrorKind::NotFound,
        error => error.status() == Some(404),
    }
}

impl Error {
    /// Whether the repository may have changed between two requests.
    fn is_race(&self) -> bool {
        let Error::Fetch { source, .. } = self else { return false };
        fn stale(error: &http::Error) -> bool {
            match error {
                http::Error::WrongDigest { .. } | http::Error::WrongSize { .. } => true,
                http::Error::Status { status, .. } => *status == 404,
                http::Error::Mirrors { errors, .. } => errors.iter().any(stale),
                _ => false,
            }
        }
        stale(source)
    }
}

pub struct Loaded {
    /// For each arch, in the order of the sources.
    pub indexes: Vec<(Arch, Vec<Index>)>,
    /// The suites, for the lock.
    pub seen: Vec<LockedRepo>,
}

/// The index files of all `repos` for each of `archs`.
pub async fn load(
    repos: &[Repo],
    archs: &[Arch],
    system: &System,
    history: &History,
    tools: Tools<'_>,
) -> Result<Loaded, Error> {
    let mut suites = Vec::new();
    for repo in repos {
        for source in &repo.sources {
            for suite in &source.suites {
                suites.push(Suite { repo, source, suite, system, history, tools });
            }
        }
    }
    let loaded = try_join_all(suites.iter().map(|suite| suite.load(archs))).await?;
    let mut per_arch: Vec<(Arch, Vec<Index>)> = archs.iter().map(|arch| (*arch, Vec::new())).collect();
    let mut seen = Vec::new();
    for (suite, indexes) in loaded {
        seen.push(suite);
        for (arch, index) in indexes {
            if let Some((_, indexes)) = per_arch.iter_mut().find(|(known, _)| *known == arch) {
                indexes.push(index);
            }
        }
    }
    Ok(Loaded { indexes: per_arch, seen })
}

/// One suite of one source.
struct Suite<'a> {
    repo: &'a Repo,
    source: &'a Source,
    suite: &'a str,
    system: &'a System,
    history: &'a History,
    tools: Tools<'a>,
}

impl Suite<'_> {
    async fn load(&self, archs: &[Arch]) -> Result<(LockedRepo, Vec<(Arch, Index)>), Error> {
        match self.load_once(archs).await {
            Err(error) if error.is_race() => self.load_once(archs).await,
            result => result,
        }
    }

    async fn load_once(&self, archs: &[Arch]) -> Result<(LockedRepo, Vec<(Arch, Index)>), Error> {
        let (release, signer) = self.release().await?;
        let seen = self.seen(&release, signer.as_ref());
        self.history.check_signature(&seen, self.tools.progress)?;
        self.history.check_age(&seen, self.tools.progress)?;
        let mut wanted = Vec::new();
        for arch in archs.iter().filter(|arch| self.serves(**arch)) {
            let files = self.wanted(&release, arch.as_str())?;
            wanted.extend(files.into_iter().map(|(label, listed)| (*arch, label, listed)));
        }
        let (release, signer) = (&release, signer.as_ref());
        let load = |(arch, label, listed): (Arch, String, Listed)| async move {
            let text = self.distilled(release, &listed).await?;
            Ok::<_, Error>((arch, self.index(&label, release, signer, text)))
        };
        Ok((seen, try_join_all(wanted.into_iter().map(load)).await?))
    }

    fn seen(&self, release: &Release, signer: Option<&Signer>) -> LockedRepo {
        LockedRepo {
            name: self.name(),
            url: http::recorded(&self.source.urls[0]),
            suite: Some(self.suite.to_string()),
            arch: None,
            key: signer.map(|signer| signer.fingerprint.clone()),
            date: release.date.and_then(history::date),
            revision: None,
        }
    }

    fn serves(&self, arch: Arch) -> bool {
        let of_repo = &self.repo.archs;
        (of_repo.is_empty() || of_repo.contains(&arch)) && self.source.serves(arch.as_str())
    }

    fn index(&self, label: &str, release: &Release, signer: Option<&Signer>, text: String) -> Index {
        Index {
            repo: self.repo.name.clone(),
            suite: label.to_string(),
            urls: self.source.urls.clone(),
            key: signer.map(|signer| signer.fingerprint.clone()),
            priority: release.priority,
            exclude: self.repo.exclude.clone(),
            text,
        }
    }

    /// The `Packages` files for an architecture, each with a name for messages.
    fn wanted(&self, release: &Release, arch: &str) -> Result<Vec<(String, Listed)>, Error> {
        if self.is_flat() {
            let listed = release.packages("").ok_or_else(|| self.not_listed("Packages"))?;
            return Ok(vec![(self.suite.to_string(), listed.clone())]);
        }
        let mut found = Vec::new();
        for component in &self.source.components {
            let folder = |arch: &str| format!("{component}/binary-{arch}/");
            let label = format!("{}/{component}", self.suite);
            match release.packages(&folder(arch)) {
                Some(listed) => found.push((label.clone(), listed.clone())),
                // A suite may be without an architecture, or have nothing but `all` in it.
                None if !release.architectures.iter().any(|a| a == arch) => {}
                None => return Err(self.not_listed(&format!("{}Packages", folder(arch)))),
            }
            if release.separate_all
                && let Some(listed) = release.packages(&folder("all"))
            {
                found.push((label, listed.clone()));
            }
        }
        Ok(found)
    }

    async fn release(&self) -> Result<(Release, Option<Signer>), Error> {
        let now = SystemTime::now();
        let (url, text, signer) = self.signed_text(now).await?;
        let release = Release::parse(&text).map_err(|reason| Error::Release {
            repo: self.name(),
            url: url.clone(),
            reason,
        })?;
        if let Some(until) = release.valid_until.filter(|_| self.source.check_valid_until) {
            let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
            if until < i64::try_from(seconds).unwrap_or(i64::MAX) {
                let until = jiff::Timestamp::from_second(until).map_or(until.to_string(), |t| t.to_string());
                return Err(Error::Expired { repo: self.name(), url, until });
            }
        }
        Ok((release, signer))
    }

    /// The Release text and who vouches for it; `None` only where that is allowed.
    async fn signed_text(&self, now: SystemTime) -> Result<(String, String, Option<Signer>), Error> {
        if let Some((url, bytes)) = self.fetch("InRelease").await? {
            if self.source.trusted && self.keyring(&url).is_err() {
                return Ok((url, strip_signature(&bytes), None));
            }
            let keys = self.keyring(&url)?;
            let (verified, bytes) = blocking(move || (keys.verify_cleartext(&bytes, now), bytes)).await;
            return match verified {
                Ok((text, signer)) => Ok((url, text, Some(signer))),
                Err(Untrusted::UnknownKey(_)) if self.source.trusted => {
                    Ok((url, strip_signature(&bytes), None))
                }
                Err(reason) => Err(Error::Untrusted { repo: self.name(), url, reason }),
            };
        }
        let Some((url, bytes)) = self.fetch("Release").await? else {
            return Err(Error::NoRelease {
                repo: self.name(),
                url: self.shown(&self.base(&self.source.urls[0])),
            });
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match self.fetch("Release.gpg").await? {
            Some(_) if self.source.trusted && self.keyring(&url).is_err() => Ok((url, text, None)),
            Some((_, signature)) => match self.keyring(&url)?.verify_detached(&signature, &bytes, now) {
                Ok(signer) => Ok((url, text, Some(signer))),
                Err(Untrusted::UnknownKey(_)) if self.source.trusted => Ok((url, text, None)),
                Err(reason) => Err(Error::Untrusted { repo: self.name(), url, reason }),
            },
            None if self.source.trusted => Ok((url, text, None)),
            None => Err(Error::Unsigned { repo: self.name(), url }),
        }
    }

    /// A file beside the Release from the first mirror that answers; `None` if none has it.
    async fn fetch(&self, file: &str) -> Result<Option<(String, Vec<u8>)>, Error> {
        let mut last = None;
        for base in &self.source.urls {
            let url = self.url(&format!("{}{file}", self.base(base)))?;
            let request = Request::get(url.clone(), MAX_RELEASE);
            match self.tools.http.metadata(&request, self.tools.cache).await {
                Ok(answer) => return Ok(Some((http::shown(&url), answer.bytes.to_vec()))),
                Err(error) if matches!(error.status(), Some(403 | 404 | 410)) => {}
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) => Err(self.failed(file, error)),
            None => Ok(None),
        }
    }

    fn keyring(&self, url: &str) -> Result<Keyring, Error> {
        let repo = || self.name();
        let mut keyring = Keyring::default();
        let mut add = |name: String, bytes: &[u8], lenient: bool| match keyring.add(bytes) {
            Err(_) if lenient => Ok(()),
            Err(reason) => Err(Error::BadKey { repo: repo(), name, reason }),
            Ok(()) => Ok(()),
        };
        let read = |file: &Path| {
            std::fs::read(file).map_err(|source| Error::KeyFile { repo: repo(), file: file.into(), source })
        };
        match &self.source.signed_by {
            SignedBy::Files(files) => {
                for file in files {
                    add(file.display().to_string(), &read(file)?, false)?;
                }
            }
            SignedBy::Inline(key) => add("of the source".to_string(), key.as_bytes(), false)?,
            SignedBy::Default | SignedBy::Fingerprints(_) => {
                for file in self.system.trusted_keys()? {
                    add(file.display().to_string(), &read(&file)?, true)?;
                }
            }
        }
        if let SignedBy::Fingerprints(fingerprints) = &self.source.signed_by {
            keyring = keyring.only(fingerprints);
        }
        if keyring.is_empty() {
            return Err(Error::NoKeys { repo: self.name(), url: url.to_string() });
        }
        Ok(keyring)
    }

    /// The distilled form of an index file, from the cache where it was made before.
    async fn distilled(&self, release: &Release, listed: &Listed) -> Result<String, Error> {
        let key = format!("deb-distilled:{}:{}", distill::LAYOUT, listed.sha256);
        // Other suites and archs have theirs to read.
        let (cache, known) = (self.tools.cache.clone(), key.clone());
        let recall = move || cache.derived(&known, MAX_DISTILLED);
        if let Some(bytes) = blocking(recall).await?
            && let Ok(text) = String::from_utf8(bytes)
        {
            return Ok(text);
        }
        let file = self.packages(release, listed).await?;
        let name = listed.path.clone();
        let distilled = blocking(move || distill_file(&file, &name)).await;
        let text = distilled.map_err(|reason| Error::Packages {
            repo: self.name(),
            url: self.shown(&format!("{}{}", self.base(&self.source.urls[0]), listed.path)),
            reason,
        })?;
        self.tools.cache.keep_derived(&key, text.as_bytes())?;
        Ok(text)
    }

    async fn packages(&self, release: &Release, listed: &Listed) -> Result<PathBuf, Error> {
        let mut urls = Vec::new();
        for base in &self.source.urls {
            let base = self.base(base);
            if release.by_hash {
                let folder = listed.path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let slash = if folder.is_empty() { "" } else { "/" };
                urls.push(self.url(&format!("{base}{folder}{slash}by-hash/SHA256/{}", listed.sha256))?);
            }
            urls.push(self.url(&format!("{base}{}", listed.path))?);
        }
        let label = format!("{} {}", self.suite.trim_end_matches('/'), listed.path);
        let download = Download::new(label, urls).expect(Some(listed.sha256), Some(listed.size));
        let done = self.tools.http.download(&download, self.tools.cache, self.tools.progress).await;
        Ok(done.map_err(|error| self.failed(&listed.path, error))?.path)
    }

    fn is_flat(&self) -> bool {
        self.suite.ends_with('/')
    }

    /// The folder of the Release file, with `/` at its end.
    fn base(&self, url: &str) -> String {
        let url = url.trim_end_matches('/');
        match self.suite.trim_start_matches("./") {
            "" | "/" => format!("{url}/"),
            flat if self.is_flat() => format!("{url}/{}", flat.trim_start_matches('/')),
            suite => format!("{url}/dists/{suite}/"),
        }
    }

    fn url(&self, text: &str) -> Result<Url, Error> {
        http::url(text).map_err(|error| self.failed(&http::recorded(text), error))
    }

    fn failed(&self, file: &str, error: http::Error) -> Error {
        let file = format!("`{file}` of {}", self.suite.trim_end_matches('/'));
        Error::Fetch { repo: self.name(), file, source: Box::new(error) }
    }

    fn not_listed(&self, path: &str) -> Error {
        let url = self.shown(&self.base(&self.source.urls[0]));
        Error::NotListed { repo: self.name(), url, path: path.to_string() }
    }

    fn shown(&self, url: &str) -> String {
        Url::parse(url).map_or(http::recorded(url), |url| http::shown(&url))
    }

    fn name(&self) -> String {
        self.repo.name.clone()
    }
}

fn distill_file(path: &Path, name: &str) -> Result<String, distill::Error> {
    let file = BufReader::with_capacity(1 << 17, std::fs::File::open(path)?);
    let mut input: Box<dyn Read> = match name.rsplit_once('.') {
        Some((_, "xz")) => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(file)),
        Some((_, "gz")) => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        Some((_, "zst")) => Box::new(zstd::stream::read::Decoder::with_buffer(file)?),
        Some((_, "bz2")) => Box::new(bzip2::bufread::MultiBzDecoder::new(file)),
        _ => Box::new(file),
    };
    distill::distill(&mut input)
}

/// What is between the armor of a message whose signature nobody checks.
fn strip_signature(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let Some((_, body)) = text.split_once("\n\n").filter(|_| text.starts_with("-----BEGIN PGP SIGNED"))
    else {
        return text.into_owned();
    };
    let body = body.split_once("\n-----BEGIN PGP SIGNATURE").map_or(body, |(body, _)| body);
    format!("{body}\n")
}
