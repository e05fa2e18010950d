//! What one program hands to the other, without hosts: a delta that crosses the gap alone.

use eggo_tests::site::program;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Exit code and all that was said.
fn run(folder: &Path, name: &str, words: &str) -> (i32, String) {
    let mut command = Command::new(program(name));
    command
        .args(words.split_whitespace())
        .current_dir(folder)
        .env("HOME", folder)
        .env_remove("SSH_AUTH_SOCK");
    let output = command.output().expect("the program can be run");
    let told = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&told).into_owned())
}

fn done(folder: &Path, name: &str, words: &str) -> String {
    let (code, told) = run(folder, name, words);
    assert_eq!(code, 0, "{name} {words}: {told}");
    told
}

#[test]
fn a_delta_without_its_parent_says_what_it_lacks() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let manifest = "name: demo\nversion: 1\narchs: [amd64]\nfiles:\n\
                    - {name: old, path: old, dst: /etc/kubernetes, roles: [master]}\n\
                    - {name: new, path: new, dst: /etc/kubernetes, roles: [worker]}\n";
    fs::write(folder.join("m.yaml"), manifest).expect("a manifest");
    fs::write(folder.join("old"), "stays").expect("a file");
    fs::write(folder.join("new"), "one").expect("a file");
    done(folder, "eggo-bundle", "keygen --no-password -o key");
    done(folder, "eggo-bundle", "build -m m.yaml --key key -o old.tar.gz");
    fs::write(folder.join("new"), "two").expect("a file");
    fs::write(folder.join("m.yaml"), manifest.replace("version: 1", "version: 2")).expect("a manifest");
    done(
        folder,
        "eggo-bundle",
        "build -m m.yaml --key key --pubkey key.pub --base old.tar.gz -o delta.tar.gz",
    );

    let alone = done(folder, "eggo-install", "verify delta.tar.gz --pubkey key.pub");
    assert!(alone.contains("it is a delta with 1 of them; the other 1 are in its parent "), "{alone}");
    let both = done(folder, "eggo-install", "verify delta.tar.gz --pubkey key.pub --base old.tar.gz");
    assert!(both.contains("it is a delta, and complete with its parent "), "{both}");
    let json = done(folder, "eggo-install", "verify delta.tar.gz --pubkey key.pub --format json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let parent = json["parent"].as_str().expect("its parent").to_string();
    assert!(alone.contains(&parent) && json["checked"] == 1 && json["items"] == 2, "{json}");

    done(folder, "eggo-install", "template -f d.yaml --masters m@192.0.2.1 --workers w@192.0.2.2");
    let plan = "plan delta.tar.gz -f d.yaml --no-connect --pubkey key.pub";
    let (code, refused) = run(folder, "eggo-install", plan);
    let lacks = format!(
        "the bundle is a delta: 1 of what the nodes need is only in its parent {parent}\n  amd64/file/old\n"
    );
    assert!(
        code == 1 && refused.contains(&lacks) && refused.contains("hint: give the parent with `--base`"),
        "{refused}"
    );
    done(folder, "eggo-install", &format!("{plan} --base old.tar.gz"));
    let (code, wrong) = run(folder, "eggo-install", &format!("{plan} --base delta.tar.gz"));
    assert!(code == 1 && wrong.contains("a delta fits only the bundle it was made from"), "{wrong}");
}
