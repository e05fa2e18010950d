//! Repositories made on the spot, keys of the real gpg, and what the bundler makes of a manifest that names them.

use eggo_bundle::Tools;
use eggo_bundle::cache::Cache;
use eggo_bundle::http::{Http, Options};
use eggo_bundle::lock::LockedPackage;
use eggo_bundle::manifest::Manifest;
use eggo_bundle::packages::{self, decide::Locked, history::History};
use eggo_bundles::progress::Silent;
use eggo_bundles::{Arch, Digest};
use eggo_terminal::Report;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        println!("skipped: no {tool}");
    }
    found.is_ok()
}

/// Keys are made once for all tests: `good`, `other`, and `expired` long ago.
pub struct Keys {
    home: PathBuf,
}

pub fn keys() -> &'static Keys {
    static KEYS: OnceLock<(tempfile::TempDir, Keys)> = OnceLock::new();
    let (_, keys) = KEYS.get_or_init(|| {
        // The agent's socket wants a short path.
        let folder = tempfile::Builder::new().prefix("k").tempdir_in("/tmp").unwrap();
        let keys = Keys { home: folder.path().to_path_buf() };
        for (name, expires, time) in
            [("good", "never", None), ("other", "never", None), ("expired", "1y", Some("20200101T000000"))]
        {
            let time = time.map(|time| format!("--faked-system-time={time}!"));
            let uid = format!("{name} <{name}@test>");
            let mut args: Vec<&str> = time.as_deref().into_iter().collect();
            args.extend(["--passphrase", "", "--quick-gen-key", &uid, "ed25519", "sign", expires]);
            keys.gpg(&args, None);
            let public = keys.gpg(&["--armor", "--export", name], None);
            fs::write(keys.public(name), public).unwrap();
        }
        (folder, keys)
    });
    keys
}

impl Keys {
    pub fn public(&self, name: &str) -> PathBuf {
        self.home.join(format!("{name}.asc"))
    }

    pub fn gpg(&self, args: &[&str], input: Option<&[u8]>) -> Vec<u8> {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--yes", "--quiet", "--homedir"]).arg(&self.home).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.unwrap_or(b"")).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "gpg {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    pub fn clearsign(&self, key: &str, text: &str, more: &[&str]) -> Vec<u8> {
        let mut args = more.to_vec();
        args.extend(["--local-user", key, "--clearsign"]);
        self.gpg(&args, Some(text.as_bytes()))
    }
}

/// A repository in a folder.
pub struct Repo {
    folder: tempfile::TempDir,
}

pub const PACKAGES: &str = "Package: tool\nVersion: 1.0-1\nArchitecture: ARCH\nDepends: lib (>= 1)\n\
    Filename: pool/tool_1.0-1_ARCH.deb\nSize: 3\n\
    SHA256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n\n\
    Package: lib\nVersion: 2\nArchitecture: all\nFilename: pool/lib_2_all.deb\nSize: 3\n\
    SHA256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n";

impl Repo {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    pub fn write(&self, below: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Writes `Packages` of both archs in one form and gives the Release text for them.
    pub fn packages(&self, base: &str, form: &str, text: &str) -> String {
        let mut release = "Origin: Test\nSuite: stable\nArchitectures: amd64 arm64\nSHA256:\n".to_string();
        for arch in ["amd64", "arm64"] {
            let bytes = compress(form, text.replace("ARCH", arch).as_bytes());
            let path = format!("main/binary-{arch}/Packages{form}");
            self.write(&format!("{base}/{path}"), &bytes);
            release.push_str(&format!(" {} {} {path}\n", Digest::of(&bytes), bytes.len()));
        }
        release
    }

    /// A suite `stable` signed by `key`.
    pub fn publish(&self, key: &str) -> &Self {
        let release = self.packages("dists/stable", ".xz", PACKAGES);
        self.write("dists/stable/InRelease", keys().clearsign(key, &release, &[]));
        self
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.folder.path().display())
    }
}

fn compress(form: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match form {
        ".xz" => std::io::copy(&mut liblzma::read::XzEncoder::new(bytes, 1), &mut out).unwrap(),
        ".gz" => {
            let level = flate2::Compression::fast();
            std::io::copy(&mut flate2::read::GzEncoder::new(bytes, level), &mut out).unwrap()
        }
        ".zst" => return zstd::encode_all(bytes, 1).unwrap(),
        ".bz2" => {
            let level = bzip2::Compression::fast();
            std::io::copy(&mut bzip2::read::BzEncoder::new(bytes, level), &mut out).unwrap()
        }
        _ => return bytes.to_vec(),
    };
    out
}

pub struct Asked {
    pub cache: tempfile::TempDir,
    pub repo: String,
    pub history: History,
}

pub fn ask(urls: &[String], more: &str) -> Asked {
    let urls: Vec<String> = urls.iter().map(|url| format!("\"{url}\"")).collect();
    let repo = format!("{{name: local, type: deb, url: [{}], {more}}}", urls.join(", "));
    Asked { cache: tempfile::tempdir().unwrap(), repo, history: History::default() }
}

impl Asked {
    pub fn lock(&self) -> Result<Locked, String> {
        let text = format!(
            "name: t\nversion: 1\nbaseline: none\nrepos: [{}]\npackages: {{node: [tool]}}\n",
            self.repo
        );
        let manifest = Manifest::parse(Path::new("/t.yaml"), text.as_bytes()).map_err(|e| e.to_string())?;
        let http = Http::new(Options { attempts: 1, ..Options::default() }).unwrap();
        let cache = Cache::open(self.cache.path()).unwrap();
        let tools = Tools { http: &http, cache: &cache, progress: &Silent };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let locked = runtime.block_on(packages::lock(&manifest, &Arch::ALL, &self.history, tools));
        locked.map_err(|error| Report::from(error).to_string())
    }
}

pub const STABLE: &str = "suites: [stable], components: [main]";

pub fn signed(repo: &Repo, key: &str) -> Asked {
    ask(&[repo.url()], &format!("{STABLE}, signed-by: {}", keys().public(key).display()))
}

pub fn names(locked: &Locked) -> Vec<String> {
    let name = |p: &LockedPackage| format!("{} {} {} {}", p.name, p.version, p.arch, p.architecture);
    locked.packages.iter().map(name).collect()
}

pub fn refused(asked: &Asked, words: &[&str]) {
    let error = asked.lock().err().unwrap_or_else(|| panic!("accepted, expected {words:?}"));
    for word in words.iter().chain(&["repo `local`"]) {
        assert!(error.contains(word), "`{word}` is not in:\n{error}");
    }
}
