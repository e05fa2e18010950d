use super::*;
use record::now;

fn intent(node: &str, step: &str, fingerprint: &str, undo: Vec<Undo>) -> Record {
    Record::Intent {
        node: node.into(),
        phase: "files".into(),
        step: step.into(),
        fingerprint: fingerprint.into(),
        undo,
        at: now(),
    }
}

fn done(node: &str, step: &str) -> Record {
    Record::Done { node: node.into(), step: step.into(), at: now() }
}

#[tokio::test]
async fn what_was_written_is_read_back_and_a_torn_line_never_happened() {
    let folder = tempfile::tempdir().unwrap();
    {
        let journal = Journal::open(folder.path()).unwrap();
        journal.append(intent("a", "one", "f1", vec![Undo::file("/usr/bin/x")])).await.unwrap();
        journal.append(done("a", "one")).await.unwrap();
        journal.append(intent("a", "two", "f1", vec![])).await.unwrap();
    }
    let path = folder.path().join(JOURNAL);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], br#"{"record":"done","node":"a","st"#].concat()).unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    assert!(journal.is_done("a", "one", "f1"));
    assert!(!journal.is_done("a", "one", "f2"));
    assert!(!journal.is_done("a", "two", "f1"));
    assert!(!journal.is_done("b", "one", "f1"));
    journal.append(done("a", "two")).await.unwrap();
    drop(journal);
    assert!(Journal::open(folder.path()).unwrap().is_done("a", "two", "f1"));
}

#[tokio::test]
async fn a_step_in_a_new_form_still_undoes_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    journal
        .append(intent("a", "files", "1", vec![Undo::file("/usr/bin/x"), Undo::file("/usr/bin/y")]))
        .await
        .unwrap();
    journal.append(done("a", "files")).await.unwrap();
    journal
        .append(intent("a", "files", "2", vec![Undo::file("/usr/bin/y"), Undo::file("/usr/bin/z")]))
        .await
        .unwrap();
    let entries = journal.entries();
    assert_eq!(entries.len(), 1);
    assert!(!entries[0].done);
    let paths: Vec<String> = entries[0].undo.iter().map(Undo::title).collect();
    assert_eq!(paths, ["x", "y", "z"].map(|name| format!("restore or remove /usr/bin/{name}")));
}

#[tokio::test]
async fn another_machine_under_the_same_name_starts_from_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    journal.append(Record::Mark { node: "a".into(), mark: "m1".into() }).await.unwrap();
    journal.append(intent("a", "one", "f", vec![])).await.unwrap();
    journal.append(done("a", "one")).await.unwrap();
    journal.append(Record::Mark { node: "a".into(), mark: "m1".into() }).await.unwrap();
    assert!(journal.is_done("a", "one", "f"));
    journal.append(Record::Mark { node: "a".into(), mark: "m2".into() }).await.unwrap();
    assert!(!journal.is_done("a", "one", "f"));
    assert!(journal.entries().is_empty());
}

#[test]
fn the_second_run_is_refused_while_the_first_lives() {
    let folder = tempfile::tempdir().unwrap();
    let first = Journal::open(folder.path()).unwrap();
    let error = Journal::open(folder.path()).err().unwrap();
    assert_eq!(
        error.to_string(),
        format!("another run of this cluster is under way (process {})", std::process::id())
    );
    drop(first);
    Journal::open(folder.path()).unwrap();
}

#[test]
fn a_damaged_line_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(JOURNAL), "{\"record\":\"forget\",\"node\":\"a\",\"at\":\"\"}\nrubbish\n")
        .unwrap();
    let error = Journal::open(folder.path()).err().unwrap();
    assert!(matches!(error, JournalError::Damaged { line: 2, .. }), "{error}");
}

#[test]
fn an_undo_never_reaches_a_whole_system() {
    for path in ["/", "/etc", "/etc/../usr/lib", "etc/x", "//etc//"] {
        assert!(!Undo::tree(path).is_sound(), "{path}");
    }
    assert!(Undo::tree("/etc/kubernetes").is_sound());
    assert!(!Undo::unit("--force").is_sound());
}
