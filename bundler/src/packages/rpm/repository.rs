//! A repository's metadata, from its urls to packages in memory.
//!
//! 1. The variables in its urls are replaced; mirror lists and metalinks are asked for mirrors.
//! 2. `repomd.xml` comes from the first mirror that has one; where a metalink says which ones are
//!    right, from the first mirror that has one of those.
//! 3. Its signature is checked against the repository's keys. Many repositories have none: then
//!    nothing vouches for the metadata, and every package must be signed itself ([`super::proof`]).
//!    Without keys the manifest has to say that unsigned is fine. Where the lock knows of a signature,
//!    or of newer metadata, the [`History`] refuses less.
//! 4. The files it names are fetched by their sha256. A mirror that changes between two requests
//!    gives other files than promised: then steps 2 to 4 are done once more.

use super::inflate::{inflate, whole_text};
use super::metadata::{Metadata, Word};
use super::modules::{self, Filter, Modules};
use super::repomd::{self, Repomd};
use super::sources::{self, NoValue};
use super::{filelists, packed, world, xml};
use crate::Tools;
use crate::http::{self, Download, Request, recorded};
use crate::lock::LockedRepo;
use crate::packages::blocking;
use crate::packages::history::{self, History, Setback};
use crate::packages::openpgp::{Keyring, Untrusted};
use crate::packages::pattern::matches;
use eggo_bundles::{Arch, Digest};
use eggo_terminal::Explain;
use std::collections::HashSet;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::time::SystemTime;
use url::Url;

const MAX_SMALL: u64 = 4 << 20;
const MAX_METADATA: u64 = 1 << 30;
/// Of a metadata file after decompression, where `repomd.xml` does not say.
const MAX_OPEN: u64 = 4 << 30;
/// Of `modules.yaml`, which is read whole.
const MAX_MODULES: u64 = 256 << 20;

/// A repository as the manifest or a `.repo` file describes it, for one arch.
#[derive(Debug, Clone)]
pub struct Place {
    pub name: String,
    pub arch: Arch,
    pub urls: Vec<String>,
    pub mirrorlist: Option<String>,
    pub metalink: Option<String>,
    pub releasever: Option<String>,
    /// Paths relative to `folder`, `file:` or `https:` urls.
    pub keys: Vec<String>,
    pub folder: PathBuf,
    pub allow_unsigned: bool,
    /// As in [`crate::manifest::Repo::repo_gpgcheck`].
    pub repo_gpgcheck: Option<bool>,
    pub exclude: Vec<String>,
    pub modules: Vec<String>,
    /// Its packages count whatever modules say.
    pub module_hotfixes: bool,
    /// Keys of a `.repo` file that dnf would go by, and nobody here does.
    pub ignored: Vec<String>,
}

/// A repository whose packages are loaded.
#[derive(Debug, Clone)]
pub struct Repository {
    pub name: String,
    /// Its mirrors, the one that answered first.
    pub roots: Vec<Url>,
    /// Its metadata, for the lock.
    pub seen: LockedRepo,
    pub filelists: Option<repomd::Data>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("repo `{repo}`: {source}")]
    Variable { repo: String, source: NoValue },
    #[error("repo `{repo}`: {source}")]
    Http { repo: String, source: Box<http::Error> },
    #[error("repo `{repo}`: `{file}`: {source}")]
    Xml { repo: String, file: String, source: xml::Error },
    #[error("repo `{repo}`: `repomd.xml`: {source}")]
    Repomd { repo: String, source: repomd::Error },
    #[error("repo `{repo}`: `repomd.xml` names no primary metadata")]
    NoPrimary { repo: String },
    #[error("repo `{repo}`: `repomd.xml` is not the one that its metalink promises")]
    NotPromised { repo: String },
    #[error("repo `{repo}`: the signature of `repomd.xml` does not hold: {source}")]
    Signature { repo: String, source: Untrusted },
    #[error("repo `{repo}`: `repomd.xml` is not signed, and must be by `repo-gpgcheck`")]
    Unsigned { repo: String },
    #[error(transparent)]
    Setback(#[from] Setback),
    #[error("repo `{repo}` has no key to check its signatures with")]
    NoKeys { repo: String },
    #[error("repo `{repo}`: key `{key}`: {reason}")]
    Key { repo: String, key: String, reason: String },
    #[error("repo `{repo}`: `{file}`: {source}")]
    Read { repo: String, file: String, source: io::Error },
    #[error("repo `{repo}`: {source}")]
    Modules { repo: String, source: modules::Error },
    #[error("repo `{repo}`: package `{package}` {checksum}")]
    Checksum { repo: String, package: String, checksum: repomd::BadChecksum },
    #[error("repo `{repo}`: package `{package}` is at `{location}`, outside of the repository")]
    Outside { repo: String, package: String, location: String },
    #[error("two repos are named `{repo}`")]
    Twice { repo: String },
    #[error("repo `{repo}` has neither a url nor a mirror list")]
    Nowhere { repo: String },
    #[error(transparent)]
    Cache(#[from] crate::cache::Error),
}

impl Explain for Error {
    fn notes(&self) -> Vec<String> {
        match self {
            Error::Http { source, .. } => source.notes(),
            Error::Setback(setback) => setback.notes(),
            Error::Modules { source: modules::Error::NoStream { found, .. }, .. } if !found.is_empty() => {
                vec![format!("found: {}", found.join(", "))]
            }
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Http { source, .. } => source.hint(),
            Error::Cache(source) => source.hint(),
            Error::Setback(setback) => setback.hint(),
            Error::Unsigned { .. } => Some(
                "someone in between may have removed the signature: try another mirror; `repo-gpgcheck: false` of this \
                 repo accepts that"
                    .into(),
            ),
            Error::Checksum { checksum, .. }
            | Error::Repomd { source: repomd::Error::Checksum { checksum, .. }, .. } => Some(checksum.hint()),
            Error::Variable { source, .. } if source.variable == "releasever" => {
                Some("set `releasever` of this repo in the manifest".into())
            }
            Error::Variable { source, .. } => Some(format!(
                "write its value in its place: dnf has it in `/etc/dnf/vars/{}` of a machine of that system",
                source.variable
            )),
            Error::NoKeys { .. } => {
                Some("set `gpgkey` of this repo, or `allow-unsigned: true` if you trust it without".into())
            }
            Error::Twice { .. } => {
                Some("give each repo and each section of the `.repo` files a name of its own".into())
            }
            Error::Signature { .. } => Some("get the repository's current key from its publisher".into()),
            Error::NotPromised { .. } => {
                Some("its mirrors are behind: try again later, or name one that you trust with `url`".into())
            }
            _ => None,
        }
    }
}

impl Place {
    /// Loads the packages that a machine of this arch can run into `metadata`; gives what its modules
    /// mean for others, too.
    pub async fn load(
        &self,
        number: u16,
        metadata: &mut Metadata,
        history: &History,
        tools: Tools<'_>,
    ) -> Result<(Repository, Filter), Error> {
        match self.load_once(number, metadata, history, tools).await {
            Err(Error::Http { source, .. }) if is_mismatch(&source) => {
                tools
                    .progress
                    .note(&format!("repo `{}` changed while it was read; reading it again", self.name));
                self.load_once(number, metadata, history, tools).await
            }
            other => other,
        }
    }

    async fn load_once(
        &self,
        number: u16,
        metadata: &mut Metadata,
        history: &History,
        tools: Tools<'_>,
    ) -> Result<(Repository, Filter), Error> {
        let (roots, promised) = self.mirrors(tools).await?;
        let (roots, bytes) = self.repomd(&roots, &promised, history, tools).await?;
        let mut seen = self.seen(&bytes)?;
        seen.key = self.signature(&roots[0], &bytes, tools).await?;
        if self.repo_gpgcheck != Some(false) {
            history.check_signature(&seen, tools.progress)?;
        }
        let data = self.parse(&bytes)?.files;
        let find = |kind: &str| data.iter().find(|data| data.kind == kind);
        let primary = find("primary").ok_or_else(|| Error::NoPrimary { repo: self.name.clone() })?;
        let filter = match find("modules") {
            Some(data) => self.module_filter(&roots, data, tools).await?,
            None => Filter::default(),
        };
        let parsed = self.primary(&roots, primary, tools).await?;
        let (archs, exclude) = (world::runs(self.arch), self.exclude.clone());
        let accept = |name: &str, evr: &str, arch: &str| {
            archs.contains(&arch)
                && (self.module_hotfixes || filter.takes(name, evr, arch))
                && !exclude.iter().any(|pattern| matches(pattern, name))
        };
        metadata.adopt(number, parsed, accept);
        self.check(number, metadata)?;
        let filelists = find("filelists").cloned();
        Ok((Repository { name: self.name.clone(), roots, seen, filelists }, filter))
    }

    fn parse(&self, bytes: &[u8]) -> Result<Repomd, Error> {
        repomd::parse(bytes).map_err(|source| Error::Repomd { repo: self.name.clone(), source })
    }

    /// What is known of the metadata, but for its signature.
    fn seen(&self, repomd: &[u8]) -> Result<LockedRepo, Error> {
        let Repomd { revision, date, .. } = self.parse(repomd)?;
        let place = self.urls.first().or(self.mirrorlist.as_ref()).or(self.metalink.as_ref());
        Ok(LockedRepo {
            name: self.name.clone(),
            url: recorded(&self.expand(place.map_or("", String::as_str))?),
            suite: None,
            arch: Some(self.arch),
            key: None,
            date: date.and_then(history::date),
            revision,
        })
    }

    /// All packages of the repository, from the cache where they were read before.
    async fn primary(&self, roots: &[Url], data: &repomd::Data, tools: Tools<'_>) -> Result<Metadata, Error> {
        let key = format!("rpm-packed:{}:{}", packed::LAYOUT, data.sha256);
        // Both ways take a while, and other archs have theirs to read.
        let (cache, known) = (tools.cache.clone(), key.clone());
        let recall = move || {
            let bytes = cache.derived(&known, MAX_METADATA)?;
            Ok::<_, Error>(bytes.and_then(|bytes| packed::unpack(&bytes)))
        };
        if let Some(metadata) = blocking(recall).await? {
            return Ok(metadata);
        }
        let file = self.open(roots, data, tools).await?;
        let parse = move || Metadata::parse(file).map(|metadata| (packed::pack(&metadata), metadata));
        let (packed, metadata) = blocking(parse).await.map_err(|source| self.xml(&data.location, source))?;
        tools.cache.keep_derived(&key, &packed)?;
        Ok(metadata)
    }

    /// No package may be named by a weak digest, or be elsewhere.
    fn check(&self, number: u16, metadata: &Metadata) -> Result<(), Error> {
        for package in metadata.packages.iter().filter(|package| package.repo == number) {
            let (repo, name) = (self.name.clone(), metadata.name(package).to_string());
            let [kind, value] =
                [package.checksum_type, package.checksum].map(|word| metadata.words.get(word));
            if let Err(checksum) = repomd::checksum(kind, value) {
                return Err(Error::Checksum { repo, package: name, checksum });
            }
            let location = metadata.words.get(package.location);
            if !repomd::is_inside(location) {
                return Err(Error::Outside { repo, package: name, location: location.to_string() });
            }
        }
        Ok(())
    }

    /// Step 1: roots of mirrors, and the digests that a metalink promises.
    async fn mirrors(&self, tools: Tools<'_>) -> Result<(Vec<Url>, Vec<Digest>), Error> {
        let mut texts = self.urls.clone();
        let mut promised = Vec::new();
        if let Some(list) = &self.mirrorlist {
            let bytes = self.fetch(&self.url(list)?, tools).await?;
            texts.extend(sources::mirrorlist(&String::from_utf8_lossy(&bytes)));
        }
        if let Some(link) = &self.metalink {
            let url = self.url(link)?;
            let bytes = self.fetch(&url, tools).await?;
            let metalink = sources::metalink(&bytes).map_err(|source| self.xml(url.path(), source))?;
            texts.extend(metalink.mirrors);
            promised = metalink.sha256;
        }
        let mut roots = Vec::new();
        for text in &texts {
            roots.push(self.root(text)?);
        }
        if roots.is_empty() {
            return Err(Error::Nowhere { repo: self.name.clone() });
        }
        Ok((roots, promised))
    }

    /// Step 2: from the first mirror that has it as it is promised, and no older than before. It then comes first.
    async fn repomd(
        &self,
        roots: &[Url],
        promised: &[Digest],
        history: &History,
        tools: Tools<'_>,
    ) -> Result<(Vec<Url>, Vec<u8>), Error> {
        let mut failure = None;
        for (i, root) in roots.iter().enumerate() {
            match self.fetch(&self.below(root, "repodata/repomd.xml")?, tools).await {
                Ok(bytes) if !promised.is_empty() && !promised.contains(&Digest::of(&bytes)) => {
                    // A mirror that is behind; others may not be.
                    failure = failure.or(Some(Error::NotPromised { repo: self.name.clone() }));
                }
                Ok(bytes) => match history.check_age(&self.seen(&bytes)?, tools.progress) {
                    Ok(()) => {
                        let mut roots = roots.to_vec();
                        roots.swap(0, i);
                        return Ok((roots, bytes));
                    }
                    Err(setback) => failure = failure.or(Some(setback.into())),
                },
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| Error::Nowhere { repo: self.name.clone() }))
    }

    /// Step 3.
    async fn signature(&self, root: &Url, repomd: &[u8], tools: Tools<'_>) -> Result<Option<String>, Error> {
        if self.keys.is_empty() {
            let repo = self.name.clone();
            return if self.allow_unsigned { Ok(None) } else { Err(Error::NoKeys { repo }) };
        }
        let keyring = self.keyring(tools).await?;
        let signature = match self.fetch(&self.below(root, "repodata/repomd.xml.asc")?, tools).await {
            Ok(signature) => signature,
            Err(Error::Http { source, .. }) if is_absent(&source) => {
                let must = self.repo_gpgcheck == Some(true);
                return if must { Err(Error::Unsigned { repo: self.name.clone() }) } else { Ok(None) };
            }
            Err(error) => return Err(error),
        };
        let signer = keyring
            .verify_detached(&signature, repomd, SystemTime::now())
            .map_err(|source| Error::Signature { repo: self.name.clone(), source })?;
        Ok(Some(signer.fingerprint))
    }

    /// All keys that may vouch for this repository or its packages.
    pub async fn keyring(&self, tools: Tools<'_>) -> Result<Keyring, Error> {
        let mut keyring = Keyring::default();
        for key in &self.keys {
            let key = &self.expand(key)?;
            let bad = |reason: String| Error::Key { repo: self.name.clone(), key: recorded(key), reason };
            let bytes = if key.starts_with("https://") {
                let url = http::url(key).map_err(|source| self.http(source))?;
                self.fetch(&url, tools).await?
            } else if key.starts_with("http://") {
                return Err(bad("a key fetched over plain http proves nothing".into()));
            } else {
                let path = key.strip_prefix("file://").unwrap_or(key);
                std::fs::read(self.folder.join(path)).map_err(|error| bad(error.to_string()))?
            };
            keyring.add(&bytes).map_err(|error| bad(error.to_string()))?;
        }
        Ok(keyring)
    }

    async fn module_filter(
        &self,
        roots: &[Url],
        data: &repomd::Data,
        tools: Tools<'_>,
    ) -> Result<Filter, Error> {
        let file = self.open(roots, data, tools).await?;
        let text = whole_text(file, MAX_MODULES).map_err(|source| self.read_error(&data.location, source))?;
        let modules = Modules::parse(&data.location, &text);
        let filter = modules.and_then(|modules| modules.filter(&self.modules));
        filter.map_err(|source| Error::Modules { repo: self.name.clone(), source })
    }

    /// Step 4: a metadata file, verified and inflated.
    async fn open(
        &self,
        roots: &[Url],
        data: &repomd::Data,
        tools: Tools<'_>,
    ) -> Result<Box<dyn BufRead + Send>, Error> {
        let urls = roots.iter().map(|root| self.below(root, &data.location)).collect::<Result<_, _>>()?;
        let download = Download::new(format!("{} {}", self.name, data.kind), urls)
            .expect(Some(data.sha256), data.size)
            .at_most(MAX_METADATA);
        let Tools { http, cache, progress } = tools;
        let fetched = http.download(&download, cache, progress).await.map_err(|source| self.http(source))?;
        let limit = data.open_size.unwrap_or(MAX_OPEN).min(MAX_OPEN);
        inflate(&fetched.path, limit).map_err(|source| self.read_error(&data.location, source))
    }

    /// A small file that may change under its url.
    async fn fetch(&self, url: &Url, tools: Tools<'_>) -> Result<Vec<u8>, Error> {
        let request = Request::get(url.clone(), MAX_SMALL);
        let metadata = tools.http.metadata(&request, tools.cache).await;
        Ok(metadata.map_err(|source| self.http(source))?.bytes.to_vec())
    }

    fn url(&self, text: &str) -> Result<Url, Error> {
        http::url(&self.expand(text)?).map_err(|source| self.http(source))
    }

    fn expand(&self, text: &str) -> Result<String, Error> {
        sources::expand(text, self.arch, self.releasever.as_deref())
            .map_err(|source| Error::Variable { repo: self.name.clone(), source })
    }

    fn root(&self, text: &str) -> Result<Url, Error> {
        let slash = if text.ends_with('/') { "" } else { "/" };
        self.url(&format!("{text}{slash}"))
    }

    /// Where it is, as far as no mirror list has to be asked.
    pub(super) fn own_roots(&self) -> Vec<Url> {
        self.urls.iter().filter_map(|text| self.root(text).ok()).collect()
    }

    fn below(&self, root: &Url, location: &str) -> Result<Url, Error> {
        http::url(&format!("{root}{location}")).map_err(|source| self.http(source))
    }

    fn http(&self, source: http::Error) -> Error {
        Error::Http { repo: self.name.clone(), source: Box::new(source) }
    }

    fn xml(&self, file: &str, source: xml::Error) -> Error {
        Error::Xml { repo: self.name.clone(), file: file.to_string(), source }
    }

    fn read_error(&self, file: &str, source: io::Error) -> Error {
        Error::Read { repo: self.name.clone(), file: file.to_string(), source }
    }

    /// Which packages of this repository have the `wanted` files; the answer is kept, for the lists are long.
    pub async fn find_files(
        &self,
        number: u16,
        repository: &Repository,
        metadata: &Metadata,
        wanted: &HashSet<Word>,
        tools: Tools<'_>,
    ) -> Result<Vec<(u32, Word)>, Error> {
        let Some(data) = &repository.filelists else { return Ok(Vec::new()) };
        let mut paths: Vec<&str> = wanted.iter().map(|word| metadata.words.get(*word)).collect();
        paths.sort_unstable();
        let key = format!("rpm-files:{}:{}", data.sha256, Digest::of(paths.join("\n").as_bytes()));
        let known = tools.cache.derived(&key, MAX_METADATA)?;
        let lines = match known.and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(lines) => lines,
            None => {
                let file = self.open(&repository.roots, data, tools).await?;
                let wanted = paths.iter().map(|path| path.to_string()).collect();
                let find = move || filelists::find(&wanted, file);
                let lines = blocking(find).await.map_err(|source| self.xml(&data.location, source))?;
                tools.cache.keep_derived(&key, lines.as_bytes())?;
                lines
            }
        };
        Ok(filelists::packages(metadata, number, &lines))
    }
}

fn is_absent(error: &http::Error) -> bool {
    match error {
        http::Error::Offline { .. } => true,
        http::Error::Read { source, .. } => source.kind() == io::ErrorKind::NotFound,
        other => matches!(other.status(), Some(403 | 404 | 410)),
    }
}

fn is_mismatch(error: &http::Error) -> bool {
    match error {
        http::Error::WrongDigest { .. } | http::Error::WrongSize { .. } => true,
        http::Error::Mirrors { errors, .. } => errors.iter().any(is_mismatch),
        other => other.status() == Some(404),
    }
}
