//! What links may do in folders that a manifest names: it may come from somebody else.

use crate::build::{BUILD, local};
use crate::world::{AMD64, World, elf};
use std::os::unix::fs::symlink;

/// Replaces a file of the world by a link.
fn link(world: &World, name: &str, target: &str) {
    let path = world.path(name);
    let _ = std::fs::remove_file(&path);
    symlink(target, path).unwrap();
}

#[test]
fn links_beside_the_manifest_stay_beside_it() {
    let world = local();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("tool"), elf(AMD64, "mine")).unwrap();
    std::fs::write(outside.path().join("secret"), "kind: Secret\n").unwrap();
    world.write("addon.yaml", "kind: ConfigMap\n");
    let mut manifest = String::from_utf8(world.read("m.yaml")).unwrap();
    manifest.push_str("addons:\n- {name: a, path: addon.yaml}\n");
    world.write("m.yaml", &manifest);
    world.done(&BUILD);

    // Inside, links are followed as ever.
    world.write("store/tool", elf(AMD64, "stored"));
    link(&world, "bin/amd64/tool", "../../store/tool");
    world.done(&BUILD);
    world.done(&["extract", "out.tar.gz", "-C", "x"]);
    assert_eq!(world.read("x/amd64/bin/tool"), elf(AMD64, "stored"));

    for (name, target) in [
        ("bin/amd64/tool", outside.path().join("tool")),
        ("conf/net.conf", outside.path().join("secret")),
        ("addon.yaml", outside.path().join("secret")),
    ] {
        let before = world.read(name);
        let target = target.to_str().unwrap();
        link(&world, name, target);
        for locked in [&["build", "-m", "m.yaml", "--key", "key", "-o", "out.tar.gz", "--locked"][..], &BUILD]
        {
            let ran = world.run(locked);
            assert_eq!(ran.code, 1, "{name}");
            let said = format!("the link `{name}` leads out of `.`, to `{target}`");
            assert!(ran.stderr.contains(&said), "{}", ran.stderr);
            assert!(ran.stderr.contains("hint: put the file itself in place of the link"), "{}", ran.stderr);
        }
        std::fs::remove_file(world.path(name)).unwrap();
        world.write(name, before);
    }

    // Of a folder, the links themselves are packed; the folder must not be one that leads out.
    std::fs::remove_dir_all(world.path("tree")).unwrap();
    link(&world, "tree", outside.path().to_str().unwrap());
    let ran = world.run(&BUILD);
    assert!(ran.code == 1 && ran.stderr.contains("the link `tree` leads out of"), "{}", ran.stderr);
    // What the manifest itself says is what its author means.
    std::fs::remove_file(outside.path().join("tool")).unwrap();
    world.write("m.yaml", manifest.replace("path: tree", &format!("path: '{}'", outside.path().display())));
    world.done(&BUILD);
}

#[test]
fn an_addon_is_a_file_of_bounded_size() {
    let world = World::new();
    world.done(&["keygen", "--no-password", "-o", "key"]);
    for (path, why) in [("/dev/zero", "not a file"), ("big.yaml", "larger than")] {
        world.write("big.yaml", vec![b'#'; (8 << 20) + 1]);
        world.write("m.yaml", format!("name: n\nversion: 1\naddons: [{{name: a, path: {path}}}]\n"));
        let ran = world.run(&BUILD);
        assert!(ran.code == 1 && ran.stderr.contains(why), "{}", ran.stderr);
    }
}
