//! What ARCHITECTURE.md promises of the crates, and that the pages name only what is there.

use eggo_terminal::{Code, Report};
use eggo_tests::lab::project;
use eggo_tests::modules::{cycle, files, uses};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// What cargo knows of the workspace and all that it is made of on this system.
fn graph() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // What only other systems need has perhaps never been downloaded.
    let here = format!("--filter-platform={}-unknown-linux-gnu", std::env::consts::ARCH);
    let words = ["metadata", "--format-version=1", "--locked", "--offline", &here];
    let run = Command::new(cargo).args(words).current_dir(project()).output().expect("cargo runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    serde_json::from_slice(&run.stdout).expect("JSON")
}

/// Every crate that gets into each crate of the workspace, by name.
fn linked() -> BTreeMap<String, BTreeSet<String>> {
    let graph = graph();
    let text = |value: &Value| value.as_str().expect("a text").to_string();
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let names: BTreeMap<String, String> =
        list(&graph["packages"]).iter().map(|crate_| (text(&crate_["id"]), text(&crate_["name"]))).collect();
    let normal = |need: &Value| list(&need["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
    let needs: BTreeMap<String, Vec<String>> = list(&graph["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let needs =
                list(&node["deps"]).into_iter().filter(normal).map(|need| text(&need["pkg"])).collect();
            (text(&node["id"]), needs)
        })
        .collect();
    let reached = |id: &String| {
        let (mut found, mut rest) = (BTreeSet::new(), needs[id].clone());
        while let Some(id) = rest.pop() {
            if found.insert(names[&id].clone()) {
                rest.extend(needs[&id].clone());
            }
        }
        found
    };
    list(&graph["workspace_members"])
        .iter()
        .map(|id| (names[&text(id)].clone(), reached(&text(id))))
        .collect()
}

/// Where it is said which Rust it takes.
#[test]
fn the_rust_version_suffices_for_everything_linked() {
    let number =
        |text: &str| -> Vec<u32> { text.split('.').map(|part| part.parse().expect("a number")).collect() };
    let graph = graph();
    let packages = graph["packages"].as_array().expect("a list");
    let resolved: BTreeSet<&str> = graph["resolve"]["nodes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|node| node["id"].as_str())
        .collect();
    let needs =
        packages.iter().filter(|package| package["id"].as_str().is_some_and(|id| resolved.contains(id)));
    let needs: Vec<(Vec<u32>, &str)> = needs
        .filter_map(|package| Some((number(package["rust_version"].as_str()?), package["name"].as_str()?)))
        .collect();
    let ours = needs.iter().find(|(_, name)| *name == "eggo-install").map(|(version, _)| version.clone());
    let ours = ours.expect("the workspace says it");
    for (version, name) in &needs {
        assert!(version[..2] <= ours[..2], "{name} needs Rust {version:?}, and Cargo.toml says {ours:?}");
    }
    assert!(needs.len() > 100, "the check itself works");
    let said = format!("{}.{}", ours[0], ours[1]);
    for (file, words) in [
        ("README.md", format!("Rust {said} or newer")),
        ("README.zh-CN.md", format!("Rust {said} 或更高")),
        ("CONTRIBUTING.md", format!("Rust {said} or newer")),
        ("scripts/setup", format!("RUST_VERSION={said}\n")),
    ] {
        let text = std::fs::read_to_string(project().join(file)).expect(file);
        assert!(text.contains(&words), "{file} does not say `{}`", words.trim());
    }
}

#[test]
fn the_air_gap_is_visible_in_what_is_linked() {
    let linked = linked();
    let lacks = |name: &str, others: &[&str]| {
        for other in others {
            assert!(!linked[name].contains(*other), "{name} links {other}");
        }
    };
    const HTTP: [&str; 5] = ["reqwest", "hyper", "h2", "ureq", "curl"];
    lacks("eggo-install", &HTTP);
    lacks("eggo-install", &["eggo-bundle"]);
    // A library without a terminal. (`minisign` brings rpassword along, which nothing of ours calls there.)
    lacks("eggo-deploy", &["clap", "indicatif", "tracing-subscriber", "eggo-terminal"]);
    assert!(linked["eggo-install"].contains("clap"), "the check itself works");
    lacks("eggo-bundle", &["eggo-install", "russh"]);
    lacks("eggo-bundles", &HTTP);
    lacks("eggo-bundles", &["tokio", "russh", "eggo-yaml"]);
    assert!(linked["eggo-bundle"].contains("reqwest"), "the check itself works");
}

/// A newcomer reads a crate from its lowest module up.
#[test]
fn modules_make_no_circle() {
    for crate_ in ["deploy", "bundles", "bundler", "yaml", "errors", "terminal"] {
        let uses = uses(&project().join(crate_).join("src"));
        assert!(uses.len() > 2, "{crate_}: the check itself works");
        if let Some(cycle) = cycle(&uses) {
            panic!("{crate_}: {cycle}");
        }
    }
}

/// Everything else looks, or changes a node in a step; more of these need a good reason.
#[test]
fn few_commands_write_to_a_node_outside_of_a_step() {
    let files = files(&project().join("deploy/src"));
    let found = files.iter().filter(|(_, code)| code.contains("Command::scratch("));
    let found: Vec<String> = found.map(|(path, _)| path.display().to_string()).collect();
    // kubectl's kubeconfig, in memory; packages in a folder of their own, for a package manager that only tries.
    assert_eq!(found, ["cluster/kubectl.rs", "packages/scripts.rs"]);
}

/// The codes of errors in the source of the libraries.
fn codes() -> BTreeSet<String> {
    let mut codes = BTreeSet::from([Code::FAILED.as_str().to_string()]);
    let strings =
        |text: &str| -> Vec<String> { text.split('"').skip(1).step_by(2).map(str::to_string).collect() };
    for crate_ in ["errors", "deploy", "bundles"] {
        let source = project().join(crate_).join("src");
        for path in files(&source).keys() {
            let text = std::fs::read_to_string(source.join(path)).expect("a text");
            let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            for start in ["Code::new(\"", ".code(\""] {
                codes.extend(
                    text.split(start).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_string())),
                );
            }
            for body in text.split("fn code(&self)").skip(1) {
                codes.extend(strings(body.split("\n    }\n").next().unwrap_or_default()));
            }
            for explained in text.split("Explain for ").skip(1) {
                let body = explained.split("\n}\n").next().unwrap_or_default();
                assert!(body.contains("fn code(&self)"), "{}: an error without a code", path.display());
            }
        }
    }
    codes
}

#[test]
fn error_codes_and_their_page_agree() {
    let page = std::fs::read_to_string(project().join("docs/errors.md")).expect("a page");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let listed: Vec<String> = rows.iter().map(|row| row[0].trim_matches('`').to_string()).collect();
    assert!(listed.is_sorted(), "in order");
    let codes = codes();
    let plain = |code: &String| code.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !code.is_empty();
    assert!(codes.iter().all(plain), "{codes:?}");
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), codes);
    for row in &rows {
        let [code, meaning, exits, advice] = row.as_slice() else { panic!("{row:?}") };
        assert!(!meaning.is_empty() && !advice.is_empty(), "{code}");
        for exit in exits.split(", ") {
            let name = match exit {
                "1" => "user",
                "2" => "usage",
                "3" => "untrusted",
                "4" => "some-hosts",
                "101" => "bug",
                "130" => "stopped",
                other => panic!("{code}: exit code {other}"),
            };
            // What a program reads is what was written.
            let text = format!(
                r#"{{"code":"{}","message":"m","notes":["n"],"hint":"h","exit":"{name}"}}"#,
                code.trim_matches('`')
            );
            let report: Report = serde_json::from_str(&text).expect("a report");
            assert_eq!((report.exit as u8).to_string(), exit);
            assert_eq!(serde_json::to_string(&report).expect("JSON"), text);
        }
    }
}

#[test]
fn pages_name_only_what_is_there() {
    let pages = [
        "README.md",
        "README.zh-CN.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/errors.md",
        "docs/events.md",
        "docs/format.md",
        "docs/deploy-yaml.md",
        "docs/manifest.md",
    ];
    for page in pages {
        let text = std::fs::read_to_string(project().join(page)).expect(page);
        let folder = project().join(page).parent().expect("a folder").to_path_buf();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let file = link.split('#').next().unwrap_or(link);
            assert!(folder.join(file).exists(), "{page}: the link `{link}` leads nowhere");
        }
        let rooms = [
            "bundles/",
            "bundler/",
            "deploy/",
            "installer/",
            "errors/",
            "yaml/",
            "terminal/",
            "tests/",
            "scripts/",
            "docs/",
            "manifests/",
        ];
        let words = text.split('`').skip(1).step_by(2).filter_map(|code| code.split_whitespace().next());
        // `NAME` stands for one that a reader chooses.
        let words = words.filter(|word| !word.contains("NAME"));
        for path in words.filter(|word| rooms.iter().any(|room| word.starts_with(room))) {
            assert!(project().join(path).exists(), "{page}: there is no `{path}`");
        }
    }
}

/// What surrounds the process is handed in by its caller: two callers in one process may differ.
#[test]
fn the_library_looks_nothing_up_in_its_surroundings() {
    let source = project().join("deploy/src");
    let files = files(&source);
    assert!(files.len() > 50, "the check itself works");
    for path in files.keys() {
        let text = std::fs::read_to_string(source.join(path)).expect("a text");
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let variables = ["std::env::", "use std::env", "home_dir()", "SSH_AUTH_SOCK", "connect_env"];
        // They ask TMPDIR.
        let temporary = ["tempdir()", "tempfile()", "NamedTempFile::new()", "TempDir::new()"];
        for word in variables.iter().chain(&temporary) {
            assert!(!code.contains(word), "{}: `{word}`", path.display());
        }
    }
}

/// The threads that serve the connections to all nodes do not wait for a disk.
#[test]
fn no_async_function_of_the_library_waits_for_a_disk() {
    let disk =
        ["fs::", "File::open", "File::create", "sync_all()", "sync_data()", "read_to_end(", "of_reader("];
    // What reads and writes files behind a name.
    let rooms =
        ["Journal::open(", "Journal::read(", "state::save", "state::hook", "shelf.addon(", "shelf.file("];
    let elsewhere = ["blocking(", "on_disk(", "from_shelf("];
    let mut found = 0;
    for (path, code) in files(&project().join("deploy/src")) {
        for function in code.split("fn ").filter(|function| function.contains(".await")) {
            let name = function.split(['(', '<']).next().unwrap_or_default();
            for word in disk.iter().chain(&rooms).filter(|word| function.contains(**word)) {
                let off = elsewhere.iter().any(|helper| function.contains(helper));
                assert!(off, "{}: `{word}` in `{name}`, which is async", path.display());
                found += 1;
            }
        }
    }
    assert!(found > 10, "the check itself works");
}

/// What is printed may come from a node, a bundle or a file: it is made printable at the one exit.
#[test]
fn only_one_crate_writes_to_the_terminal() {
    let exits = ["::stdout", "::stderr", " stdout()", " stderr()", "print!(", "println!("];
    for crate_ in ["bundles", "bundler", "deploy", "installer", "yaml", "errors"] {
        let source = project().join(crate_).join("src");
        for (path, code) in files(&source) {
            for exit in exits {
                assert!(
                    !code.contains(exit),
                    "{crate_}/src/{}: `{exit}` goes around eggo-terminal",
                    path.display()
                );
            }
        }
        let manifest = std::fs::read_to_string(project().join(crate_).join("Cargo.toml")).expect("a text");
        let needs = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for other in ["indicatif", "rpassword", "console", "crossterm"] {
            let named = needs.lines().any(|line| line.starts_with(other));
            assert!(!named, "{crate_} has {other} besides eggo-terminal");
        }
    }
}
