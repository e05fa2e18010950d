//! Every parser of foreign bytes takes its corpus and some thousands of changes to it without a panic,
//! and in time. `scripts/test fuzz` searches for worse, with coverage feedback.

use eggo_tests::foreign::{Numbers, change, corpus, parsers};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

const CHANGES: u64 = 2000;
const LONGEST: Duration = Duration::from_secs(10);

fn feed((name, parse): (&str, fn(&[u8])), bytes: &[u8], what: &str) {
    let started = Instant::now();
    let ended = catch_unwind(AssertUnwindSafe(|| parse(bytes)));
    if ended.is_err() || started.elapsed() > LONGEST {
        let path = std::env::temp_dir().join(format!("eggo-found-{name}"));
        std::fs::write(&path, bytes).expect("a temporary file");
        panic!("{name}: {what} takes {:?} or panics; kept as {}", started.elapsed(), path.display());
    }
}

fn every_parser(which: usize) {
    let of = 3;
    for (number, parser) in parsers().into_iter().enumerate().filter(|(number, _)| number % of == which) {
        let files = corpus(parser.0);
        assert!(!files.is_empty(), "no corpus for {}", parser.0);
        feed(parser, b"", "nothing");
        for (path, bytes) in &files {
            feed(parser, bytes, &path.display().to_string());
        }
        for seed in 0..CHANGES {
            let mut numbers = Numbers::new(seed * 100 + number as u64);
            let (path, bytes) = &files[numbers.below(files.len())];
            let other = &files[numbers.below(files.len())].1;
            let mut bytes = bytes.clone();
            change(&mut bytes, other, &mut numbers);
            feed(parser, &bytes, &format!("{} changed with seed {seed}", path.display()));
        }
    }
}

// In three, to use several cores.
#[test]
fn parsers_take_anything_first_third() {
    every_parser(0);
}

#[test]
fn parsers_take_anything_second_third() {
    every_parser(1);
}

#[test]
fn parsers_take_anything_last_third() {
    every_parser(2);
}

#[test]
fn every_corpus_has_a_parser() {
    let names: Vec<&str> = parsers().into_iter().map(|(name, _)| name).collect();
    let folders = std::fs::read_dir(eggo_tests::lab::project().join("fuzz/corpus")).unwrap();
    for folder in folders {
        let name = folder.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name.as_str()), "nothing parses the corpus `{name}`");
    }
}
