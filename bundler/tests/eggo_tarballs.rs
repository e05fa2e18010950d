//! eggo's own tarballs, out of a bundle and into one, by the program itself.

mod images_support;

use images_support::make::{Pile, Style};
use images_support::{Bench, have, run};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

fn program(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    program_saying(folder, arguments).0
}

/// What it prints to stdout and to stderr.
fn program_saying(folder: &Path, arguments: &[&str]) -> (Vec<u8>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_eggo-bundle"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    (output.stdout, said)
}

fn program_for(machine: u16) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    bytes.extend(machine.to_le_bytes());
    bytes.extend([0; 44]);
    bytes
}

/// Builds `b.tar.gz` of a program and an image for both archs, and exports it to `packages/`.
fn exported(folder: &Path) {
    let mut pile = Pile::default();
    let index = pile.multi(Style::Oci, "app", 5000);
    pile.write_layout(&folder.join("layout"), &[("docker.io/team/app:1", &index)]);
    for (arch, machine) in [("amd64", 62), ("arm64", 183)] {
        std::fs::create_dir_all(folder.join(arch)).unwrap();
        std::fs::write(folder.join(arch).join("tool"), program_for(machine)).unwrap();
    }
    let manifest = "name: k8s\nversion: 1.0.0\narchs: [amd64, arm64]\n\
         binaries: [{name: tool, dst: /usr/bin, path: '{arch}/tool'}]\n\
         images: [{name: 'team/app:1', from: layout}]\n";
    std::fs::write(folder.join("m.yaml"), manifest).unwrap();
    program(folder, &["keygen", "--no-password", "-o", "key"]);
    program(folder, &["build", "-m", "m.yaml", "--key", "key", "-o", "b.tar.gz"]);
    program(folder, &["export", "--eggo", "b.tar.gz", "-o", "packages"]);
}

fn index(folder: &Path, bundle: &str) -> Value {
    program(folder, &["verify", bundle, "--pubkey", "key.pub"]);
    program(folder, &["check", bundle, "--pubkey", "key.pub"]);
    program(folder, &["extract", bundle, "-C", "x", "eggo-bundle.json"]);
    serde_json::from_slice(&std::fs::read(folder.join("x/eggo-bundle.json")).unwrap()).unwrap()
}

/// Of each image what does not depend on how its layers are packed.
fn images(index: &Value) -> Vec<(String, String, String)> {
    let text = |image: &Value, key: &str| image[key].as_str().unwrap().to_string();
    let images = index["images"].as_array().unwrap().iter();
    images.map(|image| (text(image, "name"), text(image, "arch"), text(image, "config"))).collect()
}

fn paths(index: &Value) -> Vec<&str> {
    let items = index["items"].as_array().unwrap().iter();
    items.map(|item| item["path"].as_str().unwrap()).filter(|path| !path.contains("/image/")).collect()
}

#[test]
fn rooms_come_back_with_their_images() {
    let bench = Bench::new();
    let folder = bench.path();
    exported(folder);
    let tarballs = ["packages/packages-x86.tar.gz", "packages/packages-arm.tar.gz"];
    let import = ["import", "--name", "k8s", "--version", "1.0.0", "--key", "key", "-o", "c.tar.gz"];
    program(folder, &[&import[..], &tarballs].concat());
    let (before, after) = (index(folder, "b.tar.gz"), index(folder, "c.tar.gz"));
    assert_eq!(images(&after), images(&before));
    assert_eq!(images(&after).len(), 2);
    assert_eq!(paths(&after), ["amd64/bin/tool", "arm64/bin/tool"]);
}

#[test]
fn an_image_without_a_name_is_not_left_out_silently() {
    if !have(&["tar"]) {
        return;
    }
    let bench = Bench::new();
    let folder = bench.path();
    program(folder, &["keygen", "--no-password", "-o", "key"]);
    let mut pile = Pile::default();
    let (named, other) = (pile.multi(Style::Oci, "app", 5000), pile.multi(Style::Oci, "other", 5000));
    let room = folder.join("tarball/image");
    pile.write_layout(&folder.join("layout"), &[("docker.io/team/app:1", &named), ("1", &other)]);
    std::fs::create_dir_all(&room).unwrap();
    let layout = folder.join("layout");
    run("tar", &["cf", room.join("images.tar").to_str().unwrap(), "-C", layout.to_str().unwrap(), "."]);
    run(
        "tar",
        &[
            "czf",
            folder.join("t.tar.gz").to_str().unwrap(),
            "-C",
            folder.join("tarball").to_str().unwrap(),
            ".",
        ],
    );
    let import =
        ["import", "--name", "k8s", "--version", "1", "--key", "key", "-o", "c.tar.gz", "amd64=t.tar.gz"];
    let (_, said) = program_saying(folder, &import);
    assert!(said.contains("1 image without a full name is left out"), "{said}");
    assert_eq!(images(&index(folder, "c.tar.gz")).len(), 1);
}

#[test]
fn the_flat_layout_is_taken_too() {
    if !have(&["tar", "dpkg-deb"]) {
        return;
    }
    let bench = Bench::new();
    let folder = bench.path();
    exported(folder);
    let flat = folder.join("flat");
    std::fs::create_dir_all(flat.join("addons")).unwrap();
    let in_flat = |program: &str, arguments: &[&str]| {
        run("env", &[&["-C", flat.to_str().unwrap(), program][..], arguments].concat())
    };
    in_flat("tar", &["xzf", "../packages/packages-arm.tar.gz", "image", "--strip-components=1"]);
    let mut paths_in_flat = std::fs::read_dir(&flat).unwrap().map(|entry| entry.unwrap().path());
    let image = paths_in_flat.find(|path| path.extension().is_some_and(|it| it == "tar")).unwrap();
    std::fs::rename(image, flat.join("images.tar")).unwrap();
    std::fs::copy(folder.join("arm64/tool"), flat.join("kubelet")).unwrap();
    std::fs::write(flat.join("kubelet.service"), "[Unit]\n").unwrap();
    let pod = "kind: Pod\nspec: {containers: [{image: 'team/app:1'}]}\n";
    std::fs::write(flat.join("addons/pod.yaml"), pod).unwrap();
    std::fs::create_dir_all(folder.join("deb/DEBIAN")).unwrap();
    let control = "Package: socat\nVersion: 1.7-1\nArchitecture: arm64\nMaintainer: x\nDescription: x\n";
    std::fs::write(folder.join("deb/DEBIAN/control"), control).unwrap();
    in_flat("dpkg-deb", &["-b", "../deb", "socat.deb"]);
    in_flat("tar", &["czf", "../flat.tar.gz", "."]);
    let import = ["import", "--name", "k8s", "--version", "1", "--key", "key", "-o", "c.tar.gz"];
    program(folder, &[&import[..], &["flat.tar.gz"]].concat());
    let (before, after) = (index(folder, "b.tar.gz"), index(folder, "c.tar.gz"));
    assert_eq!(images(&after), images(&before)[1..]);
    let expected =
        ["arm64/addons/pod.yaml", "arm64/bin/kubelet", "arm64/file/kubelet.service", "arm64/pkg/socat.deb"];
    assert_eq!(paths(&after), expected);
}
