//! The resolver's answers beside dnf's, on real openEuler metadata.

use eggo_bundle::packages::provider::{Need, Provider};
use eggo_bundle::packages::rpm::metadata::Metadata;
use eggo_bundle::packages::rpm::repository::Repository;
use eggo_bundle::packages::rpm::rich::Plain;
use eggo_bundle::packages::rpm::world::{Versions, Weak, World, runs};
use eggo_bundle::packages::solver::{self, Request};
use eggo_bundles::Arch;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

fn data() -> Option<PathBuf> {
    let named = std::env::var_os("EGGO_TEST_DATA").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"));
    let folder = folder.join("rpm");
    if !folder.is_dir() {
        println!("skipped: no test data");
        return None;
    }
    Some(folder)
}

fn inflated(path: PathBuf) -> impl BufRead {
    BufReader::new(flate2::bufread::GzDecoder::new(BufReader::new(File::open(path).unwrap())))
}

/// Solves each name of dnf's list alone into an empty system; prints and counts the differences.
fn compare(arch: Arch, repo: &str) {
    let Some(data) = data() else { return };
    let mut metadata = Metadata::default();
    let primary = data.join(repo).join("repodata/primary.xml.gz");
    metadata.adopt(0, Metadata::parse(inflated(primary)).unwrap(), |_, _, arch_name| {
        runs(arch).contains(&arch_name)
    });
    let mut world = World::new(
        metadata,
        vec![Repository { name: repo.into(), roots: vec![], seen: Default::default(), filelists: None }],
        Weak::Ignore,
        &[],
        HashSet::new(),
    );
    world.accept(Versions::Newest);
    let expected = inflated(data.join(format!("expected-openeuler-2003sp3.{}.tsv.gz", arch.machine())));
    let (mut all, mut equal, mut wrong) = (0, 0, Vec::new());
    for line in expected.lines() {
        let line = line.unwrap();
        let fields: Vec<&str> = line.split('\t').collect();
        let request = Request {
            need: Need {
                text: fields[0].into(),
                choices: world.asked(&Plain { name: fields[0], version: None }),
                ..Need::default()
            },
            asked_by: "test".into(),
            roles: BTreeSet::new(),
        };
        let ours = solver::solve(&world, &[request]);
        all += 1;
        match (&ours, fields[1]) {
            (Ok(solution), "ok") => {
                let ours: BTreeSet<String> = solution.chosen.keys().map(|id| nevra(&world, *id)).collect();
                let theirs: BTreeSet<String> = fields[4].split(' ').map(str::to_string).collect();
                if ours == theirs {
                    equal += 1;
                } else {
                    let more: Vec<_> = ours.difference(&theirs).collect();
                    let less: Vec<_> = theirs.difference(&ours).collect();
                    wrong.push(format!("{}: more {more:?} less {less:?}", fields[0]));
                }
            }
            (Err(_), "fail") => equal += 1,
            (Ok(_), _) => wrong.push(format!("{}: solved, dnf says {}", fields[0], fields[4])),
            (Err(error), _) => wrong.push(format!("{}: {error} {:?}", fields[0], error.notes)),
        }
    }
    println!("{arch}: {equal} of {all} equal to dnf");
    for line in wrong.iter().take(200) {
        println!("  {line}");
    }
    assert!(equal * 100 >= all * 99, "{equal} of {all}");
}

fn nevra(world: &World, id: eggo_bundle::packages::provider::PackageId) -> String {
    let identity = world.identity(id);
    let version = match identity.version.contains(':') {
        true => identity.version,
        false => format!("0:{}", identity.version),
    };
    format!("{}-{version}.{}", identity.name, identity.architecture)
}

#[test]
fn agrees_with_dnf_on_openeuler_x86_64() {
    compare(Arch::Amd64, "openeuler-2003sp3");
}

#[test]
fn agrees_with_dnf_on_openeuler_aarch64() {
    compare(Arch::Arm64, "openeuler-2003sp3-aarch64");
}
