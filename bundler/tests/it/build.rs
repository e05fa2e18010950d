//! Builds from beginning to end, and what happens when something is in the way.

use crate::server::{Answer, Server};
use crate::world::{AMD64, ARM64, World, elf, tar_gz, test_data};
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
    // Stale, and made again for one of them.
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

/// Serves one archive per arch and a plain program, and can be told to fail.
pub fn served() -> (World, Server) {
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
fn a_corrupted_cache_is_fixed_by_the_build() {
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
