//! Whole rpm repositories, from urls to lines of the lock; good ones and bad ones.

use eggo_bundle::Tools;
use eggo_bundle::cache::Cache;
use eggo_bundle::http::{Http, Options};
use eggo_bundle::lock::LockedPackage;
use eggo_bundle::manifest::Manifest;
use eggo_bundle::packages::{self, history::History};
use eggo_bundles::progress::Silent;
use eggo_bundles::{Arch, Digest};
use eggo_terminal::Report;
use std::fs;
use std::path::Path;

/// A repository in the making: packages as lines of
/// `name evr | provides … | requires … | files … | hidden files …`.
struct Repo<'a> {
    packages: &'a [&'a str],
    checksum_type: &'a str,
    location_prefix: &'a str,
    /// What `modules.yaml` says, if there is one.
    modules: &'a str,
}

impl Default for Repo<'_> {
    fn default() -> Self {
        Self { packages: &[], checksum_type: "sha256", location_prefix: "Packages/", modules: "" }
    }
}

impl Repo<'_> {
    fn write(&self, root: &Path) {
        let (mut primary, mut filelists) = (String::new(), String::new());
        for line in self.packages {
            let mut fields = line.split('|').map(str::trim);
            let (name, evr) = fields.next().unwrap().split_once(' ').unwrap();
            let (version, release) = evr.split_once('-').unwrap();
            let entries = |text: Option<&str>| {
                let entry = |name: &str| format!("<rpm:entry name=\"{name}\"/>");
                text.unwrap_or("").split_whitespace().map(entry).collect::<String>()
            };
            let (provides, requires) = (entries(fields.next()), entries(fields.next()));
            let files = |text: Option<&str>| {
                let file = |name: &str| format!("<file>{name}</file>");
                text.unwrap_or("").split_whitespace().map(file).collect::<String>()
            };
            let (shown, hidden) = (files(fields.next()), files(fields.next()));
            let digest = Digest::of(line.as_bytes());
            primary += &format!(
                "<package type=\"rpm\"><name>{name}</name><arch>x86_64</arch>\
                 <version epoch=\"0\" ver=\"{version}\" rel=\"{release}\"/>\
                 <checksum type=\"{}\" pkgid=\"YES\">{digest}</checksum><size package=\"9\"/>\
                 <location href=\"{}{name}-{evr}.x86_64.rpm\"/><format><rpm:provides>\
                 <rpm:entry name=\"{name}\" flags=\"EQ\" epoch=\"0\" ver=\"{version}\" rel=\"{release}\"/>\
                 {provides}</rpm:provides><rpm:requires>{requires}</rpm:requires>{shown}</format></package>",
                self.checksum_type, self.location_prefix
            );
            filelists += &format!("<package pkgid=\"{digest}\" name=\"{name}\">{shown}{hidden}</package>");
        }
        let folder = root.join("repodata");
        fs::create_dir_all(&folder).unwrap();
        let data = |kind: &str, content: &str| {
            let file = format!("{kind}.xml");
            fs::write(folder.join(&file), content).unwrap();
            format!(
                "<data type=\"{kind}\"><checksum type=\"sha256\">{}</checksum>\
                 <location href=\"repodata/{file}\"/><size>{1}</size><open-size>{1}</open-size></data>",
                Digest::of(content.as_bytes()),
                content.len()
            )
        };
        let primary = data("primary", &format!("<metadata xmlns:rpm=\"r\">{primary}</metadata>"));
        let filelists = data("filelists", &format!("<filelists>{filelists}</filelists>"));
        let modules = if self.modules.is_empty() { String::new() } else { data("modules", self.modules) };
        fs::write(folder.join("repomd.xml"), format!("<repomd>{primary}{filelists}{modules}</repomd>"))
            .unwrap();
    }
}

/// Locks a manifest whose one repo is in `root`; `more` are further keys of that repo.
fn lock(root: &Path, more: &str, packages: &str, baseline: &str) -> Result<Vec<LockedPackage>, Report> {
    let repo = format!("name: test, type: rpm, url: \"file://{}\"{more}", root.display());
    lock_all(&manifest(root, &[&repo], packages, baseline))
}

/// Each repo as its keys.
fn manifest(root: &Path, repos: &[&str], packages: &str, baseline: &str) -> Manifest {
    let repos: Vec<String> = repos.iter().map(|repo| format!("{{{repo}}}")).collect();
    let text = format!(
        "name: t\nversion: 1\narchs: [amd64]\nbaseline: {baseline}\nrepos: [{}]\npackages: {{worker: [{packages}]}}\n",
        repos.join(", ")
    );
    Manifest::parse(&root.join("bundle.yaml"), text.as_bytes()).unwrap()
}

fn lock_all(manifest: &Manifest) -> Result<Vec<LockedPackage>, Report> {
    let locked =
        with_tools(async |tools| packages::lock(manifest, &[Arch::Amd64], &History::default(), tools).await);
    locked.map(|locked| locked.packages).map_err(Report::from)
}

fn prove(manifest: &Manifest, locked: &[LockedPackage]) -> Result<(), String> {
    let proven = with_tools(async |tools| packages::rpm::proof::prove(manifest, locked, tools).await);
    proven.map(drop).map_err(|error| Report::from(error).to_string())
}

fn with_tools<T>(work: impl AsyncFnOnce(Tools<'_>) -> T) -> T {
    let cache = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (http, cache) = (Http::new(Options::default()).unwrap(), Cache::open(cache.path()).unwrap());
    runtime.block_on(work(Tools { http: &http, cache: &cache, progress: &Silent }))
}

const UNSIGNED: &str = ", allow-unsigned: true";

fn names(locked: &[LockedPackage]) -> Vec<&str> {
    locked.iter().map(|package| package.name.as_str()).collect()
}

#[test]
fn a_closure_with_its_urls_and_who_needs_what() {
    let root = tempfile::tempdir().unwrap();
    let packages = ["app 1-1||lib.so tool", "lib 2-1|lib.so", "tool 1-1", "tool 3-1", "other 1-1"];
    Repo { packages: &packages, ..Repo::default() }.write(root.path());
    let locked = lock(root.path(), UNSIGNED, "app", "none").unwrap();
    assert_eq!(names(&locked), ["app", "lib", "tool"]);
    assert_eq!(locked[1].required_by, ["app"]);
    assert_eq!(locked[0].required_by, ["role worker"]);
    assert_eq!(locked[2].version, "3-1");
    assert!(locked[2].url.ends_with("/Packages/tool-3-1.x86_64.rpm"), "{}", locked[2].url);
    assert_eq!(locked[2].sha256, Digest::of(b"tool 3-1"));
}

#[test]
fn files_that_only_the_filelists_know_are_found() {
    let root = tempfile::tempdir().unwrap();
    let packages = ["app 1-1||/usr/share/deep/file", "data 1-1||||/usr/share/deep/file"];
    Repo { packages: &packages, ..Repo::default() }.write(root.path());
    assert_eq!(names(&lock(root.path(), UNSIGNED, "app", "none").unwrap()), ["app", "data"]);
}

#[test]
fn what_every_node_has_is_left_out() {
    let root = tempfile::tempdir().unwrap();
    let packages = ["app 1-1||bash extra", "bash 5-1||glibc", "glibc 2-1", "extra 1-1||glibc"];
    Repo { packages: &packages, ..Repo::default() }.write(root.path());
    assert_eq!(names(&lock(root.path(), UNSIGNED, "app", "minimal").unwrap()), ["app", "extra"]);
    fs::write(root.path().join("node.txt"), "glibc-2-1.x86_64\nextra-0.9-1.x86_64\n").unwrap();
    assert_eq!(names(&lock(root.path(), UNSIGNED, "app", "node.txt").unwrap()), ["app", "bash"]);
}

#[test]
fn a_missing_capability_is_named_with_who_needs_it() {
    let root = tempfile::tempdir().unwrap();
    Repo { packages: &["app 1-1||lib", "lib 1-1||nowhere.so"], ..Repo::default() }.write(root.path());
    let report = lock(root.path(), UNSIGNED, "app", "none").unwrap_err().to_string();
    assert!(report.contains("`nowhere.so`") && report.contains("lib 1-1"), "{report}");
}

/// dnf with `best` refuses, too: an older version is nobody's wish unless it is said.
#[test]
fn an_older_version_is_taken_only_where_that_is_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let packages = ["tools 1.4.7-1||lib-9", "tools 1.4.5-1||lib-8", "lib 8-1|lib-8", "app 1-1||tools"];
    Repo { packages: &packages, ..Repo::default() }.write(root.path());
    let report = lock(root.path(), UNSIGNED, "tools", "none").unwrap_err().to_string();
    assert!(report.contains("`tools 1.4.7-1` (test) requires `lib-9`"), "{report}");
    assert!(report.contains("older and installable: `tools 1.4.5-1` (test)"), "{report}");
    assert!(report.contains("`best: false`"), "{report}");
    // What others need is met by whatever meets it, as with dnf.
    assert_eq!(names(&lock(root.path(), UNSIGNED, "app", "none").unwrap()), ["tools", "lib", "app"]);
    let repo = format!("name: test, type: rpm, url: \"file://{}\"{UNSIGNED}", root.path().display());
    let mut manifest = manifest(root.path(), &[&repo], "tools", "none");
    manifest.best = false;
    let locked = lock_all(&manifest).unwrap();
    assert_eq!((names(&locked), locked[0].version.as_str()), (vec!["tools", "lib"], "1.4.5-1"));
    // A version that is named is no older one.
    assert_eq!(names(&lock(root.path(), UNSIGNED, "'tools < 1.4.7'", "none").unwrap()), ["tools", "lib"]);
}

#[test]
fn bad_repositories_are_refused_by_name_and_reason() {
    let good: &[&str] = &["app 1-1"];
    let refused = |repo: Repo<'_>, more: &str, expected: &str| {
        let root = tempfile::tempdir().unwrap();
        repo.write(root.path());
        let report = lock(root.path(), more, "app", "none").unwrap_err().to_string();
        assert!(report.contains("repo `test`") && report.contains(expected), "{report}");
    };
    refused(Repo { packages: good, ..Repo::default() }, "", "has no key");
    refused(Repo { packages: good, ..Repo::default() }, ", gpgkey: none.asc", "key `none.asc`");
    refused(Repo { packages: good, checksum_type: "md5", ..Repo::default() }, UNSIGNED, "only by `md5`");
    let long = "by `sha512`, and only `sha256` is understood";
    refused(Repo { packages: good, checksum_type: "sha512", ..Repo::default() }, UNSIGNED, long);
    refused(
        Repo { packages: good, location_prefix: "../", ..Repo::default() },
        UNSIGNED,
        "outside of the repository",
    );
}

#[test]
fn unsigned_packages_count_only_from_repos_that_allow_it() {
    let root = tempfile::tempdir().unwrap();
    Repo { packages: &["app 1-1"], ..Repo::default() }.write(root.path());
    let locked = lock(root.path(), UNSIGNED, "app", "none").unwrap();
    let prove_with = |repo: &str| {
        let repo = format!("{repo}, type: rpm, url: \"file://{}\"", root.path().display());
        prove(&manifest(root.path(), &[&repo], "app", "none"), &locked)
    };
    assert_eq!(prove_with("name: test, allow-unsigned: true"), Ok(()));
    let renamed = prove_with("name: renamed, allow-unsigned: true").unwrap_err();
    assert!(renamed.contains("`app` was locked from repo `test`, which is no longer there"), "{renamed}");
    assert!(renamed.contains("hint: run `eggo-bundle lock` again"), "{renamed}");
    let strict = prove_with("name: test").unwrap_err();
    assert!(strict.contains("repo `test` has no key"), "{strict}");
}

#[test]
fn two_repos_of_one_name_are_refused() {
    let root = tempfile::tempdir().unwrap();
    Repo { packages: &["app 1-1"], ..Repo::default() }.write(root.path());
    let section = format!("[same]\nbaseurl=file://{}\n", root.path().display());
    for file in ["one.repo", "two.repo"] {
        fs::write(root.path().join(file), &section).unwrap();
    }
    let repo = |name: &str| format!("name: {name}, type: rpm, file: {name}.repo{UNSIGNED}");
    let (one, two) = (repo("one"), repo("two"));
    assert!(lock_all(&manifest(root.path(), &[&one], "app", "none")).is_ok());
    let report = lock_all(&manifest(root.path(), &[&one, &two], "app", "none")).unwrap_err().to_string();
    assert!(report.contains("two repos are named `same`") && report.contains("hint:"), "{report}");
}

/// Serves the files of a folder until the test's process ends; gives its url.
fn serve(folder: std::path::PathBuf) -> String {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let path =
                lines.next().and_then(|line| Some(line.split(' ').nth(1)?.to_string())).unwrap_or_default();
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            let (status, body) = match fs::read(folder.join(path.trim_start_matches('/'))) {
                Ok(body) => ("200 x", body),
                Err(_) => ("404 x", Vec::new()),
            };
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            // A client that hangs up has what it wanted.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    url
}

#[test]
fn a_mirror_that_is_behind_its_metalink_gives_way_to_the_next() {
    let root = tempfile::tempdir().unwrap();
    Repo { packages: &["app 1-1"], ..Repo::default() }.write(&root.path().join("old"));
    Repo { packages: &["app 2-1"], ..Repo::default() }.write(&root.path().join("new"));
    let url = serve(root.path().to_path_buf());
    let promised = Digest::of(&fs::read(root.path().join("new/repodata/repomd.xml")).unwrap());
    let lock_from = |mirrors: &[&str]| {
        let mirrors = mirrors.iter().enumerate().map(|(i, mirror)| {
            format!("<url preference=\"{}\">{url}/{mirror}/repodata/repomd.xml</url>", 100 - i)
        });
        let mirrors: String = mirrors.collect();
        let metalink = format!("<metalink><hash type=\"sha256\">{promised}</hash>{mirrors}</metalink>");
        fs::write(root.path().join("metalink"), metalink).unwrap();
        let repo = format!("name: test, type: rpm, metalink: '{url}/metalink'{UNSIGNED}");
        lock_all(&manifest(root.path(), &[&repo], "app", "none"))
    };
    let locked = lock_from(&["old", "new"]).unwrap();
    assert_eq!(locked[0].version, "2-1");
    assert!(locked[0].url.starts_with(&format!("{url}/new/")), "{}", locked[0].url);
    let report = lock_from(&["old"]).unwrap_err().to_string();
    assert!(
        report.contains("is not the one that its metalink promises") && report.contains("hint:"),
        "{report}"
    );
}

#[test]
fn what_is_outside_of_modules_gives_way_also_in_another_repo() {
    let root = tempfile::tempdir().unwrap();
    let modules = "document: modulemd\ndata: {name: app, stream: '1', artifacts: {rpms: ['app-0:1-1.x86_64']}}\n\
                   ---\ndocument: modulemd-defaults\ndata: {module: app, stream: '1'}\n";
    Repo { packages: &["app 1-1"], modules, ..Repo::default() }.write(&root.path().join("modular"));
    Repo { packages: &["app 2-1", "lib 1-1"], ..Repo::default() }.write(&root.path().join("plain"));
    let versions = |plain: &str| {
        let here = root.path().display();
        let modular = format!("name: modular, type: rpm, url: 'file://{here}/modular'{UNSIGNED}");
        let locked = lock_all(&manifest(root.path(), &[plain, &modular], "app, lib", "none")).unwrap();
        locked.into_iter().map(|package| package.version).collect::<Vec<_>>()
    };
    let section = format!("[plain]\nbaseurl=file://{}/plain\n", root.path().display());
    let file = "name: plain, type: rpm, file: plain.repo, allow-unsigned: true";
    fs::write(root.path().join("plain.repo"), &section).unwrap();
    assert_eq!(versions(file), ["1-1", "1-1"]);
    // Unless it is meant to.
    fs::write(root.path().join("plain.repo"), section + "module_hotfixes=1\n").unwrap();
    assert_eq!(versions(file), ["2-1", "1-1"]);
}

/// As distributions ship them.
#[test]
fn variables_of_repo_files_are_replaced_also_in_keys_or_told_with_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    Repo { packages: &["app 1-1"], ..Repo::default() }.write(&root.path().join("x86_64"));
    let here = root.path().display();
    let report = |text: &str| {
        fs::write(root.path().join("os.repo"), text).unwrap();
        let repo = "name: os, type: rpm, file: os.repo, releasever: 9";
        lock_all(&manifest(root.path(), &[repo], "app", "none")).unwrap_err().to_string()
    };
    let found = report(&format!(
        "[os]\nbaseurl=file://{here}/$basearch\ngpgkey=file://{here}/KEY-$releasever-$basearch\n"
    ));
    assert!(found.contains("KEY-9-x86_64`: "), "{found}");
    let found = report(&format!("[os]\nbaseurl=file://{here}/$basearch$rltype\ngpgkey=file:///k\n"));
    assert!(found.contains("uses `$rltype`, which has no value"), "{found}");
    assert!(
        found.contains("hint: write its value in its place: dnf has it in `/etc/dnf/vars/rltype`"),
        "{found}"
    );
}

#[test]
fn a_flipped_byte_in_the_metadata_is_found() {
    let root = tempfile::tempdir().unwrap();
    Repo { packages: &["app 1-1"], ..Repo::default() }.write(root.path());
    let path = root.path().join("repodata/primary.xml");
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, bytes).unwrap();
    let report = lock(root.path(), UNSIGNED, "app", "none").unwrap_err().to_string();
    assert!(report.contains("repo `test`") && report.contains("primary.xml"), "{report}");
}
