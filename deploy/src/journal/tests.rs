mod golden;

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

/// A journal with two nodes, several records of each kind, as it is on disk.
async fn sample(folder: &Path) -> Vec<u8> {
    let journal = Journal::open(folder).unwrap();
    let node = |name: &str| name.to_string();
    for record in [
        Record::begin("deploy", Some("0f".into()), None),
        Record::Mark { node: node("a"), mark: "m1".into() },
        intent("a", "one", "f1", vec![Undo::tree("/var/lib/eggo"), Undo::unit("etcd"), Undo::Pods]),
        done("a", "one"),
        intent("b", "two", "f2", vec![Undo::Hostname { was: "old".into() }]),
        Record::Undone { node: node("b"), step: node("two"), at: now() },
        Record::Forget { node: node("b"), at: now() },
        intent("a", "three", "", vec![]),
    ] {
        journal.append(record).await.unwrap();
    }
    fs::read(folder.join("journal.jsonl")).unwrap()
}

/// What is read of such a journal.
fn read(folder: &Path, text: &[u8]) -> Result<Vec<Entry>, JournalError> {
    fs::write(folder.join("journal.jsonl"), text).unwrap();
    Ok(Journal::read(folder)?.entries())
}

#[tokio::test]
async fn every_flipped_bit_is_found_in_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = sample(folder.path()).await;
    let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut flipped = text.clone();
            flipped[at] ^= 1 << bit;
            match read(folder.path(), &flipped) {
                Err(JournalError::Damaged { line, why, .. }) => {
                    assert_eq!(line, lines(&text[..at]) + 1, "byte {at}, bit {bit}: {why}");
                }
                // A last line without its end never happened.
                read => {
                    assert_eq!(at, text.len() - 1, "bit {bit}");
                    let before = text[..at].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
                    let text = text[..before].to_vec();
                    assert_eq!(read.unwrap(), self::read(folder.path(), &text).unwrap());
                }
            }
        }
    }
}

#[tokio::test]
async fn cut_anywhere_the_lines_that_are_complete_count() {
    let folder = tempfile::tempdir().unwrap();
    let text = sample(folder.path()).await;
    let mut expected = Vec::new();
    for at in 0..=text.len() {
        if at > 0 && text[at - 1] == b'\n' {
            expected = read(folder.path(), &text[..at]).unwrap();
        }
        assert_eq!(read(folder.path(), &text[..at]).unwrap(), expected, "cut at {at}");
    }
    assert_eq!(expected.len(), 2);
}

#[tokio::test]
async fn a_line_that_is_missing_twice_there_or_elsewhere_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let text = sample(folder.path()).await;
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let damaged = |order: &[usize]| {
        let text: Vec<u8> = order.iter().flat_map(|line| lines[*line].to_vec()).collect();
        match read(folder.path(), &text) {
            Err(JournalError::Damaged { line, .. }) => line,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(damaged(&[1]), 1);
    assert_eq!(damaged(&[0, 2, 3]), 2);
    assert_eq!(damaged(&[0, 1, 1]), 3);
    assert_eq!(damaged(&[0, 1, 3, 2]), 3);
    let with = |line: &str| [lines[0], line.as_bytes(), lines[1]].concat();
    for added in ["\n", "{\"record\":\"forget\",\"node\":\"a\",\"at\":\"\"}\n"] {
        assert!(
            matches!(read(folder.path(), &with(added)), Err(JournalError::Damaged { line: 2, .. })),
            "{added}"
        );
    }
}

/// Journals of 0.1.0 have no digests, and shell for what is known today as an action.
#[tokio::test]
async fn an_old_journal_is_continued_with_a_chain() {
    let folder = tempfile::tempdir().unwrap();
    let old = concat!(
        r#"{"record":"begin","command":"deploy","version":"0.1.0","bundle":null,"at":"2026-01-01T00:00:00Z"}"#,
        "\n",
        r#"{"record":"intent","node":"a","phase":"system","step":"system/hostname","fingerprint":"f","#,
        r#""undo":[{"undo":"script","title":"set the hostname back to old","script":"hostname old"}],"at":"t"}"#,
        "\n",
    );
    assert_eq!(read(folder.path(), old.as_bytes()).unwrap()[0].undo, [Undo::Hostname { was: "old".into() }]);
    let journal = Journal::open(folder.path()).unwrap();
    journal.append(done("a", "system/hostname")).await.unwrap();
    drop(journal);
    let text = fs::read(folder.path().join("journal.jsonl")).unwrap();
    assert!(text.starts_with(old.as_bytes()), "what is there stays as it is");
    assert!(read(folder.path(), &text).unwrap()[0].done);
    // The first line with a digest covers those without.
    for at in 0..old.len() {
        let mut flipped = text.clone();
        flipped[at] ^= 1;
        assert!(read(folder.path(), &flipped).is_err(), "byte {at}");
    }
    // What has a digest has no shell.
    let mut chain = Chain::default();
    let line = [chain.seal(old.lines().nth(1).unwrap().as_bytes()), b"\n".to_vec()].concat();
    assert!(matches!(read(folder.path(), &line), Err(JournalError::Damaged { line: 1, .. })));
}

#[test]
fn a_newer_format_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let line = r#"{"record":"begin","format":3,"anything":"else"}"#;
    let text = [Chain::default().seal(line.as_bytes()), b"\n".to_vec()].concat();
    let error = read(folder.path(), &text).unwrap_err();
    assert!(matches!(error, JournalError::Newer { line: 1, format: 3, .. }), "{error}");
}

#[test]
fn a_folder_and_those_above_it_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a/b/c");
    drop(Journal::open(&deep).unwrap());
    drop(Journal::open(&deep).unwrap());
    assert!(deep.join("journal.jsonl").exists());
}
