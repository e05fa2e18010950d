//! The program as a user calls it: output, exit codes, help.

use std::path::Path;
use std::process::{Command, Output};

fn eggo(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_eggo-install"))
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .env("COLUMNS", "100")
        .output()
        .unwrap()
}

/// Exit code, stdout and stderr in one text.
fn told(output: &Output) -> String {
    format!(
        "exit {}\n--- stdout\n{}--- stderr\n{}",
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn help_suffices_offline() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!("help", told(&eggo(folder.path(), &["--help"])));
    for command in ["validate", "template", "plan", "cleanup"] {
        insta::assert_snapshot!(format!("help-{command}"), told(&eggo(folder.path(), &[command, "--help"])));
    }
}

#[test]
fn template_then_validate() {
    let folder = tempfile::tempdir().unwrap();
    let write = ["template", "-f", "deploy.yaml", "-n", "prod", "--masters", "m1@192.168.7.1"];
    let more =
        ["--masters", "192.168.7.3:arm64", "--nodes", "192.168.7.2:aarch64", "--loadbalancer", "192.168.7.9"];
    let output = eggo(folder.path(), &[&write[..], &more[..]].concat());
    assert!(output.status.success(), "{}", told(&output));
    insta::assert_snapshot!("template", std::fs::read_to_string(folder.path().join("deploy.yaml")).unwrap());
    insta::assert_snapshot!(
        "template-validated",
        told(&eggo(folder.path(), &["validate", "-f", "deploy.yaml"]))
    );

    let again = eggo(folder.path(), &write);
    assert_eq!(again.status.code(), Some(1), "never overwritten silently");
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(folder.path().join("deploy.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let secret = eggo(folder.path(), &["template", "-p", "s3cret"]);
    assert!(String::from_utf8_lossy(&secret.stderr).contains("plain text"), "{}", told(&secret));
}

#[test]
fn the_old_place_of_deploy_yaml_is_found() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(eggo(folder.path(), &["validate"]).status.code(), Some(2));
    std::fs::create_dir(folder.path().join(".eggo")).unwrap();
    assert!(eggo(folder.path(), &["template", "-f", ".eggo/deploy.yaml"]).status.success());
    assert!(eggo(folder.path(), &["validate"]).status.success());
}

#[test]
fn problems_are_told_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("one.yaml"), "mastres: []\n").unwrap();
    insta::assert_snapshot!("problems", told(&eggo(folder.path(), &["validate", "-f", "one.yaml"])));
    insta::assert_snapshot!(
        "problems-json",
        told(&eggo(folder.path(), &["validate", "-f", "one.yaml", "--format", "json"]))
    );
    insta::assert_snapshot!("no-file", told(&eggo(folder.path(), &["validate", "-f", "none.yaml"])));
    insta::assert_snapshot!("not-a-command", told(&eggo(folder.path(), &["validat", "-f", "one.yaml"])));
    insta::assert_snapshot!("options-first", told(&eggo(folder.path(), &["-f", "one.yaml", "validate"])));
    assert_eq!(eggo(folder.path(), &["validate", "--frobnicate"]).status.code(), Some(2));
    assert_eq!(eggo(folder.path(), &["-d", "validate", "-f", "one.yaml"]).status.code(), Some(1));
}

#[test]
fn the_schema_is_json_and_completions_and_manual_pages_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let schema = eggo(folder.path(), &["schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).unwrap();
    assert_eq!(schema["properties"]["masters"]["type"], "array");
    for shell in ["bash", "zsh", "fish"] {
        assert!(eggo(folder.path(), &["completions", shell]).stdout.len() > 1000, "{shell}");
    }
    assert!(eggo(folder.path(), &["man", "--output", "pages"]).status.success());
    assert!(folder.path().join("pages/eggo-install-validate.1").is_file());
}
