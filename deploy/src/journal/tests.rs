use super::*;
use record::now;
use std::sync::Arc;

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
    let path = folder.path().join("journal.jsonl");
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

    // Repeated in the course of something else, it is still undone in its own turn.
    let Record::Intent { node, step, fingerprint, undo, at, .. } = intent("a", "files", "3", vec![]) else {
        panic!()
    };
    journal
        .append(Record::Intent { node, phase: "upgrade".into(), step, fingerprint, undo, at })
        .await
        .unwrap();
    assert_eq!(journal.entries()[0].phase, "files");
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
    fs::write(
        folder.path().join("journal.jsonl"),
        "{\"record\":\"forget\",\"node\":\"a\",\"at\":\"\"}\nrubbish\n",
    )
    .unwrap();
    let error = Journal::open(folder.path()).err().unwrap();
    assert!(matches!(error, JournalError::Damaged { line: 2, .. }), "{error}");
}

#[tokio::test]
async fn what_asks_for_too_much_is_neither_read_nor_written() {
    let folder = tempfile::tempdir().unwrap();
    let good = serde_json::to_string(&intent("a", "one", "f", vec![Undo::file("/usr/bin/x")])).unwrap();
    for (bad, why) in [
        (
            r#"{"undo":"tree","path":"/etc"}"#,
            "`remove /etc` is refused: `/etc` is not a folder that is ever made",
        ),
        (r#"{"undo":"explode"}"#, "unknown variant `explode`"),
        (
            r#"{"undo":"script","title":"x","script":"reboot"}"#,
            "no version of eggo-install wrote the script `x`",
        ),
    ] {
        let bad = good.replace(r#"{"undo":"file","path":"/usr/bin/x"}"#, bad);
        fs::write(folder.path().join("journal.jsonl"), format!("{good}\n{bad}\n")).unwrap();
        for error in
            [Journal::open(folder.path()).err().unwrap(), Journal::read(folder.path()).err().unwrap()]
        {
            let text = error.to_string();
            assert!(text.contains("journal.jsonl` line 2: ") && text.contains(why), "{text}");
        }
    }
    fs::remove_file(folder.path().join("journal.jsonl")).unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let error = journal.append(intent("a", "one", "f", vec![Undo::tree("/etc")])).await.unwrap_err();
    assert!(
        error.to_string().starts_with("`one` on a cannot be journaled: `remove /etc` is refused"),
        "{error}"
    );
    assert!(journal.entries().is_empty() && !Journal::has_records(folder.path()));
}

#[tokio::test]
async fn a_step_that_is_reopened_is_done_again_and_still_undone() {
    let folder = tempfile::tempdir().unwrap();
    let run = crate::run::Run::new(Journal::open(folder.path()).unwrap(), Arc::new(crate::events::Silent));
    run.reopen("a", "files").await.unwrap();
    assert!(run.journal().entries().is_empty(), "it was never begun");
    run.journal().append(intent("a", "files", "1", vec![Undo::file("/usr/bin/x")])).await.unwrap();
    run.journal().append(done("a", "files")).await.unwrap();
    run.reopen("a", "files").await.unwrap();
    drop(run);
    let journal = Journal::open(folder.path()).unwrap();
    assert!(!journal.is_done("a", "files", "1"));
    let undo: Vec<Vec<Undo>> = journal.entries().into_iter().map(|entry| entry.undo).collect();
    assert_eq!(undo, [vec![Undo::file("/usr/bin/x")]]);
}

#[tokio::test]
async fn readers_need_no_lock_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("one");
    assert!(Journal::read(&state).unwrap().entries().is_empty());
    assert!(!state.exists(), "reading makes no folder");
    let writer = Journal::open(&state).unwrap();
    writer.append(intent("a", "one", "f1", vec![])).await.unwrap();
    let path = state.join("journal.jsonl");
    let torn = [&fs::read(&path).unwrap()[..], br#"{"record":"done","node":"a","st"#].concat();
    fs::write(&path, &torn).unwrap();
    let reader = Journal::read(&state).unwrap();
    assert_eq!(reader.entries(), writer.entries());
    assert_eq!(fs::read(&path).unwrap(), torn);
}
