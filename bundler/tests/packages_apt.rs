//! The machine's own apt is the judge: the same packages, versions and digests for the same
//! names, in both architectures.

use eggo_bundle::Tools;
use eggo_bundle::cache::Cache;
use eggo_bundle::http::{Http, Options};
use eggo_bundle::manifest::Manifest;
use eggo_bundle::packages::{self, history::History};
use eggo_bundles::Arch;
use eggo_bundles::progress::Silent;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn shared(below: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("shared").join(below);
    root.exists().then_some(root)
}

/// What `lock` answers for `names`: `name version architecture sha256`, sorted.
fn ours(
    runtime: &tokio::runtime::Runtime,
    cache: &Cache,
    arch: Arch,
    names: &[&str],
) -> Result<BTreeSet<String>, String> {
    let text = format!(
        "name: t\nversion: 1\nrepos: [{{name: debian, type: deb, from: system}}]\nbaseline: none\n\
         packages: {{node: [{}]}}\n",
        names.join(", ")
    );
    let manifest = Manifest::parse(Path::new("t.yaml"), text.as_bytes()).unwrap();
    let http = Http::new(Options::default()).unwrap();
    let tools = Tools { http: &http, cache, progress: &Silent };
    let locked = runtime.block_on(packages::lock(&manifest, &[arch], &History::default(), tools));
    let locked = locked.map_err(|error| eggo_terminal::Report::from(error).to_string())?;
    Ok(locked
        .packages
        .iter()
        .map(|p| format!("{} {} {} {}", p.name, p.version, p.architecture, p.sha256))
        .collect())
}

fn apts(oracle: &Path, work: &Path, suite: &str, arch: Arch, names: &[&str]) -> BTreeSet<String> {
    let output = Command::new(oracle)
        .args([suite, arch.as_str()])
        .args(names)
        .env("ORACLE", work)
        .output()
        .expect("the oracle runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split(' ').take(4).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn closures_equal_apts() {
    let Some(oracle) = shared("oracles/aptclosure") else { return println!("skipped: no oracles") };
    let Some(suite) = std::fs::read_to_string("/etc/os-release").ok().and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).map(str::to_string)
    }) else {
        return println!("skipped: not a Debian machine");
    };
    if !Path::new("/etc/apt/sources.list.d/debian.sources").exists() {
        return println!("skipped: no apt sources in the known place");
    }
    let work = std::env::var_os("EGGO_TEST_ORACLE").map(PathBuf::from);
    let temporary = tempfile::tempdir().unwrap();
    let work = work.unwrap_or_else(|| temporary.path().to_path_buf());
    let cache = Cache::open(work.join("cache")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for arch in Arch::ALL {
        for name in ["containerd", "etcd-server", "docker.io", "nginx", "conntrack", "haproxy", "podman"] {
            let expected = apts(&oracle, &work, &suite, arch, &[name]);
            let found = ours(&runtime, &cache, arch, &[name]).unwrap();
            assert_eq!(found, expected, "{name} on {arch}");
        }
    }
}
