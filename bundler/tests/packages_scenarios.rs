//! Small worlds and what must come of them: one file in `scenarios/` each, deb and rpm alike.
//!
//! ```yaml
//! about: what the scenario shows
//! packages: [{name: a, version: 1, depends: "b | c"}, …]   # other keys: fields of the format
//! installed: [x 1]            # the baseline
//! install: [a, "b >= 2"]
//! recommends: true            # take weak dependencies too
//! expect: [a 1, b 1]          # exactly these, or:
//! fails: ["no repo has `b`"]  # the explanation contains these
//! ```

use eggo_bundle::packages::baseline::{self, Installed};
use eggo_bundle::packages::deb::distill::distill;
use eggo_bundle::packages::deb::world::{self as deb, Index, Priority};
use eggo_bundle::packages::decide::Catalog;
use eggo_bundle::packages::provider::{Need, Provider};
use eggo_bundle::packages::rpm::metadata::Metadata;
use eggo_bundle::packages::rpm::repository::Repository;
use eggo_bundle::packages::rpm::world as rpm;
use eggo_bundle::packages::solver::{self, Request};
use eggo_bundle::packages::version::Relation;
use eggo_bundles::Digest;
use eggo_terminal::Report;
use eggo_yaml::Node;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

type Fields = Vec<(String, String)>;

struct Scenario {
    packages: Vec<Fields>,
    installed: Vec<Installed>,
    install: Vec<String>,
    recommends: bool,
    outcome: Outcome,
}

enum Outcome {
    Solved(Vec<String>),
    Fails(Vec<String>),
}

fn files(format: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios").join(format);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn read(file: &Path) -> Scenario {
    let root = eggo_yaml::parse(&file.display().to_string(), &std::fs::read(file).unwrap()).unwrap();
    let get =
        |key: &str| root.as_mapping().unwrap().iter().find(|entry| entry.key == key).map(|entry| &entry.node);
    let texts =
        |key: &str| -> Option<Vec<String>> { Some(get(key)?.as_sequence()?.iter().map(text).collect()) };
    let packages = get("packages").and_then(Node::as_sequence).unwrap();
    let fields = |node: &Node| {
        let entries = node.as_mapping().unwrap().iter();
        entries.map(|entry| (entry.key.clone(), text(&entry.node))).collect()
    };
    let installed = texts("installed").map(|lines| baseline::parse(&lines.join("\n")).unwrap());
    Scenario {
        packages: packages.iter().map(fields).collect(),
        installed: installed.unwrap_or_default(),
        install: texts("install").unwrap(),
        recommends: get("recommends").is_some(),
        outcome: match (texts("expect"), texts("fails")) {
            (Some(expect), None) => Outcome::Solved(expect),
            (None, Some(fails)) => Outcome::Fails(fails),
            _ => panic!("{}: either `expect` or `fails`", file.display()),
        },
    }
}

/// A list stands for its elements, a line each.
fn text(node: &Node) -> String {
    match node.as_sequence() {
        Some(list) => list.iter().map(text).collect::<Vec<_>>().join("\n"),
        None => node.as_str().unwrap().to_string(),
    }
}

fn field<'a>(package: &'a Fields, name: &str) -> Option<&'a str> {
    package.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn limit(request: &str) -> (&str, Option<(Relation, &str)>) {
    let words: Vec<&str> = request.split(' ').collect();
    match words.as_slice() {
        [name, relation, version] => (name, Some((Relation::parse(relation).unwrap(), version))),
        _ => (request, None),
    }
}

fn judge(file: &Path, provider: &dyn Provider, needs: Vec<Need>, outcome: &Outcome) -> Result<(), String> {
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let asked = |need| Request { need, asked_by: "the test".into(), roles: Default::default() };
    let requests: Vec<Request> = needs.into_iter().map(asked).collect();
    let found = solver::solve(provider, &requests).map(|solution| {
        let chosen = solution.chosen.keys().map(|id| provider.identity(*id));
        let mut chosen: Vec<String> = chosen.map(|one| format!("{} {}", one.name, one.version)).collect();
        chosen.sort();
        chosen
    });
    match (found, outcome) {
        (Ok(found), Outcome::Solved(expected)) => {
            let mut expected = expected.clone();
            expected.sort();
            if found == expected {
                Ok(())
            } else {
                Err(format!("{name}: found {found:?}, expected {expected:?}"))
            }
        }
        (Err(error), Outcome::Fails(lines)) => {
            let report = Report::from(error).to_string();
            match lines.iter().find(|line| !report.contains(line.as_str())) {
                None => Ok(()),
                Some(line) => Err(format!("{name}: `{line}` is not in:\n{report}")),
            }
        }
        (Ok(found), Outcome::Fails(_)) => Err(format!("{name}: expected a failure, found {found:?}")),
        (Err(error), _) => Err(format!("{name}: {}", Report::from(error))),
    }
}

fn finish(format: &str, results: Vec<Result<(), String>>) {
    let count = results.len();
    let failed: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(
        count > 0 && failed.is_empty(),
        "{} of {count} {format} scenarios:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn deb_scenarios() {
    finish("deb", files("deb").iter().map(|file| run_deb(file)).collect());
}

fn run_deb(file: &Path) -> Result<(), String> {
    let scenario = read(file);
    let mut indexes = Vec::new();
    // A suite for each distinct value of the field `suite`.
    for suite in ["stable", "backports", "experimental"] {
        let of_suite = |package: &&Fields| field(package, "suite").unwrap_or("stable") == suite;
        let stanzas: String = scenario.packages.iter().filter(of_suite).map(stanza).collect();
        indexes.push(Index {
            repo: "debian".into(),
            suite: suite.into(),
            urls: Vec::new(),
            key: None,
            priority: match suite {
                "stable" => Priority::Normal,
                "backports" => Priority::OnlyUpgrades,
                _ => Priority::NotAutomatic,
            },
            exclude: Vec::new(),
            text: distill(&mut stanzas.as_bytes()).unwrap(),
        });
    }
    let pins = scenario.install.iter().filter_map(|request| {
        let (name, limit) = limit(request);
        let (relation, version) = limit?;
        Some(deb::Pin { name: name.into(), relation, version: version.into() })
    });
    let options =
        deb::Options { architecture: "amd64".into(), recommends: scenario.recommends, pins: pins.collect() };
    let mut world = deb::World::new(&indexes, options);
    let installed = scenario.installed.iter();
    world.install(installed.map(|p| (p.name.as_str(), p.version.as_str(), p.architecture.as_deref())));
    let needs = scenario.install.iter().map(|request| {
        let (name, limit) = limit(request);
        world.request(name, limit)
    });
    judge(file, &world, needs.collect(), &scenario.outcome)
}

fn stanza(package: &Fields) -> String {
    let mut text = String::new();
    for (key, value) in package.iter().filter(|(key, _)| key != "suite") {
        let key = if key == "name" { "package" } else { key };
        text.push_str(&format!("{key}: {}\n", value.replace('\n', ", ")));
    }
    if field(package, "architecture").is_none() {
        text.push_str("architecture: amd64\n");
    }
    if field(package, "sha256").is_none() {
        text.push_str(&format!("sha256: {}\n", Digest::of(text.as_bytes())));
    }
    text + "filename: pool/x.deb\nsize: 1\n\n"
}

#[test]
fn rpm_scenarios() {
    finish("rpm", files("rpm").iter().map(|file| run_rpm(file)).collect());
}

fn run_rpm(file: &Path) -> Result<(), String> {
    let scenario = read(file);
    let installed =
        |p: &Installed| vec![("name".into(), p.name.clone()), ("version".into(), p.version.clone())];
    let known: Vec<Fields> = scenario.installed.iter().map(installed).collect();
    let all: String = known.iter().chain(&scenario.packages).map(element).collect();
    let xml = format!(
        "<metadata xmlns=\"http://linux.duke.edu/metadata/common\" \
         xmlns:rpm=\"http://linux.duke.edu/metadata/rpm\">{all}</metadata>"
    );
    let mut metadata = Metadata::default();
    metadata.adopt(0, Metadata::parse(xml.as_bytes()).unwrap(), |_, _, _| true);
    let installed: HashSet<u32> = (0..known.len() as u32).collect();
    let weak = if scenario.recommends { rpm::Weak::Follow } else { rpm::Weak::Ignore };
    let repository = Repository {
        name: "everything".into(),
        roots: Vec::new(),
        seen: Default::default(),
        filelists: None,
    };
    let world = rpm::World::new(metadata, vec![repository], weak, &[], installed);
    let needs = scenario.install.iter().map(|request| {
        let (name, limit) = limit(request);
        world.request(name, limit)
    });
    judge(file, &world, needs.collect(), &scenario.outcome)
}

fn element(package: &Fields) -> String {
    let get = |name: &str| field(package, name).unwrap_or("");
    let (version, release) = get("version").split_once('-').unwrap_or((get("version"), "1"));
    let (epoch, version) = version.split_once(':').unwrap_or(("0", version));
    let arch = field(package, "architecture").unwrap_or("x86_64");
    let mut format = String::new();
    for kind in ["provides", "requires", "conflicts", "obsoletes", "recommends"] {
        let mut entries: String = get(kind).lines().map(entry).collect();
        if kind == "provides" {
            entries.push_str(&format!(
                "<rpm:entry name=\"{}\" flags=\"EQ\" epoch=\"{epoch}\" ver=\"{version}\" rel=\"{release}\"/>",
                get("name")
            ));
        }
        format.push_str(&format!("<rpm:{kind}>{entries}</rpm:{kind}>"));
    }
    let files: String = get("files").lines().map(|file| format!("<file>{file}</file>")).collect();
    format!(
        "<package type=\"rpm\"><name>{name}</name><arch>{arch}</arch>\
         <version epoch=\"{epoch}\" ver=\"{version}\" rel=\"{release}\"/>\
         <checksum type=\"sha256\" pkgid=\"YES\">{digest}</checksum><size package=\"1\"/>\
         <location href=\"{name}.rpm\"/><format>{format}{files}</format></package>",
        name = get("name"),
        digest = Digest::of(format!("{package:?}").as_bytes())
    )
}

fn entry(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let words: Vec<&str> = text.split(' ').collect();
    let [name, operator, version] = words.as_slice() else {
        return format!("<rpm:entry name=\"{escaped}\"/>");
    };
    let flags = match *operator {
        "<" => "LT",
        "<=" => "LE",
        "=" => "EQ",
        ">=" => "GE",
        ">" => "GT",
        _ => return format!("<rpm:entry name=\"{escaped}\"/>"),
    };
    let (version, release) = version.split_once('-').map_or((*version, None), |(v, r)| (v, Some(r)));
    let (epoch, version) = version.split_once(':').unwrap_or(("0", version));
    let release = release.map_or(String::new(), |release| format!(" rel=\"{release}\""));
    format!("<rpm:entry name=\"{name}\" flags=\"{flags}\" epoch=\"{epoch}\" ver=\"{version}\"{release}/>")
}
