//! The references of manifest and deploy.yaml are what the parsers know: pages and schemas are
//! made from the tables of keys, and the files that come with the programs obey them.
//!
//! `UPDATE_DOCS=1` rewrites pages and schemas.

use eggo_bundle::manifest::{self, Manifest};
use eggo_deploy::config;
use eggo_yaml::{Key, Shape};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn parsers_know_every_key_of_their_table() {
    for round in 0..4 {
        let text = sample(manifest::KEYS, round).to_string();
        match Manifest::parse(Path::new("m.yaml"), text.as_bytes()) {
            Err(manifest::Error::Problems(problems)) => no_unknown(&problems),
            other => panic!("nonsense was read as {other:?}"),
        }
        let text = sample(config::KEYS, round).to_string();
        no_unknown(&config::parse("d.yaml", text.as_bytes()).unwrap_err());
    }
}

fn no_unknown(problems: &eggo_yaml::Problems) {
    let unknown: Vec<_> =
        problems.list.iter().filter(|problem| problem.message.contains("unknown")).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// A file that uses every key of the table, each of its spellings and shapes in turn.
fn sample(keys: &[Key], round: usize) -> Value {
    let entry = |key: &Key| {
        let spellings: Vec<&str> = std::iter::once(key.name).chain(key.aliases.iter().copied()).collect();
        (spellings[round % spellings.len()].to_string(), value(&key.shape, round))
    };
    Value::Object(keys.iter().map(entry).collect())
}

fn value(shape: &Shape, round: usize) -> Value {
    match shape {
        Shape::Mapping(keys) => sample(keys, round),
        Shape::List(inner) => json!([value(inner, round)]),
        Shape::Free(inner) => json!({"amd64": value(inner, round)}),
        Shape::Either(shapes) => value(&shapes[round % shapes.len()], round),
        Shape::Words(words) => words[round % words.len()].into(),
        Shape::Boolean => true.into(),
        Shape::Number { min, .. } => (*min).into(),
        Shape::Anything => json!({"a": 1}),
        _ => "x".into(),
    }
}

#[test]
fn reference_pages_hold_the_tables() {
    for (page, keys) in [("docs/manifest.md", manifest::KEYS), ("docs/deploy-yaml.md", config::KEYS)] {
        let text = std::fs::read_to_string(project().join(page)).unwrap();
        let start = text.find("| key |").expect("a table of keys");
        let end = start + text[start..].find("\n\n").map_or(text.len() - start, |at| at + 1);
        same(page, &format!("{}{}{}", &text[..start], eggo_yaml::markdown(keys), &text[end..]));
    }
}

#[test]
fn schemas_are_what_the_programs_print() {
    for (file, title, keys) in SCHEMAS {
        let schema = eggo_yaml::json_schema(title, keys);
        same(file, &(serde_json::to_string_pretty(&schema).unwrap() + "\n"));
    }
}

const SCHEMAS: [(&str, &str, &[Key]); 2] = [
    ("docs/manifest.schema.json", "manifest of eggo-bundle", manifest::KEYS),
    ("docs/deploy.schema.json", "deploy.yaml of eggo", config::KEYS),
];

fn same(file: &str, expected: &str) {
    let path = project().join(file);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(path, expected).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), expected, "{file}: run this test with UPDATE_DOCS=1");
}

#[test]
fn files_that_come_with_the_programs_obey_the_schemas() {
    let check = "import json, sys, jsonschema, yaml\n\
        schema = json.load(open(sys.argv[1]))\n\
        jsonschema.Draft202012Validator.check_schema(schema)\n\
        for file in sys.argv[2:]: jsonschema.validate(yaml.safe_load(open(file)), schema)";
    let python = |schema: &str, files: &[PathBuf]| {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", check]).arg(project().join(schema)).args(files).output().unwrap()
    };
    if !Command::new("/usr/bin/python3")
        .args(["-c", "import jsonschema, yaml"])
        .output()
        .is_ok_and(|run| run.status.success())
    {
        println!("skipped: schemas against files: python3-jsonschema is not installed");
        return;
    }
    let mut manifests = yaml_files("manifests");
    manifests.push(project().join("bundler/src/cli/init.yaml"));
    let mut deploys = yaml_files("manifests/deploy");
    let generations = ["first", "second", "third"];
    deploys
        .extend(generations.map(|name| project().join(format!("deploy/tests/fixtures/deploy/{name}.yaml"))));
    for (schema, files) in [(SCHEMAS[0].0, manifests), (SCHEMAS[1].0, deploys)] {
        let run = python(schema, &files);
        assert!(run.status.success(), "{schema}: {}", String::from_utf8_lossy(&run.stderr));
    }
    let misspelt = project().join("deploy/tests/fixtures/deploy/wrong.yaml");
    assert!(!python(SCHEMAS[1].0, &[misspelt]).status.success(), "a wrong file is refused");
}

fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(project().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|end| end == "yaml")).collect();
    assert!(files.len() >= 3, "{folder}: {files:?}");
    files
}
