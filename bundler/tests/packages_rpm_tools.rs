//! RPM repositories made by `rpmbuild`, `rpmsign`, `createrepo_c` and `gpg`, through the program
//! itself: whose signatures count, and that dnf installs what is bundled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const TOOLS: [&str; 4] = ["gpg", "rpmbuild", "rpmsign", "createrepo_c"];

fn tools_are_here() -> bool {
    let is_here = |tool: &&str| {
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    match TOOLS.iter().find(|tool| !is_here(tool)) {
        Some(missing) => {
            println!("skipped: no {missing}");
            false
        }
        None => true,
    }
}

/// A folder with the keys `good` and `other`, a repository and a manifest for it.
struct World {
    // The agent's socket wants a short path.
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::Builder::new().prefix("r").tempdir_in("/tmp").unwrap() };
        fs::create_dir_all(world.path("repo")).unwrap();
        for key in ["good", "other"] {
            let uid = format!("{key} <{key}@test>");
            world.run("gpg", &["--batch", "--passphrase", "", "--quick-gen-key", &uid, "rsa2048", "sign"]);
            let public = world.run("gpg", &["--batch", "--armor", "--export", key]);
            fs::write(world.path(&format!("{key}.asc")), public).unwrap();
        }
        world.build("app", "Requires: bash");
        world.build("bash", "");
        assert!(world.program(&["keygen", "--no-password", "-o", "key"]).status.success());
        world
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Vec<u8> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("GNUPGHOME", self.folder.path())
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {said}");
        output.stdout
    }

    fn program(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_eggo-bundle"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn build(&self, name: &str, more: &str) {
        self.build_for("noarch", name, more);
    }

    /// Builds an empty package into the repository.
    fn build_for(&self, machine: &str, name: &str, more: &str) {
        let spec = format!(
            "Name: {name}\nVersion: 1\nRelease: 1\nSummary: s\nLicense: l\n{more}\n%description\nd\n%files\n"
        );
        fs::write(self.path("p.spec"), spec).unwrap();
        let topdir = format!("_topdir {}", self.path("rpmbuild").display());
        self.run("rpmbuild", &["-bb", "--quiet", "--target", machine, "--define", &topdir, "p.spec"]);
        let file = format!("{name}-1-1.{machine}.rpm");
        fs::rename(self.path("rpmbuild/RPMS").join(machine).join(&file), self.path("repo").join(&file))
            .unwrap();
    }

    fn sign_packages(&self, key: &str) {
        let name = format!("_gpg_name {key}");
        for package in ["repo/app-1-1.noarch.rpm", "repo/bash-1-1.noarch.rpm"] {
            self.run("rpmsign", &["--define", &name, "--define", "__gpg /usr/bin/gpg", "--addsign", package]);
        }
    }

    fn publish(&self) {
        self.run("createrepo_c", &["--quiet", "repo"]);
        let _ = fs::remove_file(self.path("repo/repodata/repomd.xml.asc"));
    }

    fn sign_metadata(&self, key: &str) {
        let sign = ["--batch", "--yes", "--local-user", key, "--armor", "--detach-sign"];
        self.run("gpg", &[&sign[..], &["repo/repodata/repomd.xml"]].concat());
    }

    /// Builds a bundle from the repository; `more` are further keys of that repo.
    fn bundle(&self, more: &str) -> Result<serde_json::Value, String> {
        let url = format!("file://{}", self.path("repo").display());
        let manifest = format!(
            "name: t\nversion: 1\narchs: [amd64]\nrepos: [{{name: local, type: rpm, url: \"{url}\"{more}}}]\n\
             packages: {{worker: [app]}}\n"
        );
        fs::write(self.path("m.yaml"), manifest).unwrap();
        for stale in ["m.lock", "out.tar.gz", ".cache"] {
            let path = self.path(stale);
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        let built = self.program(&["build", "-m", "m.yaml", "--key", "key", "-o", "out.tar.gz"]);
        if !built.status.success() {
            assert!(!self.path("out.tar.gz").exists());
            return Err(String::from_utf8(built.stderr).unwrap());
        }
        let extracted = self.program(&["extract", "out.tar.gz", "-C", "x", "eggo-bundle.json"]);
        assert!(extracted.status.success());
        Ok(serde_json::from_slice(&fs::read(self.path("x/eggo-bundle.json")).unwrap()).unwrap())
    }

    /// For [`World::bundle`]: a second repository, of debs and without any.
    fn and_no_debs(&self) -> String {
        fs::create_dir_all(self.path("debs")).unwrap();
        fs::write(self.path("debs/Packages"), "").unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        fs::write(self.path("debs/Release"), format!("Suite: x\nSHA256:\n {empty} 0 Packages\n")).unwrap();
        let debs = format!("file://{}", self.path("debs").display());
        format!(
            ", allow-unsigned: true}}, {{name: debs, type: deb, url: \"{debs}\", suites: [./], allow-unsigned: true"
        )
    }

    fn fingerprint(&self, key: &str) -> String {
        let listed = self.run("gpg", &["--batch", "--with-colons", "--fingerprint", key]);
        let listed = String::from_utf8(listed).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_lowercase()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The agent would outlive its folder.
        let mut stop = Command::new("gpgconf");
        let _ = stop.args(["--kill", "all"]).env("GNUPGHOME", self.folder.path()).status();
    }
}

fn refused(outcome: Result<serde_json::Value, String>, words: &[&str]) {
    let error = outcome.expect_err("refused");
    for word in words.iter().chain(&["repo `local`"]) {
        assert!(error.contains(word), "`{word}` is not in:\n{error}");
    }
}

fn signer(index: &serde_json::Value) -> String {
    index["items"][0]["source"]["key"].as_str().unwrap_or_default().to_lowercase()
}

const GOOD: &str = ", gpgkey: good.asc";

#[test]
fn packages_count_if_a_key_of_their_repo_signed_them() {
    if !tools_are_here() {
        return;
    }
    let world = World::new();
    world.publish();
    refused(world.bundle(GOOD), &["app-1-1.noarch.rpm"]);
    world.sign_packages("other");
    world.publish();
    refused(world.bundle(GOOD), &["app-1-1.noarch.rpm", "hint: `gpgkey`"]);
    world.sign_packages("good");
    world.publish();
    let index = world.bundle(GOOD).unwrap();
    assert_eq!(signer(&index), world.fingerprint("good"));
}

#[test]
fn signed_metadata_vouches_for_unsigned_packages() {
    if !tools_are_here() {
        return;
    }
    let world = World::new();
    world.publish();
    world.sign_metadata("other");
    refused(world.bundle(GOOD), &["repomd.xml"]);
    world.sign_metadata("good");
    let index = world.bundle(GOOD).unwrap();
    assert_eq!(signer(&index), world.fingerprint("good"));
    replace(&world.path("repo/repodata/repomd.xml"), "<revision>", "<revision>1");
    refused(world.bundle(GOOD), &["repomd.xml"]);
}

/// On the way to us anyone can answer 404 for the signature, or serve what was signed last month.
#[test]
fn metadata_that_lost_its_signature_or_is_older_than_in_the_lock_is_refused() {
    if !tools_are_here() {
        return;
    }
    let world = World::new();
    let lock = |more: &[&str]| {
        let ran = world.program(&[&["lock", "-m", "m.yaml"], more].concat());
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    world.sign_packages("good");
    let publish = |revision: &str| {
        world
            .run("createrepo_c", &["--quiet", "--revision", revision, "--set-timestamp-to-revision", "repo"]);
        world.sign_metadata("good");
    };
    let [old, new, kept] = [1_700_000_000, 1_760_000_000, 0].map(|time: u64| time.to_string());
    publish(&old);
    fs::rename(world.path("repo/repodata"), world.path(&kept)).unwrap();
    publish(&new);
    world.bundle(GOOD).unwrap();
    let locked = fs::read_to_string(world.path("m.lock")).unwrap();
    let key = world.fingerprint("good");
    for line in [format!("key = \"{key}\""), format!("revision = \"{new}\"")] {
        assert!(locked.to_lowercase().contains(&line), "{line}: {locked}");
    }
    assert!(locked.contains("date = \"2025-10-09T08:53:20Z\""), "{locked}");
    assert_eq!(lock(&[]).0, Some(0));

    // Replayed: signed by the right key, a while ago.
    fs::rename(world.path("repo/repodata"), world.path("newest")).unwrap();
    fs::rename(world.path(&kept), world.path("repo/repodata")).unwrap();
    let (code, told) = lock(&[]);
    assert_eq!(code, Some(1), "{told}");
    for word in ["repo `local`: its metadata is older than before", &old, &new, "`--accept-repo local`"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert_eq!(fs::read_to_string(world.path("m.lock")).unwrap(), locked);
    // A build that has to lock again is no way around.
    let manifest = fs::read_to_string(world.path("m.yaml")).unwrap();
    replace(&world.path("m.yaml"), "[app]", "[app, bash]");
    let build = ["build", "-m", "m.yaml", "--key", "key", "-o", "out.tar.gz"];
    assert_eq!(world.program(&build).status.code(), Some(1));
    fs::write(world.path("m.yaml"), &manifest).unwrap();
    let (code, told) = lock(&["--accept-repo", "local"]);
    assert!(code == Some(0) && told.contains("older than before, which you accepted"), "{told}");
    // What was accepted is what counts from now on.
    assert_eq!(lock(&[]).0, Some(0));

    // Stripped.
    fs::remove_file(world.path("repo/repodata/repomd.xml.asc")).unwrap();
    fs::remove_dir_all(world.path(".cache")).unwrap();
    let (code, told) = lock(&[]);
    assert_eq!(code, Some(1), "{told}");
    for word in ["its metadata is no longer signed", &key, "`--accept-repo local`"] {
        assert!(told.to_lowercase().contains(word), "{word}: {told}");
    }
    let (code, told) = lock(&["--accept-repo", "other"]);
    assert_eq!(code, Some(1), "{told}");
    fs::write(world.path("m.yaml"), manifest.replace(GOOD, ", gpgkey: good.asc, repo-gpgcheck: false"))
        .unwrap();
    assert_eq!(lock(&[]).0, Some(0));
    refused(world.bundle(", gpgkey: good.asc, repo-gpgcheck: true"), &["`repomd.xml` is not signed"]);
    // Seen for the first time it is said.
    world.bundle(GOOD).unwrap();
    fs::remove_file(world.path("m.lock")).unwrap();
    let (_, told) = lock(&[]);
    assert!(told.contains("repo `local` signs its packages, but not its metadata"), "{told}");
    assert!(!lock(&[]).1.contains("signs its packages"));
}

#[test]
fn each_format_is_checked_against_its_own_baseline() {
    if !tools_are_here() {
        return;
    }
    let world = World::new();
    world.publish();
    // The debs' baseline is empty, the rpms' one has bash.
    let index = world.bundle(&world.and_no_debs()).unwrap();
    let formats: Vec<&str> =
        index["baselines"].as_array().unwrap().iter().map(|one| one["format"].as_str().unwrap()).collect();
    assert_eq!(formats, ["deb", "rpm"]);
    assert_eq!(index["items"].as_array().unwrap().len(), 1, "bash is what every target has");
    let checked = world.program(&["check", "out.tar.gz", "--pubkey", "key.pub"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn what_no_repo_of_either_format_has_is_reported_with_the_nearest_name() {
    if !tools_are_here() {
        return;
    }
    let world = World::new();
    world.publish();
    world.bundle(&world.and_no_debs()).unwrap();
    replace(&world.path("m.yaml"), "[app]", "[appp]");
    let locked = world.program(&["lock", "-m", "m.yaml"]);
    let told = String::from_utf8_lossy(&locked.stderr);
    assert_eq!(locked.status.code(), Some(1));
    assert!(told.contains("no repo has `appp`") && told.contains("hint: did you mean `app`?"), "{told}");
}

#[test]
fn imported_rpms_tell_what_targets_must_have() {
    if !tools_are_here() {
        return;
    }
    let world = World::new();
    fs::create_dir_all(world.path("pkg")).unwrap();
    fs::copy(world.path("repo/app-1-1.noarch.rpm"), world.path("pkg/app-1-1.noarch.rpm")).unwrap();
    world.run("tar", &["czf", "packages.tar.gz", "pkg"]);
    let import = ["import", "amd64=packages.tar.gz", "--key", "key", "-o", "out.tar.gz"];
    assert!(world.program(&import).status.success());
    let checked = world.program(&["check", "out.tar.gz", "--pubkey", "key.pub"]);
    assert!(checked.status.success());
    let told = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(told, "note: amd64: no baseline is recorded: targets must have `bash`\n");
    let sbom = String::from_utf8(world.program(&["sbom", "out.tar.gz"]).stdout).unwrap();
    assert!(sbom.contains("pkg:rpm/app@1-1?arch=noarch"), "{sbom}");
}

/// The bundle's rpms are all that dnf gets to install from, into an empty root.
#[test]
fn what_is_bundled_installs_with_the_network_off() {
    let is_here = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    if !tools_are_here() || !is_here("dnf") {
        return println!("skipped: no dnf");
    }
    if !Command::new("unshare").args(["-n", "true"]).status().is_ok_and(|status| status.success()) {
        return println!("skipped: only root can cut the network");
    }
    let world = World::new();
    for machine in ["x86_64", "aarch64"] {
        world.build_for(machine, "lib", "");
        world.build_for(machine, "daemon", "Requires: lib = 1, app");
    }
    world.publish();
    let url = format!("file://{}", world.path("repo").display());
    let manifest = format!(
        "name: t\nversion: 1\narchs: [amd64, arm64]\nbaseline: none\n\
         repos: [{{name: local, type: rpm, url: \"{url}\", allow-unsigned: true}}]\npackages: {{worker: [daemon]}}\n"
    );
    fs::write(world.path("m.yaml"), manifest).unwrap();
    for arguments in [
        &["build", "-m", "m.yaml", "--key", "key", "-o", "out.tar.gz"][..],
        &["extract", "out.tar.gz", "-C", "x"],
    ] {
        let ran = world.program(arguments);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    for (arch, machine) in [("amd64", "x86_64"), ("arm64", "aarch64")] {
        let bundled = world.path(&format!("x/{arch}/pkg"));
        world.run("createrepo_c", &["--quiet", bundled.to_str().unwrap()]);
        let option = |name: &str, value: &str| format!("--{name}={}", world.path(value).display());
        let (root, cache) = (option("installroot", arch), option("setopt=cachedir", "dnf"));
        let (source, machine_option) =
            (format!("--repofrompath=bundle,file://{}", bundled.display()), format!("--forcearch={machine}"));
        let dnf = ["-n", "dnf", "-q", "-y", "--setopt=reposdir=/dev/null", "--nogpgcheck", "--releasever=1"];
        let more = [root.as_str(), &cache, &source, &machine_option, "--repo=bundle", "install", "daemon"];
        world.run("unshare", &[&dnf[..], &more].concat());
        let root = world.path(arch);
        let listed =
            world.run("rpm", &["--root", root.to_str().unwrap(), "-qa", "--qf", "%{name}.%{arch}\n"]);
        let mut listed: Vec<String> =
            String::from_utf8(listed).unwrap().lines().map(str::to_string).collect();
        listed.sort();
        let expected = ["app.noarch", "bash.noarch"].map(str::to_string).into_iter();
        let expected: Vec<String> =
            expected.chain(["daemon", "lib"].map(|name| format!("{name}.{machine}"))).collect();
        assert_eq!(listed, expected);
    }
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from));
    fs::write(path, text.replace(from, to)).unwrap();
}
