use super::*;
use crate::events::Silent;
use crate::journal::Journal;
use crate::remote::fake::Fake;
use std::path::Path;

fn open(folder: &Path) -> Run {
    Run::new(Journal::open(folder).unwrap(), Arc::new(Silent))
}

async fn journal(folder: &Path) -> Run {
    let run = open(folder);
    for (node, phase, step) in [
        ("a", "distribute", "mark"),
        ("b", "distribute", "mark"),
        ("a", "files", "x"),
        ("a", "files", "y"),
        ("b", "files", "x"),
    ] {
        let record = Record::Intent {
            node: node.into(),
            phase: phase.into(),
            step: step.into(),
            fingerprint: String::new(),
            undo: vec![Undo::unit(format!("undo-{step}"))],
            at: now(),
        };
        run.journal().append(record).await.unwrap();
    }
    run
}

fn hosts(fakes: &[&Arc<Fake>]) -> Reached {
    fakes.iter().map(|fake| (fake.name().to_string(), Arc::clone(fake) as Arc<dyn Host>)).collect()
}

#[tokio::test]
async fn the_last_change_is_undone_first_and_a_gone_node_keeps_its_entries() {
    let folder = tempfile::tempdir().unwrap();
    let run = journal(folder.path()).await;
    let a = Arc::new(Fake::new("a"));
    let cleaned = cleanup(&run, &hosts(&[&a]), &Options::default()).await.unwrap();
    assert_eq!(cleaned.undone, 3);
    let scripts = a.scripts();
    assert_eq!(scripts.len(), 2);
    let (y, x) = (scripts[0].find("undo-y").unwrap(), scripts[0].find("undo-x").unwrap());
    assert!(y < x);
    assert!(scripts[1].contains("undo-mark"));
    let report = cleaned.report().unwrap_err();
    assert_eq!((report.message.as_str(), report.exit), ("1 node could not be cleaned up", Exit::SomeHosts));
    assert_eq!(report.notes, ["b: it cannot be reached"]);
    assert!(run.journal().entries().iter().all(|entry| entry.node == "b"));

    drop(run);
    let run = open(folder.path());
    let options = Options { forget_gone: true, ..Options::default() };
    let cleaned = cleanup(&run, &hosts(&[&a]), &options).await.unwrap();
    assert!(cleaned.report().is_ok());
    assert!(run.journal().entries().is_empty());
}

#[tokio::test]
async fn what_could_not_be_undone_stays_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let run = journal(folder.path()).await;
    let a = Arc::new(Fake::new("a").on("undo-y", "@failed 1\n"));
    let b = Arc::new(Fake::new("b"));
    let cleaned = cleanup(&run, &hosts(&[&a, &b]), &Options::default()).await.unwrap();
    assert_eq!(cleaned.failures.len(), 1);
    assert_eq!(cleaned.failures[0].report.message, "could not undo x");
    let left: Vec<String> =
        run.journal().entries().iter().map(|entry| format!("{} {}", entry.node, entry.step)).collect();
    assert_eq!(left, ["a mark", "a x"]);
}

fn entry(phase: &str, step: &str, undo: Vec<Undo>) -> Entry {
    let (phase, step) = (phase.into(), step.into());
    Entry { node: "a".into(), phase, step, fingerprint: String::new(), undo, done: true }
}

#[test]
fn the_first_phase_is_undone_last_whatever_came_to_it_later() {
    let steps = [("distribute", "mark"), ("files", "x"), ("distribute", "late"), ("upgrade", "new")];
    let phases = backwards(steps.map(|(phase, step)| entry(phase, step, Vec::new())).into());
    let story: Vec<String> = phases
        .iter()
        .map(|(phase, nodes)| {
            format!("{phase}: {:?}", nodes["a"].iter().map(|e| &e.step).collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(story, [r#"upgrade: ["new"]"#, r#"files: ["x"]"#, r#"distribute: ["late", "mark"]"#]);
}

#[test]
fn images_go_only_on_request_and_every_entry_is_asked_for_its_end() {
    let images = Undo::Images { runtime: Default::default(), names: vec!["pause".into()] };
    let entries = [entry("p", "x", vec![Undo::unit("a"), images]), entry("p", "y", vec![])];
    let calls = |images| {
        let script = script(&entries, &Options { images, ..Options::default() }).to_string();
        let lines = script.lines().filter(|line| line.starts_with("undo stop") || line.starts_with("entry "));
        (lines.map(str::to_string).collect::<Vec<_>>(), script.contains("undo remove_images_of"))
    };
    let lines = ["undo stop_unit a", "entry 0", "entry 1"].map(String::from).to_vec();
    assert_eq!(calls(false), (lines.clone(), false));
    assert_eq!(calls(true), (lines, true));
}

#[test]
fn packages_of_all_runs_go_together() {
    let packages = |names: &[&str]| Undo::Packages {
        manager: crate::facts::Manager::Dpkg,
        names: names.iter().map(|name| name.to_string()).collect(),
    };
    let other = Undo::unit("other");
    let merged = together(&[other.clone(), packages(&["a"]), packages(&["b", "c"])]);
    assert_eq!(merged, [other, packages(&["a", "b", "c"])]);
}

/// A cluster of one node with a hook before its cleanup and one after it.
fn hooked(state: &Path) -> crate::config::Config {
    let text = "cluster-id: k\nmasters: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                workers: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                install:\n  package-source: {type: bundle}\n  addition:\n    worker:\n\
                \x20   - {name: before.sh, type: shell, schedule: precleanup, timeout: 9s}\n\
                \x20   - {name: after.sh, type: shell, schedule: postcleanup}\n";
    let config = crate::config::parse("d.yaml", text.as_bytes()).unwrap().config;
    let script = |name: &str, _| Ok(Some(format!("#!/bin/sh\necho {name}\n").into_bytes()));
    crate::state::save_hooks(state, &config, script).unwrap();
    config
}

/// One run of the program.
async fn hooked_run(folder: &Path, config: &crate::config::Config, a: &Arc<Fake>) -> Vec<Failure> {
    let run = open(folder);
    let hooks = crate::hooks::Hooks { config, run: &run, operator: "cleanup" };
    let hooks = CleanupHooks { hooks, state: folder, skip: false };
    let reached = hosts(&[a]);
    let mut failures = hooks.before(&reached).await.unwrap();
    let options = Options { only: [a.name().to_string()].into(), ..Options::default() };
    failures.extend(cleanup(&run, &reached, &options).await.unwrap().failures);
    failures.extend(hooks.after(&reached).await.unwrap());
    failures
}

#[tokio::test]
async fn hooks_run_before_and_after_with_what_they_need_to_know() {
    let folder = tempfile::tempdir().unwrap();
    let config = hooked(folder.path());
    drop(journal(folder.path()).await);
    let a = Arc::new(Fake::new("a"));
    assert_eq!(hooked_run(folder.path(), &config, &a).await, []);
    let story = ["run the hook before.sh", "undo changes", "undo changes", "run the hook after.sh"];
    assert_eq!(a.story(), story);
    let script = &a.scripts()[0];
    for part in ["LIMIT=9", "EGGO_HOOK_TYPE=precleanup", "EGGO_OPERATOR=cleanup", "EGGO_NODE_ROLE=worker"] {
        assert!(script.contains(part), "{part} in {script}");
    }
    assert!(open(folder.path()).journal().entries().iter().all(|entry| entry.node == "b"));
}

#[tokio::test]
async fn a_failing_hook_leaves_the_node_as_it_is_and_no_hook_runs_twice() {
    let folder = tempfile::tempdir().unwrap();
    let config = hooked(folder.path());
    drop(journal(folder.path()).await);
    let broken = Arc::new(Fake::new("a").fails("before.sh", 1, "no space"));
    let failures = hooked_run(folder.path(), &config, &broken).await;
    assert_eq!(failures.len(), 1);
    assert_eq!(broken.story(), ["run the hook before.sh"]);

    // Nothing is left on the node, and the last hook fails: it alone runs the next time.
    let late = Arc::new(Fake::new("a").fails("after.sh", 1, "no space"));
    assert_eq!(hooked_run(folder.path(), &config, &late).await.len(), 1);
    let well = Arc::new(Fake::new("a"));
    assert_eq!(hooked_run(folder.path(), &config, &well).await, []);
    assert_eq!(well.story(), ["run the hook after.sh"]);
}

#[tokio::test]
async fn hooks_of_a_cleanup_that_was_cut_off_run_again_after_an_install() {
    let folder = tempfile::tempdir().unwrap();
    let config = hooked(folder.path());
    drop(journal(folder.path()).await);
    let stuck = || Arc::new(Fake::new("a").on("undo-y", "@failed 0\n"));
    let (first, second) = (stuck(), stuck());
    assert_eq!(hooked_run(folder.path(), &config, &first).await.len(), 1);
    assert_eq!(first.story(), ["run the hook before.sh", "undo changes"]);
    assert_eq!(hooked_run(folder.path(), &config, &second).await.len(), 1);
    assert_eq!(second.story(), ["undo changes"], "the same cleanup goes on");

    open(folder.path()).begin("deploy", None, None).await.unwrap();
    let well = Arc::new(Fake::new("a"));
    assert_eq!(hooked_run(folder.path(), &config, &well).await, []);
    let story = ["run the hook before.sh", "undo changes", "undo changes", "run the hook after.sh"];
    assert_eq!(well.story(), story);
}
