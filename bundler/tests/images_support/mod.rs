//! Real parts for the tests of images: a registry of Debian's, images made from nothing, and a
//! proxy that fails on purpose.

#![allow(dead_code, reason = "each test program uses its own part of this module")]

pub mod make;
pub mod proxy;

use eggo_bundle::Tools;
use eggo_bundle::cache::Cache;
use eggo_bundle::http::{Http, Options};
use eggo_bundle::images::{Credentials, Registries};
use eggo_bundles::progress::Silent;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where a program is: on the path, or where `scripts/setup` puts what Debian lacks.
fn find(program: &str) -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(cache.map(|cache| cache.join("eggo/tools")));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Is a program there? Says why the test is skipped if not.
pub fn have(programs: &[&str]) -> bool {
    match programs.iter().find(|program| find(program).is_none()) {
        Some(missing) => {
            eprintln!("skipped: no `{missing}` here");
            false
        }
        None => true,
    }
}

/// Runs a program that must succeed; its standard output.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let file = find(program).unwrap();
    let output = Command::new(file).args(arguments).stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {stdout}{stderr}");
    stdout.into_owned()
}

/// Debian's `docker-registry` on a free port; gone when dropped.
pub struct DockerRegistry {
    child: Child,
    /// `127.0.0.1:PORT`
    pub address: String,
    pub folder: tempfile::TempDir,
}

#[derive(Default)]
pub struct Setup {
    /// Lines of an htpasswd file.
    pub users: Option<&'static str>,
    /// Certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Only those may come that have a certificate of this CA.
    pub client_ca: Option<PathBuf>,
}

impl DockerRegistry {
    pub fn start() -> Self {
        Self::with(&Setup::default())
    }

    pub fn with(setup: &Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display();
        let mut config = format!(
            "version: 0.1\nlog: {{level: info, formatter: text}}\n\
             storage: {{filesystem: {{rootdirectory: {root}/data}}, delete: {{enabled: true}}}}\n\
             http:\n  addr: 127.0.0.1:0\n"
        );
        if let Some((certificate, key)) = &setup.tls {
            let (certificate, key) = (certificate.display(), key.display());
            let clients = setup.client_ca.as_ref().map(|file| format!(", clientcas: [{}]", file.display()));
            let clients = clients.unwrap_or_default();
            config.push_str(&format!("  tls: {{certificate: {certificate}, key: {key}{clients}}}\n"));
        }
        if let Some(users) = setup.users {
            std::fs::write(folder.path().join("htpasswd"), users).unwrap();
            config.push_str(&format!("auth: {{htpasswd: {{realm: test, path: {root}/htpasswd}}}}\n"));
        }
        let file = folder.path().join("config.yml");
        std::fs::write(&file, config).unwrap();
        let mut child = Command::new("docker-registry")
            .args(["serve".as_ref(), file.as_os_str()])
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let listening = lines.find_map(|line| {
            let line = line.unwrap();
            let at = line.find("listening on ")?;
            let rest = &line[at + "listening on ".len()..];
            Some(rest.split(['"', ',', ' ']).next().unwrap().to_string())
        });
        let address = listening.expect("the registry says where it listens");
        // Its log must be read, or it stands still.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, folder }
    }

    pub fn port(&self) -> u16 {
        self.address.rsplit(':').next().unwrap().parse().unwrap()
    }
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cache in a folder of its own, and an HTTP client that does not wait long.
pub struct Bench {
    folder: tempfile::TempDir,
    base: PathBuf,
    pub cache: Cache,
    pub http: Http,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().to_path_buf();
        let cache = Cache::open(folder.path().join("cache")).unwrap();
        let http = Http::new(Options { first_pause: Duration::from_millis(5), ..options }).unwrap();
        Self { folder, base, cache, http }
    }

    /// An empty cache for the files of another.
    pub fn new_in(other: &Bench) -> Self {
        Self { base: other.base.clone(), ..Self::new() }
    }

    pub fn tools(&self) -> Tools<'_> {
        Tools { http: &self.http, cache: &self.cache, progress: &Silent }
    }

    pub fn path(&self) -> &Path {
        &self.base
    }
}

/// Registries that are spoken to over plain http, without credentials.
pub fn plain(addresses: &[&str]) -> Registries {
    let insecure: BTreeSet<String> = addresses.iter().map(ToString::to_string).collect();
    Registries { insecure, mirrors: BTreeMap::new(), credentials: Credentials::default() }
}
