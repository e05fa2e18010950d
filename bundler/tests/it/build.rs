//! Builds from beginning to end, and what happens when something is in the way.

use crate::server::{Answer, Server};
use crate::world::{AMD64, ARM64, PROGRAM, World, elf, tar_gz, test_data};
use std::os::unix::fs::PermissionsExt;

/// A manifest of local things for both archs.
pub fn local() -> World {
    let world = World::new();
    world.write("bin/amd64/tool", elf(AMD64, "one"));
    world.write("bin/arm64/tool", elf(ARM64, "two"));
    world.write("conf/net.conf", "shared by both");
    world.write("tree/a/run.sh", "#!/bin/sh\n");
    world.write("tree/data", "data");
    std::os::unix::fs::symlink("a/run.sh", world.path("tree/link")).unwrap();
    std::fs::set_permissions(world.path("tree/a/run.sh"), PermissionsExt::from_mode(0o700)).unwrap();
    world.write(
        "m.yaml",
        "name: demo\nversion: 1.0\n\
         binaries:\n- {name: tool, roles: [node], dst: /usr/bin, path: 'bin/{arch}/tool'}\n\
         files:\n- {path: conf/net.conf, dst: /etc/cni/net.d}\n\
         dirs:\n- {name: tree, path: tree, dst: /opt/cni/bin}\n",
    );
    world.done(&["keygen", "--no-password", "-o", "key"]);
    world
}

pub const BUILD: [&str; 7] = ["build", "-m", "m.yaml", "--key", "key", "-o", "out.tar.gz"];

pub fn build_with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    BUILD.iter().copied().chain(more.iter().copied()).collect()
}

#[test]
fn the_same_lock_gives_the_same_bytes() {
    let world = local();
    world.done(&BUILD);
    let first = world.read("out.tar.gz");
    let lock = world.read("m.lock");
    std::fs::remove_file(world.path("out.tar.gz")).unwrap();
    std::fs::remove_dir_all(world.path("home/.cache")).unwrap();
    world.done(&build_with(&["--locked", "--offline"]));
    assert!(first == world.read("out.tar.gz"), "the bytes differ");
    assert_eq!(lock, world.read("m.lock"));
    // Another folder, another time, another umask.
    let other = local();
    std::fs::copy(world.path("key"), other.path("key")).unwrap();
    other.done(&BUILD);
    assert!(first == other.read("out.tar.gz"), "the bytes differ");
}

#[test]
fn a_bundle_goes_round() {
    let world = local();
    world.done(&build_with(&["--arch", "amd64,arm64"]));
    insta::assert_snapshot!(world.transcript(&["verify", "out.tar.gz", "--pubkey", "key.pub"]));
    insta::assert_snapshot!(world.transcript(&["inspect", "out.tar.gz", "--pubkey", "key.pub"]));
    insta::assert_snapshot!(world.transcript(&["inspect", "out.tar.gz", "--tree"]));
    insta::assert_snapshot!(world.transcript(&["check", "out.tar.gz", "--pubkey", "key.pub"]));
    world.done(&["extract", "out.tar.gz", "-C", "x"]);
    assert_eq!(world.read("x/arm64/bin/tool"), elf(ARM64, "two"));
    assert_eq!(std::fs::read_link(world.path("x/amd64/dir/tree/link")).unwrap().to_str(), Some("a/run.sh"));
    let json = world.done(&["inspect", "out.tar.gz", "--format", "json"]).stdout;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let items = value["items"].as_array().unwrap();
    let of = |path: &str| items.iter().find(|item| item["path"] == path).unwrap();
    assert_eq!(of("amd64/bin/tool")["dst"], "/usr/bin");
    assert_eq!(of("amd64/bin/tool")["roles"][0], "worker");
    assert_eq!(of("amd64/dir/tree/a/run.sh")["dst"], "/opt/cni/bin/a");
}

#[test]
fn a_pipe_is_as_good_as_the_file() {
    let world = local();
    world.done(&BUILD);
    let verified = world.piped("out.tar.gz", &["verify", "-", "--pubkey", "key.pub"]);
    insta::assert_snapshot!(world.stable(&verified.stdout));
    for arguments in [
        &["verify", "out.tar.gz", "--pubkey", "key.pub", "--format", "json"][..],
        &["inspect", "out.tar.gz", "--format", "json"],
        &["inspect", "out.tar.gz", "--tree", "--pubkey", "key.pub"],
    ] {
        let from_file = world.done(arguments);
        let of_pipe: Vec<&str> =
            arguments.iter().map(|word| if *word == "out.tar.gz" { "-" } else { *word }).collect();
        let from_pipe = world.piped("out.tar.gz", &of_pipe);
        assert_eq!((from_pipe.code, from_pipe.stdout), (0, from_file.stdout), "{}", from_pipe.stderr);
    }
    let inspected = world.piped("out.tar.gz", &["inspect", "-", "--pubkey", "key.pub"]);
    insta::assert_snapshot!(world.stable(&inspected.stdout));
    world.done(&["extract", "out.tar.gz", "-C", "from-file"]);
    let extracted = world.piped("out.tar.gz", &["extract", "-", "-C", "from-pipe"]);
    assert_eq!(extracted.code, 0, "{}", extracted.stderr);
    let mut diff = std::process::Command::new("diff");
    let same = diff.args(["-r", "from-file", "from-pipe"]).current_dir(world.path(".")).status().unwrap();
    assert!(same.success());
    assert_eq!(world.piped("out.tar.gz", &["extract", "-", "-C", "one", "arm64/bin"]).code, 0);
    assert_eq!(world.list("one/arm64"), ["bin"]);
}

#[test]
fn what_a_pipe_brings_is_trusted_no_more_than_a_file() {
    let world = local();
    world.done(&BUILD);
    world.done(&["keygen", "--no-password", "-o", "other"]);
    let verify = ["verify", "-", "--pubkey", "key.pub"];
    assert_eq!(world.piped("out.tar.gz", &["verify", "-", "--pubkey", "other.pub"]).code, 3);
    assert_eq!(world.piped("out.tar.gz", &["inspect", "-", "--pubkey", "other.pub"]).code, 3);
    let bytes = world.read("out.tar.gz");
    world.write("short.tar.gz", &bytes[..bytes.len() / 2]);
    assert_eq!(world.piped("short.tar.gz", &verify).code, 3);
    world.write("long.tar.gz", [&bytes[..], b"more"].concat());
    assert_eq!(world.piped("long.tar.gz", &verify).code, 3);
    assert_eq!(world.piped("m.yaml", &verify).code, 3);
    world.write("nothing", "");
    assert_eq!(world.piped("nothing", &verify).code, 3);
    let base = world.piped("out.tar.gz", &["verify", "-", "--base", "out.tar.gz", "--pubkey", "key.pub"]);
    assert_eq!(base.code, 2);
    assert!(base.stderr.contains("hint: save the delta to a file"), "{}", base.stderr);
}

#[test]
fn the_wrong_key_and_a_changed_byte_are_exit_3() {
    let world = local();
    world.done(&BUILD);
    world.done(&["keygen", "--no-password", "-o", "other"]);
    insta::assert_snapshot!(world.transcript(&["verify", "out.tar.gz", "--pubkey", "other.pub"]));
    insta::assert_snapshot!(world.transcript(&["verify", "out.tar.gz"]));
    let mut bytes = world.read("out.tar.gz");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    world.write("bad.tar.gz", bytes);
    assert_eq!(world.run(&["verify", "bad.tar.gz", "--pubkey", "key.pub"]).code, 3);
    world.write("short.tar.gz", &world.read("out.tar.gz")[..middle]);
    assert_eq!(world.run(&["verify", "short.tar.gz", "--pubkey", "key.pub"]).code, 3);
    assert_eq!(world.run(&["verify", "nothing.tar.gz", "--pubkey", "key.pub"]).code, 1);
}

/// A key with the number of `real` that is not it: what it says of `real`'s signatures is that they are forged.
fn namesake(real: &str, other: &str) -> String {
    use base64::Engine as _;
    let base64 = base64::engine::general_purpose::STANDARD;
    let raw = |text: &str| base64.decode(text.lines().nth(1).unwrap()).unwrap();
    let (real, other) = (raw(real), raw(other));
    format!("untrusted comment: x\n{}\n", base64.encode([&real[..10], &other[10..]].concat()))
}

#[test]
fn a_forged_signature_is_refused_also_where_an_unknown_key_is_not() {
    let world = local();
    world.done(&BUILD);
    world.done(&["keygen", "--no-password", "-o", "other"]);
    let text = |name: &str| String::from_utf8(world.read(name)).unwrap();
    let extract = ["extract", "out.tar.gz", "-C", "x", "-q"];
    let export = ["export", "--eggo", "out.tar.gz", "-o", "x", "-q"];
    // Unknown: a warning that `-q` does not hide.
    world.write("home/.config/eggo/trusted-keys/k.pub", text("other.pub"));
    for arguments in [&extract[..], &export] {
        let ran = world.done(arguments);
        assert!(ran.stderr.starts_with("warning: `out.tar.gz` is not verified: "), "{}", ran.stderr);
        assert_eq!(world.run(&[arguments, &["--pubkey", "other.pub"]].concat()).code, 3);
    }
    // Forged.
    world.write("home/.config/eggo/trusted-keys/k.pub", namesake(&text("key.pub"), &text("other.pub")));
    std::fs::remove_dir_all(world.path("x")).unwrap();
    for arguments in [&extract[..], &export, &["inspect", "out.tar.gz"], &["check", "out.tar.gz"]] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 3, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("does not hold"), "{}", ran.stderr);
    }
    assert_eq!(world.piped("out.tar.gz", &["extract", "-", "-C", "x"]).code, 3);
    assert!(!world.path("x").exists());
}

#[test]
fn a_local_addon_must_have_its_checksum() {
    let world = World::new();
    let text = "kind: ConfigMap\ndata: {}\n";
    world.write("addon.yaml", text);
    let manifest = |sha256: &str| {
        format!("name: n\nversion: 1\naddons: [{{name: a, path: addon.yaml, sha256: {sha256}}}]\n")
    };
    world.write("m.yaml", manifest(&"0".repeat(64)));
    insta::assert_snapshot!(world.transcript(&["lock", "-m", "m.yaml"]));
    world.write("m.yaml", manifest(&eggo_bundles::Digest::of(text.as_bytes()).hex()));
    world.done(&["lock", "-m", "m.yaml"]);
}

#[test]
fn a_stale_lock_is_refused_or_renewed() {
    let world = local();
    insta::assert_snapshot!(world.transcript(&build_with(&["--locked"])));
    world.done(&BUILD);
    let manifest = String::from_utf8(world.read("m.yaml")).unwrap();
    world.write("m.yaml", manifest.replace("dst: /etc/cni/net.d", "dst: /etc/kubernetes"));
    insta::assert_snapshot!(world.transcript(&build_with(&["--locked"])));
    world.done(&BUILD);
    world.done(&build_with(&["--locked"]));
    // A local file that changes is noticed when it is packed.
    world.write("conf/net.conf", "shared by BOTH");
    let refused = world.run(&build_with(&["--locked"]));
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("conf/net.conf"), "{}", refused.stderr);
    let renewed = world.done(&BUILD);
    assert!(renewed.stderr.contains("changed since it was locked"), "{}", renewed.stderr);
    insta::assert_snapshot!(world.transcript(&["lock", "-m", "m.yaml"]));
    world.write("bin/amd64/tool", elf(AMD64, "newer"));
    insta::assert_snapshot!(world.transcript(&["lock", "-m", "m.yaml", "--dry-run"]));
}

/// What nodes do not run themselves is for any arch, in folders and as files.
#[test]
fn firmware_and_bpf_objects_can_be_carried_and_programs_of_another_arch_cannot() {
    const BPF: u16 = 247;
    const TYPE: usize = 16;
    let world = local();
    let mut object = elf(BPF, "bpf");
    object[TYPE] = 1;
    world.write("tree/probe.o", &object);
    world.write("conf/net.conf", &object);
    world.done(&BUILD);
    world.done(&["verify", "out.tar.gz", "--pubkey", "key.pub"]);
    world.write("tree/probe.o", elf(ARM64, "program"));
    let ran = world.run(&BUILD);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("probe.o") && ran.stderr.contains("arm64"), "{}", ran.stderr);
}

#[test]
fn a_lock_keeps_the_archs_that_it_has() {
    let world = local();
    world.done(&["lock", "-m", "m.yaml", "--arch", "amd64"]);
    let has_both = || String::from_utf8(world.read("m.lock")).unwrap().contains("arch = \"arm64\"");
    assert!(!has_both());
    world.done(&["lock", "-m", "m.yaml"]);
    assert!(has_both());
    // Stale, and made anew for one of them.
    world.write("m.yaml", String::from_utf8(world.read("m.yaml")).unwrap().replace("1.0", "1.1"));
    world.done(&build_with(&["--arch", "amd64"]));
    assert!(has_both());
    world.done(&build_with(&["--arch", "arm64", "--locked"]));
    // The manifest decides which there can be.
    let manifest = String::from_utf8(world.read("m.yaml")).unwrap();
    world.write("m.yaml", manifest.replace("version", "archs: [amd64]\nversion"));
    world.done(&["lock", "-m", "m.yaml"]);
    assert!(!has_both());
}

#[test]
fn deltas_merge_back_to_the_same_bytes() {
    let world = local();
    world.done(&["build", "-m", "m.yaml", "--key", "key", "-o", "old.tar.gz"]);
    world.write("bin/amd64/tool", elf(AMD64, &"newer ".repeat(1000)));
    let manifest = String::from_utf8(world.read("m.yaml")).unwrap();
    world.write("m.yaml", manifest.replace("version: 1.0", "version: 1.1"));
    world.done(&["build", "-m", "m.yaml", "--key", "key", "-o", "new.tar.gz"]);
    insta::assert_snapshot!(world.transcript(&["diff", "old.tar.gz", "new.tar.gz"]));
    world.done(&["diff", "old.tar.gz", "new.tar.gz", "-o", "delta.tar.gz", "--key", "key"]);
    world.done(&build_with(&["--base", "old.tar.gz"]));
    assert!(world.read("out.tar.gz") == world.read("delta.tar.gz"), "both ways give one delta");
    world.done(&["merge", "old.tar.gz", "delta.tar.gz", "-o", "merged.tar.gz", "--pubkey", "key.pub"]);
    assert!(world.read("merged.tar.gz") == world.read("new.tar.gz"), "the bytes differ");
    let refused = world.run(&["merge", "new.tar.gz", "delta.tar.gz", "-o", "x", "--pubkey", "key.pub"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("is a delta for"), "{}", refused.stderr);
    world.done(&["verify", "delta.tar.gz", "--base", "old.tar.gz", "--pubkey", "key.pub"]);
}

#[test]
fn parts_are_as_good_as_the_whole() {
    let world = local();
    world.done(&BUILD);
    let size = format!("{}", world.read("out.tar.gz").len() / 3 + 1);
    world.done(&["split", "out.tar.gz", "--size", &size, "-o", "."]);
    std::fs::rename(world.path("out.tar.gz"), world.path("whole.tar.gz")).unwrap();
    world.done(&["verify", "out.tar.gz.001", "--pubkey", "key.pub"]);
    world.done(&["join", "out.tar.gz.001", "-o", "joined.tar.gz"]);
    assert!(world.read("joined.tar.gz") == world.read("whole.tar.gz"));
    // By the whole's name, which is not there, and to its name.
    for name in ["out.tar.gz", "out.tar.gz.001"] {
        world.done(&["join", name]);
        assert!(world.read("out.tar.gz") == world.read("whole.tar.gz"));
        std::fs::remove_file(world.path("out.tar.gz")).unwrap();
    }
    assert!(!world.path("out.tar").exists());
    for lost in ["out.tar.gz.003", "out.tar.gz.003.sha256"] {
        std::fs::remove_file(world.path(lost)).unwrap();
    }
    let cut = world.run(&["join", "out.tar.gz.001", "-o", "cut.tar.gz"]);
    assert!(cut.code == 3 && cut.stderr.contains("last parts are missing"), "{}", cut.stderr);
    assert!(!world.path("cut.tar.gz").exists());
    std::fs::remove_file(world.path("out.tar.gz.002")).unwrap();
    let missing = world.run(&["verify", "out.tar.gz.001", "--pubkey", "key.pub"]);
    assert!(missing.code != 0 && missing.stderr.contains("out.tar.gz.002"), "{}", missing.stderr);
}

#[test]
fn a_release_set_checks_out() {
    let world = local();
    world.done(&BUILD);
    world.done(&["publish", "out.tar.gz", "release", "--pubkey", "key.pub"]);
    assert_eq!(
        world.list("release"),
        [
            "SHA256SUMS",
            "demo-1.0.json",
            "demo-1.0.json.minisig",
            "demo-1.0.notes.md",
            "demo-1.0.spdx.json",
            "demo-1.0.tar.gz"
        ]
    );
    let checked = std::process::Command::new("sha256sum")
        .args(["-c", "--quiet", "SHA256SUMS"])
        .current_dir(world.path("release"))
        .status()
        .unwrap();
    assert!(checked.success());
    let notes = String::from_utf8(world.read("release/demo-1.0.notes.md")).unwrap();
    assert!(notes.contains("| tool | 1.0 | amd64, arm64 | the builder's machine |"), "{notes}");
    let sbom = world.done(&["sbom", "out.tar.gz"]).stdout;
    assert_eq!(sbom.as_bytes(), world.read("release/demo-1.0.spdx.json"));
    let cyclonedx = world.done(&["sbom", "out.tar.gz", "--format", "cyclonedx"]).stdout;
    assert!(cyclonedx.contains("\"bomFormat\""));
}

/// Serves one archive per arch and a plain program, and can be told to fail.
fn served() -> (World, Server) {
    let archive = |machine| tar_gz(&[("etcd-v3/etcdctl", &elf(machine, "ctl")), ("etcd-v3/README", b"text")]);
    let (amd64, arm64) = (archive(AMD64), archive(ARM64));
    let server = Server::start(move |asked| match asked.path.as_str() {
        "/etcd-amd64.tar.gz" => Answer::file(asked, &amd64, "\"a\""),
        "/etcd-aarch64.tar.gz" if asked.before == 0 => Answer::file(asked, &arm64, "\"b\"").cut(20),
        "/etcd-aarch64.tar.gz" => Answer::file(asked, &arm64, "\"b\""),
        "/etcd-x86_64.tar.gz" => Answer::file(asked, &amd64, "\"a\""),
        "/same" => Answer::file(asked, &elf(AMD64, "x"), "\"c\""),
        _ => Answer::new(404, "nothing here"),
    });
    let world = World::new();
    world.done(&["keygen", "--no-password", "-o", "key"]);
    world.write(
        "m.yaml",
        format!(
            "name: demo\nversion: 1.0\nbinaries:\n\
             - {{name: etcdctl, roles: [etcd], dst: /usr/bin, url: '{}', member: '*/etcdctl'}}\n",
            server.url("/etcd-{machine}.tar.gz")
        ),
    );
    (world, server)
}

#[test]
fn downloads_survive_a_cut_and_need_no_network_twice() {
    let (world, server) = served();
    let first = world.transcript(&BUILD);
    insta::assert_snapshot!(first);
    let asked = server.asked().len();
    world.done(&build_with(&["--offline", "--locked"]));
    assert_eq!(server.asked().len(), asked);
    world.done(&["extract", "out.tar.gz", "-C", "x", "arm64/bin"]);
    assert_eq!(world.read("x/arm64/bin/etcdctl"), elf(ARM64, "ctl"));
    // Without the cache, an offline build says what it lacks.
    std::fs::remove_dir_all(world.path("home/.cache")).unwrap();
    let said = world.transcript(&build_with(&["--offline", "--locked"]));
    // Either arch's is missed first.
    insta::assert_snapshot!(said.replace("aarch64", "x86_64").replace("for arm64", "for amd64"));
}

#[test]
fn a_corrupted_cache_is_mended_by_the_build() {
    let (world, _server) = served();
    world.done(&BUILD);
    let good = world.read("out.tar.gz");
    let blobs = world.path("home/.cache/eggo/blobs/sha256");
    for entry in std::fs::read_dir(&blobs).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[10] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let ran = world.done(&build_with(&["--locked"]));
    assert!(ran.stderr.contains("the cache was corrupted"), "{}", ran.stderr);
    assert!(good == world.read("out.tar.gz"));
}

#[test]
fn what_cannot_be_bundled_is_said_with_who_wants_it() {
    let (world, server) = served();
    let mut transcripts = String::new();
    let binary = |rest: &str| {
        format!("name: demo\nversion: 1.0\narchs: [amd64]\nbinaries:\n- {{name: x, dst: /usr/bin, {rest}}}\n")
    };
    let cases = [
        ("missing", binary(&format!("url: '{}'", server.url("/no-{arch}")))),
        (
            "wrong-arch",
            binary(&format!("archs: [arm64], url: '{}'", server.url("/same"))).replace("[amd64]", "[arm64]"),
        ),
        ("wrong-sha", binary(&format!("sha256: {}, url: '{}'", "0".repeat(64), server.url("/same")))),
        ("no-member", binary(&format!("member: '*/etcd', url: '{}'", server.url("/etcd-{arch}.tar.gz")))),
        ("many-members", binary(&format!("member: '**/*', url: '{}'", server.url("/etcd-{arch}.tar.gz")))),
        ("archive", binary(&format!("url: '{}'", server.url("/etcd-{arch}.tar.gz")))),
        ("no-file", binary("path: 'bin/{arch}/x'")),
        ("folder", binary("path: home")),
    ];
    for (name, manifest) in cases {
        let file = format!("{name}.yaml");
        world.write(&file, manifest);
        transcripts.push_str(&world.transcript(&["build", "-m", &file, "--key", "key"]));
        transcripts.push('\n');
    }
    insta::assert_snapshot!(transcripts);
    assert!(world.list(".").iter().all(|name| !name.ends_with(".tar.gz") && !name.starts_with('.')));
}

#[test]
fn hostile_archives_are_refused_by_the_build() {
    let Some(data) = test_data() else {
        println!("skipped: no test data");
        return;
    };
    let world = World::new();
    world.done(&["keygen", "--no-password", "-o", "key"]);
    let valid = ["gz-multi-member.tar.gz", "gz-trailing-zeros.tar.gz", "slip-case-unicode.tar.gz"];
    for entry in std::fs::read_dir(data.join("hostile")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        if name.ends_with(".yaml") || valid.contains(&name.as_str()) {
            continue;
        }
        let manifest = format!(
            "name: x\nversion: 1\narchs: [amd64]\ndirs:\n- {{name: d, dst: /opt/cni/bin, path: {}}}\n",
            path.display()
        );
        world.write("h.yaml", manifest);
        let ran = world.run(&["build", "-m", "h.yaml", "--key", "key", "-o", "h.tar.gz"]);
        assert_eq!(ran.code, 1, "{name}\n{}", ran.stderr);
        assert!(!world.path("h.tar.gz").exists(), "{name}");
    }
    for name in
        ["yaml-bomb-aliases.yaml", "yaml-deep-nesting.yaml", "yaml-invalid-utf8.yaml", "yaml-tag-exec.yaml"]
    {
        let path = data.join("hostile").join(name);
        let ran = world.run(&["build", "-m", path.to_str().unwrap(), "--key", "key"]);
        assert_eq!(ran.code, 1, "{name}");
    }
}

/// Bytes that do not shrink.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(length).collect()
}

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

#[test]
fn eggo_tarballs_go_out() {
    let world = local();
    world.done(&BUILD);
    world.done(&["export", "--eggo", "out.tar.gz", "-o", "packages"]);
    assert_eq!(world.list("packages"), ["packages-arm.tar.gz", "packages-x86.tar.gz"]);
    let listed = std::process::Command::new("tar")
        .args(["tzf", "packages/packages-arm.tar.gz"])
        .current_dir(world.path("."))
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for path in ["bin/tool", "file/net.conf", "dir/tree/data", "pkg/"] {
        assert!(listed.lines().any(|line| line == path), "{path} is not in\n{listed}");
    }
}
