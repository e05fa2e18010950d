//! Builds and extractions that are interrupted, and two at once.

use crate::build::{BUILD, local, served};
use crate::server::{Answer, Server};
use crate::world::{AMD64, PROGRAM, World, elf, noise};

#[test]
fn an_interrupted_build_leaves_what_was_fetched_and_nothing_half() {
    let (gate_in, gate_out) = (std::sync::mpsc::channel::<()>(), std::sync::mpsc::channel::<()>());
    let (reached, wait) = (gate_in.0, std::sync::Mutex::new(gate_out.1));
    let release = gate_out.0;
    let reached = std::sync::Mutex::new(reached);
    let body = elf(AMD64, &"content ".repeat(100_000));
    let whole = body.clone();
    let server = Server::start(move |asked| match asked.before {
        0 => Answer::file(asked, &body, "\"1\"").cut(body.len() / 2),
        1 => {
            reached.lock().unwrap().send(()).unwrap();
            let _ = wait.lock().unwrap().recv();
            Answer::new(503, "")
        }
        _ => Answer::file(asked, &body, "\"1\""),
    });
    let world = World::new();
    world.done(&["keygen", "--no-password", "-o", "key"]);
    let url = server.url("/x");
    world.write(
        "m.yaml",
        format!(
            "name: x\nversion: 1\narchs: [amd64]\nbinaries:\n- {{name: x, dst: /usr/bin, url: '{url}'}}\n"
        ),
    );
    let mut child = world.interruptible(&BUILD).spawn().unwrap();
    gate_in.1.recv().unwrap();
    send("INT", &child);
    assert!(!child.wait().unwrap().success());
    drop(release);
    assert_eq!(world.list("."), ["home", "key", "key.pub", "m.yaml"]);
    world.done(&BUILD);
    let last = server.asked().pop().unwrap();
    assert_eq!(last.header("range"), Some(format!("bytes={}-", whole.len() / 2).as_str()));
    world.done(&["extract", "out.tar.gz", "-C", "x"]);
    assert_eq!(world.read("x/amd64/bin/x"), whole);
}

fn send(signal: &str, child: &std::process::Child) {
    let (signal, pid) = (format!("-{signal}"), child.id().to_string());
    assert!(std::process::Command::new("kill").args([signal, pid]).status().unwrap().success());
}

/// Waits until something begins to appear in a folder.
fn wait_for_anything_in(folder: &std::path::Path) {
    for _ in 0..20_000 {
        if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("nothing appears in {}", folder.display());
}

#[test]
fn an_interrupted_extraction_leaves_nothing_half() {
    use std::io::Write;
    let world = local();
    world.write("conf/net.conf", noise(8_000_000));
    world.done(&BUILD);
    let bytes = world.read("out.tar.gz");
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let begun = |how: &str| {
        let mut command = world.with_signals(how, &["extract", "-", "-C", "x", "amd64/file"]);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        // The pipe stays open in the middle of the large file.
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(first).unwrap();
        wait_for_anything_in(&world.path("x/amd64/file"));
        (child, pipe)
    };
    for (how, signal, code) in [
        ("--default-signal=INT,TERM,HUP", "INT", 130),
        ("--default-signal=INT,TERM,HUP", "HUP", 129),
        // As a shell starts what goes on in the background.
        ("--ignore-signal=INT", "TERM", 143),
    ] {
        let (mut child, _pipe) = begun(how);
        send(signal, &child);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
        assert!(world.list("x/amd64/file").is_empty(), "{:?}", world.list("x/amd64/file"));
    }
    // What is ignored stays ignored.
    let (mut child, mut pipe) = begun("--ignore-signal=HUP");
    send("HUP", &child);
    pipe.write_all(second).unwrap();
    drop(pipe);
    assert!(child.wait().unwrap().success());
    assert_eq!(world.list("x/amd64/file"), ["net.conf"]);
}

/// Without /proc, as on FAT, a file in the making cannot be without a name.
#[test]
fn an_interrupted_build_leaves_nothing_half_where_files_need_names() {
    let world = local();
    world.write("conf/net.conf", noise(1 << 20).repeat(150));
    std::fs::create_dir(world.path("disk")).unwrap();
    let build = format!("umount -l /proc && exec {PROGRAM} build -m m.yaml --key key -o disk/out.tar.gz");
    let mut command = std::process::Command::new("env");
    command
        .args(["--default-signal=INT", "unshare", "-m", "sh", "-c", &build])
        .current_dir(world.path("."))
        .env("HOME", world.path("home"));
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    for _ in 0..12_000 {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(!status.success());
            println!("skipped: cannot hide /proc here");
            return;
        }
        let mut files = std::fs::read_dir(world.path("disk")).unwrap();
        if files.any(|file| file.is_ok_and(|file| file.metadata().is_ok_and(|meta| meta.len() > 0))) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(world.list("disk").is_empty(), "{:?}", world.list("disk"));
}

#[test]
fn two_builds_at_once_do_not_harm_each_other() {
    let (world, server) = served();
    let builds = ["one.tar.gz", "two.tar.gz", "one.tar.gz"].map(|out| {
        let arguments = ["build", "-m", "m.yaml", "--key", "key", "-o", out];
        world.command(&arguments).stderr(std::process::Stdio::piped()).spawn().unwrap()
    });
    for build in builds {
        let ran = build.wait_with_output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    assert!(world.read("one.tar.gz") == world.read("two.tar.gz"), "the bytes differ");
    world.done(&["verify", "one.tar.gz", "--pubkey", "key.pub"]);
    // The cache is as one build alone would have left it.
    assert!(world.list("home/.cache/eggo/partial").is_empty());
    let asked = server.asked().len();
    world.done(&["build", "-m", "m.yaml", "--key", "key", "-o", "three.tar.gz", "--locked", "--offline"]);
    assert_eq!(server.asked().len(), asked);
    assert!(world.read("one.tar.gz") == world.read("three.tar.gz"), "the bytes differ");
}
