//! Repositories made on the spot and signed by the real gpg: what is accepted, what is refused,
//! and that each refusal names the repo and the file.

use eggo_bundle::Tools;
use eggo_bundle::cache::Cache;
use eggo_bundle::http::{Http, Options};
use eggo_bundle::lock::{Lock, LockedPackage};
use eggo_bundle::manifest::Manifest;
use eggo_bundle::packages::{self, decide::Locked, history::History, proof};
use eggo_bundles::progress::Silent;
use eggo_bundles::{Arch, Digest};
use eggo_terminal::Report;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        println!("skipped: no {tool}");
    }
    found.is_ok()
}

/// Keys are made once for all tests: `good`, `other`, and `expired` long ago.
struct Keys {
    home: PathBuf,
}

fn keys() -> &'static Keys {
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
    fn public(&self, name: &str) -> PathBuf {
        self.home.join(format!("{name}.asc"))
    }

    fn gpg(&self, args: &[&str], input: Option<&[u8]>) -> Vec<u8> {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--yes", "--quiet", "--homedir"]).arg(&self.home).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.unwrap_or(b"")).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "gpg {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn clearsign(&self, key: &str, text: &str, more: &[&str]) -> Vec<u8> {
        let mut args = more.to_vec();
        args.extend(["--local-user", key, "--clearsign"]);
        self.gpg(&args, Some(text.as_bytes()))
    }
}

/// A repository in a folder.
struct Repo {
    folder: tempfile::TempDir,
}

const PACKAGES: &str = "Package: tool\nVersion: 1.0-1\nArchitecture: ARCH\nDepends: lib (>= 1)\n\
    Filename: pool/tool_1.0-1_ARCH.deb\nSize: 3\n\
    SHA256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n\n\
    Package: lib\nVersion: 2\nArchitecture: all\nFilename: pool/lib_2_all.deb\nSize: 3\n\
    SHA256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n";

impl Repo {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn write(&self, below: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Writes `Packages` of both archs in one form and gives the Release text for them.
    fn packages(&self, base: &str, form: &str, text: &str) -> String {
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
    fn publish(&self, key: &str) -> &Self {
        let release = self.packages("dists/stable", ".xz", PACKAGES);
        self.write("dists/stable/InRelease", keys().clearsign(key, &release, &[]));
        self
    }

    fn url(&self) -> String {
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

struct Asked {
    cache: tempfile::TempDir,
    repo: String,
    history: History,
}

fn ask(urls: &[String], more: &str) -> Asked {
    let urls: Vec<String> = urls.iter().map(|url| format!("\"{url}\"")).collect();
    let repo = format!("{{name: local, type: deb, url: [{}], {more}}}", urls.join(", "));
    Asked { cache: tempfile::tempdir().unwrap(), repo, history: History::default() }
}

impl Asked {
    fn lock(&self) -> Result<Locked, String> {
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

const STABLE: &str = "suites: [stable], components: [main]";

fn signed(repo: &Repo, key: &str) -> Asked {
    ask(&[repo.url()], &format!("{STABLE}, signed-by: {}", keys().public(key).display()))
}

fn names(locked: &Locked) -> Vec<String> {
    let name = |p: &LockedPackage| format!("{} {} {} {}", p.name, p.version, p.arch, p.architecture);
    locked.packages.iter().map(name).collect()
}

fn refused(asked: &Asked, words: &[&str]) {
    let error = asked.lock().err().unwrap_or_else(|| panic!("accepted, expected {words:?}"));
    for word in words.iter().chain(&["repo `local`"]) {
        assert!(error.contains(word), "`{word}` is not in:\n{error}");
    }
}

#[test]
fn a_signed_repository_resolves_for_both_archs_in_every_form() {
    if !has("gpg") {
        return;
    }
    for form in [".xz", ".gz", ".zst", ".bz2", ""] {
        let repo = Repo::new();
        let release = repo.packages("dists/stable", form, PACKAGES);
        repo.write("dists/stable/InRelease", keys().clearsign("good", &release, &[]));
        let asked = signed(&repo, "good");
        let locked = asked.lock().unwrap();
        let expected =
            ["tool 1.0-1 amd64 amd64", "lib 2 amd64 all", "tool 1.0-1 arm64 arm64", "lib 2 arm64 all"];
        assert_eq!(names(&locked), expected, "{form}");
        let tool = &locked.packages[0];
        assert_eq!(tool.url, format!("{}/pool/tool_1.0-1_amd64.deb", repo.url()));
        assert_eq!(tool.required_by, ["role worker"]);
        assert_eq!(locked.packages[1].required_by, ["tool"]);
        assert!(tool.key.as_ref().is_some_and(|key| key.len() == 40));
        // The second time the index files are not needed any more.
        fs::remove_dir_all(repo.path("dists/stable/main")).unwrap();
        assert_eq!(names(&asked.lock().unwrap()), expected, "{form}");
    }
}

#[test]
fn by_hash_detached_signatures_and_flat_repositories() {
    if !has("gpg") {
        return;
    }
    let repo = Repo::new();
    let release =
        repo.packages("dists/stable", ".xz", PACKAGES).replace("SHA256:", "Acquire-By-Hash: yes\nSHA256:");
    for arch in ["amd64", "arm64"] {
        let folder = repo.path(&format!("dists/stable/main/binary-{arch}"));
        let bytes = fs::read(folder.join("Packages.xz")).unwrap();
        fs::create_dir_all(folder.join("by-hash/SHA256")).unwrap();
        fs::write(folder.join("by-hash/SHA256").join(Digest::of(&bytes).hex()), bytes).unwrap();
        fs::write(folder.join("Packages.xz"), "already the next version").unwrap();
    }
    repo.write("dists/stable/InRelease", keys().clearsign("good", &release, &[]));
    assert_eq!(signed(&repo, "good").lock().unwrap().packages.len(), 4);

    let repo = Repo::new();
    let release = repo.packages("dists/stable", ".gz", PACKAGES);
    let signature =
        keys().gpg(&["--local-user", "good", "--armor", "--detach-sign"], Some(release.as_bytes()));
    repo.write("dists/stable/Release", &release);
    repo.write("dists/stable/Release.gpg", signature);
    assert_eq!(signed(&repo, "good").lock().unwrap().packages.len(), 4);
    refused(&signed(&repo, "other"), &["no given key made a signature"]);

    let repo = Repo::new();
    let bytes = PACKAGES.replace("ARCH", "amd64") + "\n" + &PACKAGES.replace("ARCH", "arm64");
    repo.write("sub/Packages", &bytes);
    let release = format!("SHA256:\n {} {} Packages\n", Digest::of(bytes.as_bytes()), bytes.len());
    repo.write("sub/InRelease", keys().clearsign("good", &release, &[]));
    let flat = ask(&[repo.url()], &format!("suites: [sub/], signed-by: {}", keys().public("good").display()));
    assert_eq!(flat.lock().unwrap().packages.len(), 4);
}

#[test]
fn signatures_that_do_not_count_are_refused() {
    if !has("gpg") {
        return;
    }
    let repo = Repo::new();
    repo.publish("good");
    refused(
        &signed(&repo, "other"),
        &["no given key made a signature", "InRelease", "hint: name the repository's key"],
    );

    let intact = fs::read_to_string(repo.path("dists/stable/InRelease")).unwrap();
    repo.write("dists/stable/InRelease", intact.replace("Origin: Test", "Origin: Tesu"));
    refused(&signed(&repo, "good"), &["does not match the content", "InRelease"]);
    repo.write("dists/stable/InRelease", format!("{intact}Origin: more\n"));
    refused(&signed(&repo, "good"), &["InRelease"]);

    let release = repo.packages("dists/stable", ".xz", PACKAGES);
    let back_then = ["--faked-system-time=20200601T000000!"];
    repo.write("dists/stable/InRelease", keys().clearsign("expired", &release, &back_then));
    refused(&signed(&repo, "expired"), &["has expired", "InRelease"]);

    let weak = ["--digest-algo", "SHA1", "--allow-weak-digest-algos"];
    repo.write("dists/stable/InRelease", keys().clearsign("good", &release, &weak));
    refused(&signed(&repo, "good"), &["weak hash SHA1"]);
}

#[test]
fn a_suite_that_goes_back_in_time_or_loses_its_signature_is_refused() {
    if !has("gpg") {
        return;
    }
    let repo = Repo::new();
    let publish = |day: u8| {
        let release = repo.packages("dists/stable", ".xz", PACKAGES);
        let release = format!("Date: Sat, {day} Jun 2023 08:53:33 UTC\n{release}");
        repo.write("dists/stable/InRelease", keys().clearsign("good", &release, &[]));
        release
    };
    publish(10);
    let locked = signed(&repo, "good").lock().unwrap();
    assert_eq!(locked.repos.len(), 1, "one for both archs");
    let seen = &locked.repos[0];
    assert_eq!((seen.date.as_deref(), seen.suite.as_deref()), (Some("2023-06-10T08:53:33Z"), Some("stable")));
    assert_eq!((&seen.key, seen.arch), (&locked.packages[0].key, None));
    let after = |mut asked: Asked, accepted: &[&str]| {
        let lock = Lock { repos: locked.repos.clone(), ..empty_lock() };
        asked.history =
            History::new(Some(&lock), &accepted.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        asked
    };
    after(signed(&repo, "good"), &[]).lock().unwrap();
    let release = publish(9);
    let words = [
        "is older than before",
        "in the lock: of 2023-06-10",
        "found: of 2023-06-09",
        "`--accept-repo local`",
    ];
    refused(&after(signed(&repo, "good"), &[]), &words);
    after(signed(&repo, "good"), &["local"]).lock().unwrap();
    // Another place is another repository.
    let elsewhere = Repo::new();
    let of_elsewhere = elsewhere.packages("dists/stable", ".xz", PACKAGES);
    elsewhere.write("dists/stable/InRelease", keys().clearsign("good", &of_elsewhere, &[]));
    after(signed(&elsewhere, "good"), &[]).lock().unwrap();

    // Where unsigned metadata is allowed, too, a signature that was there is missed.
    fs::remove_file(repo.path("dists/stable/InRelease")).unwrap();
    repo.write("dists/stable/Release", release.replace(" 9 Jun", " 11 Jun"));
    let unsigned = || ask(&[repo.url()], &format!("{STABLE}, allow-unsigned: true"));
    refused(&after(unsigned(), &[]), &["is no longer signed", &locked.packages[0].key.clone().unwrap()]);
    after(unsigned(), &["local"]).lock().unwrap();
}

fn empty_lock() -> Lock {
    let text = "lock = 1\nname = \"x\"\nversion = \"1\"\narchs = []\nasked = []\n";
    Lock::parse(Path::new("x.lock"), text).unwrap()
}

#[test]
fn an_unsigned_repository_needs_the_manifests_word() {
    let repo = Repo::new();
    let release = repo.packages("dists/stable", ".xz", PACKAGES);
    repo.write("dists/stable/Release", &release);
    refused(&ask(&[repo.url()], STABLE), &["is not signed", "allow-unsigned"]);
    let locked = ask(&[repo.url()], &format!("{STABLE}, allow-unsigned: true")).lock().unwrap();
    assert!(locked.packages.iter().all(|package| package.key.is_none()));
    // A signature that nobody here can check is as good as none.
    let nowhere = format!("{STABLE}, allow-unsigned: true, signed-by: /nowhere/key.asc");
    for file in ["Release.gpg", "InRelease"] {
        repo.write(&format!("dists/stable/{file}"), if file == "InRelease" { &release } else { "x" });
        let locked = ask(&[repo.url()], &nowhere).lock().unwrap();
        assert!(locked.packages.iter().all(|package| package.key.is_none()), "{file}");
    }
    refused(&ask(&[repo.url()], "suites: [gone], components: [main]"), &["has no Release file"]);
}

#[test]
fn metadata_that_does_not_fit_is_refused() {
    let unsigned = |repo: &Repo| ask(&[repo.url()], &format!("{STABLE}, allow-unsigned: true"));
    let publish = |text: &str| {
        let repo = Repo::new();
        let release = repo.packages("dists/stable", "", text);
        repo.write("dists/stable/Release", &release);
        (repo, release)
    };

    let (repo, _) = publish(PACKAGES);
    let packages = fs::read_to_string(repo.path("dists/stable/main/binary-amd64/Packages")).unwrap();
    repo.write("dists/stable/main/binary-amd64/Packages", packages.replace("2", "3"));
    refused(&unsigned(&repo), &["main/binary-amd64/Packages", "sha256"]);

    let (repo, release) = publish(PACKAGES);
    repo.write("dists/stable/Release", format!("Valid-Until: Sat, 01 Jan 2022 00:00:00 UTC\n{release}"));
    refused(&unsigned(&repo), &["expired on 2022-01-01", "Release", "set `check-valid-until: false`"]);
    let snapshot = format!("{STABLE}, allow-unsigned: true, check-valid-until: false");
    assert_eq!(ask(&[repo.url()], &snapshot).lock().unwrap().packages.len(), 4);
    repo.write("dists/stable/Release", release.replace("SHA256:", "MD5Sum:"));
    refused(&unsigned(&repo), &["only weak hashes"]);
    repo.write("dists/stable/Release", release.replace("main/binary-amd64", "../../etc"));
    refused(&unsigned(&repo), &["../../etc"]);

    for path in ["../../etc/passwd", "/etc/passwd"] {
        let (repo, _) = publish(&PACKAGES.replace("pool/lib_2_all.deb", path));
        refused(&unsigned(&repo), &["unsafe path", path, "package `lib`", "/Packages`"]);
    }
    let (repo, _) = publish(&PACKAGES.replace("SHA256", "MD5sum"));
    let error = unsigned(&repo).lock().unwrap_err();
    assert!(error.contains("its repo has no SHA256 for it"), "{error}");
}

#[test]
fn the_next_mirror_is_asked_when_one_is_wrong() {
    let (bad, good) = (Repo::new(), Repo::new());
    for repo in [&bad, &good] {
        let release = repo.packages("dists/stable", "", PACKAGES);
        repo.write("dists/stable/Release", release);
    }
    bad.write("dists/stable/main/binary-amd64/Packages", "another file");
    fs::remove_file(bad.path("dists/stable/main/binary-arm64/Packages")).unwrap();
    let asked = ask(&[bad.url(), good.url()], &format!("{STABLE}, allow-unsigned: true"));
    let locked = asked.lock().unwrap();
    assert_eq!(locked.packages.len(), 4);
    assert_eq!(locked.packages[0].mirrors, [format!("{}/pool/tool_1.0-1_amd64.deb", good.url())]);
}

/// As Ubuntu does: the metadata of both servers lists both archs, each has the files of one.
#[test]
fn an_arch_may_live_on_another_server() {
    let servers = [("amd64", Repo::new()), ("arm64", Repo::new())];
    for (arch, repo) in &servers {
        // Each server's own text: content that one server has need not be asked of the other.
        let packages = format!("{PACKAGES}Homepage: http://{arch}.test\n");
        repo.write("dists/stable/Release", repo.packages("dists/stable", "", &packages));
        let other = if *arch == "amd64" { "arm64" } else { "amd64" };
        fs::remove_dir_all(repo.path(&format!("dists/stable/main/binary-{other}"))).unwrap();
    }
    let of = |more: &dyn Fn(&str) -> String| Asked {
        cache: tempfile::tempdir().unwrap(),
        history: History::default(),
        repo: servers
            .each_ref()
            .map(|(arch, repo)| {
                let (url, more) = (repo.url(), more(arch));
                format!("{{name: {arch}, type: deb, url: \"{url}\", {STABLE}, allow-unsigned: true{more}}}")
            })
            .join(", "),
    };
    let locked = of(&|arch| format!(", archs: [{arch}]")).lock().unwrap();
    let homes: Vec<String> =
        locked.packages.iter().map(|p| format!("{} {} from {}", p.name, p.arch, p.repo)).collect();
    let expected =
        ["tool amd64 from amd64", "lib amd64 from amd64", "tool arm64 from arm64", "lib arm64 from arm64"];
    assert_eq!(homes, expected);
    let error = of(&|_| String::new()).lock().unwrap_err();
    assert!(error.contains("/Packages` of stable"), "{error}");
    assert!(error.contains("hint: if this server has not every arch, say which with `archs`"), "{error}");
}

/// Serves a folder that changes to `next` after the first Release was read.
#[test]
fn a_repository_that_changes_in_between_is_read_again() {
    let (first, next) = (Repo::new(), Repo::new());
    let newer = PACKAGES.replace("1.0-1", "1.1-1");
    for (repo, text) in [(&first, PACKAGES), (&next, newer.as_str())] {
        let release = repo.packages("dists/stable", "", text);
        repo.write("dists/stable/Release", release);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let releases = Arc::new(AtomicUsize::new(0));
    let (seen, folders) = (releases.clone(), [first.path(""), next.path("")]);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut request).unwrap();
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                line.clear();
            }
            let path = request.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_string();
            // The mirror moves on as soon as the Release was handed out.
            let state = usize::from(seen.load(Ordering::SeqCst) > 0);
            let answer = fs::read(folders[state].join(&path));
            if path.ends_with("/Release") {
                seen.fetch_add(1, Ordering::SeqCst);
            }
            let (status, body) = answer.map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    let locked = ask(&[url], &format!("{STABLE}, allow-unsigned: true")).lock().unwrap();
    assert_eq!(locked.packages[0].version, "1.1-1");
    assert_eq!(releases.load(Ordering::SeqCst), 2);
}

#[test]
fn a_package_must_be_what_its_metadata_says() {
    if !has("dpkg-deb") {
        return;
    }
    let repo = Repo::new();
    repo.write(
        "tool/DEBIAN/control",
        "Package: tool\nVersion: 1.0-1\nArchitecture: amd64\nMaintainer: m\nDescription: d\n",
    );
    let deb = repo.path("tool_1.0-1_amd64.deb");
    let built =
        Command::new("dpkg-deb").args(["--root-owner-group", "-b"]).arg(repo.path("tool")).arg(&deb).output();
    assert!(built.unwrap().status.success());
    let mut package = LockedPackage {
        name: "tool".into(),
        version: "1.0-1".into(),
        arch: Arch::Amd64,
        architecture: "amd64".into(),
        repo: "local".into(),
        url: "http://x/pool/tool_1.0-1_amd64.deb".into(),
        sha256: Digest::of(b""),
        size: 0,
        mirrors: Vec::new(),
        roles: Vec::new(),
        required_by: Vec::new(),
        key: None,
    };
    proof::agree(&package, &deb).unwrap();
    package.version = "1.0-2".into();
    let error = Report::from(proof::agree(&package, &deb).unwrap_err()).to_string();
    assert!(
        error.contains("says that it is `tool 1.0-1` for amd64, its metadata that it is `tool 1.0-2`"),
        "{error}"
    );
    assert!(
        proof::agree(&package, Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path()).is_err()
    );
}
