use super::*;
use crate::events::Silent;
use crate::journal::Journal;
use crate::remote::fake::Fake;
use std::path::Path;

const PLAIN: &str = "masters: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                     workers: [{name: b, ip: 192.168.7.2, arch: amd64}]\n\
                     install: {package-source: {type: bundle}}\n";

/// One run of the program, that reaches these nodes.
fn cleaning(folder: &Path, config: &Arc<Config>, fakes: &[&Arc<Fake>]) -> Cleaning {
    let hosts = fakes.iter().map(|fake| (fake.name().to_string(), Arc::clone(fake) as Arc<dyn Host>));
    Cleaning {
        config: config.clone(),
        run: Arc::new(open(folder)),
        state: folder.to_path_buf(),
        reached: hosts.collect(),
        options: Options::default(),
        operator: "cleanup",
        hooks_follow: true,
        titles: Titles::from([("packages", "Install packages")]),
        undone: AtomicUsize::new(0),
    }
}

fn plain() -> Arc<Config> {
    Arc::new(crate::config::parse("d.yaml", PLAIN.as_bytes()).unwrap().config)
}

fn failures(result: Result<(), PhaseError>) -> Vec<Failure> {
    match result {
        Ok(()) => Vec::new(),
        Err(PhaseError::Nodes(failures)) => failures,
        Err(PhaseError::Whole(report)) => panic!("{report}"),
    }
}

fn open(folder: &Path) -> Run {
    Run::new(Journal::open(folder).unwrap(), Arc::new(Silent))
}

#[tokio::test]
async fn a_node_that_is_anothers_by_now_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    journal(folder.path()).await;
    let held = Fake::new("a").on("undo changes", "@held\nm2\nholder ops@desk:/srv/two\n");
    let (a, b, config) = (Arc::new(held), Arc::new(Fake::new("b")), plain());
    let refused = cleaning(folder.path(), &config, &[&a, &b]);
    let failed = failures(refused.undo().await);
    let [Failure { node, report }] = failed.as_slice() else { panic!("{failed:?}") };
    assert_eq!((node.as_str(), report.code.as_str()), ("a", "node-claimed"));
    assert_eq!(report.message, "now held by ops@desk:/srv/two");
    let left = refused.run.journal().entries();
    assert!(left.len() == 3 && left.iter().all(|entry| entry.node == "a"), "{left:?}");
    drop(refused);
    let mut given_up = cleaning(folder.path(), &config, &[&a, &b]);
    given_up.options.forget_gone = true;
    assert!(failures(given_up.undo().await).is_empty());
    assert_eq!(given_up.run.journal().entries(), []);
}

#[test]
fn only_a_node_with_our_mark_is_undone() {
    let sandbox = crate::remote::sandbox::Sandbox::new();
    let says = |own: &str| {
        let script = Script::new([include_str!("held.sh"), "echo undone\n"]);
        sandbox.does(script.set("CLAIM", sandbox.at("mark")).set("OWN_MARK", own))
    };
    assert_eq!(says("m1"), "undone\n");
    sandbox.write("mark", "m1\nholder ops\n");
    assert_eq!((says("m1"), says("")), ("undone\n".into(), "undone\n".into()));
    assert_eq!(says("m2"), "@held\nm1\nholder ops\n");
}

async fn journal(folder: &Path) {
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
}

#[tokio::test]
async fn the_last_change_is_undone_first_and_a_gone_node_keeps_its_entries() {
    let folder = tempfile::tempdir().unwrap();
    journal(folder.path()).await;
    let a = Arc::new(Fake::new("a"));
    let cleaning = self::cleaning(folder.path(), &plain(), &[&a]);
    let gone = failures(cleaning.undo().await);
    assert_eq!(cleaning.undone.load(Ordering::Relaxed), 3);
    let scripts = a.scripts();
    assert_eq!(scripts.len(), 2);
    let (y, x) = (scripts[0].find("undo-y").unwrap(), scripts[0].find("undo-x").unwrap());
    assert!(y < x);
    assert!(scripts[1].contains("undo-mark"));
    let lines: Vec<String> = gone.iter().map(Failure::line).collect();
    assert_eq!(lines, ["b: it cannot be reached"]);
    assert!(gone[0].report.hint.as_ref().unwrap().contains("--forget-gone"));
    assert!(cleaning.run.journal().entries().iter().all(|entry| entry.node == "b"));

    drop(cleaning);
    let mut cleaning = self::cleaning(folder.path(), &plain(), &[&a]);
    cleaning.options.forget_gone = true;
    assert_eq!(failures(cleaning.undo().await), []);
    assert!(cleaning.run.journal().entries().is_empty());
}

#[tokio::test]
async fn what_could_not_be_undone_stays_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    journal(folder.path()).await;
    let a = Arc::new(Fake::new("a").on("undo-y", "@failed 1\n"));
    let b = Arc::new(Fake::new("b"));
    let cleaning = cleaning(folder.path(), &plain(), &[&a, &b]);
    let failures = failures(cleaning.undo().await);
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].report.message, "could not undo x");
    let left: Vec<String> = cleaning
        .run
        .journal()
        .entries()
        .iter()
        .map(|entry| format!("{} {}", entry.node, entry.step))
        .collect();
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
fn hooked(state: &Path) -> Arc<Config> {
    let text = "cluster-id: k\nmasters: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                workers: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                install:\n  package-source: {type: bundle}\n  addition:\n    worker:\n\
                \x20   - {name: before.sh, type: shell, schedule: precleanup, timeout: 9s}\n\
                \x20   - {name: after.sh, type: shell, schedule: postcleanup}\n";
    let config = crate::config::parse("d.yaml", text.as_bytes()).unwrap().config;
    let script = |name: &str, _| Ok(Some(format!("#!/bin/sh\necho {name}\n").into_bytes()));
    crate::state::save_hooks(state, &config, script).unwrap();
    Arc::new(config)
}

async fn hooked_run(folder: &Path, config: &Arc<Config>, a: &Arc<Fake>) -> Vec<Failure> {
    let mut cleaning = cleaning(folder, config, &[a]);
    cleaning.options.only = [a.name().to_string()].into();
    let run = &cleaning.run;
    let mut all = failures(run.in_phase("precleanup", "before", cleaning.precleanup()).await);
    all.extend(failures(run.in_phase("undo", "undo", cleaning.undo()).await));
    all.extend(failures(run.in_phase("postcleanup", "after", cleaning.postcleanup()).await));
    all
}

#[tokio::test]
async fn hooks_run_before_and_after_with_what_they_need_to_know() {
    let folder = tempfile::tempdir().unwrap();
    let config = hooked(folder.path());
    journal(folder.path()).await;
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
    journal(folder.path()).await;
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
    journal(folder.path()).await;
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

#[tokio::test]
async fn without_hooks_their_records_go_with_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let config = hooked(folder.path());
    journal(folder.path()).await;
    let late = Arc::new(Fake::new("a").fails("after.sh", 1, "no space"));
    assert_eq!(hooked_run(folder.path(), &config, &late).await.len(), 1);
    let well = Arc::new(Fake::new("a"));
    let mut cleaning = cleaning(folder.path(), &config, &[&well]);
    (cleaning.hooks_follow, cleaning.options.only) = (false, ["a".to_string()].into());
    assert_eq!(failures(cleaning.undo().await), []);
    assert_eq!(well.story(), [""; 0]);
    assert!(cleaning.run.journal().entries().iter().all(|entry| entry.node == "b"));
}

#[tokio::test]
async fn whoever_watches_reads_the_titles_of_the_phases_that_are_undone() {
    #[derive(Default)]
    struct Titled(std::sync::Mutex<Vec<String>>);
    impl crate::events::Sink for Titled {
        fn event(&self, event: Event) {
            if let Event::StepStarted { title, .. } = event {
                self.0.lock().unwrap().push(title);
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let fake = Arc::new(Fake::new("a"));
    let spare = tempfile::tempdir().unwrap();
    let titled = Arc::new(Titled::default());
    let mut cleaning = self::cleaning(spare.path(), &plain(), &[&fake]);
    cleaning.run = Arc::new(Run::new(Journal::open(folder.path()).unwrap(), titled.clone()));
    for (phase, step) in [("packages", "x"), ("former", "y")] {
        let intent = Record::Intent {
            node: "a".into(),
            phase: phase.into(),
            step: step.into(),
            fingerprint: String::new(),
            undo: vec![Undo::unit("a")],
            at: now(),
        };
        cleaning.run.journal().append(intent).await.unwrap();
    }
    assert_eq!(failures(cleaning.undo().await), []);
    assert_eq!(*titled.0.lock().unwrap(), ["undo former: 1 change", "undo `Install packages`: 1 change"]);
}
