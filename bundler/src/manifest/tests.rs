use super::*;

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("m.yaml"), text.as_bytes()).map_err(|error| match error {
        Error::Problems(problems) => problems.to_string(),
        other => other.to_string(),
    })
}

const DESIGN: &str = r#"
name: kubernetes
version: 1.20.2
archs: [amd64, arm64]
repos:
  - {name: debian, type: deb, from: system}
  - {name: other, type: deb, url: "http://deb.example/debian", suites: bookworm bookworm-updates, components: [main], signed-by: keys/d.asc}
  - {name: everything, type: rpm, url: "https://repo.example/$basearch/", gpgkey: keys/x.asc}
baseline: minimal
packages:
  etcd: [etcd-server]
  node: [containerd >= 1.6, conntrack, socat]
binaries:
  - {name: kubelet, roles: [node], dst: /usr/bin, url: "https://dl.example/v{version}/{arch}/kubelet",
     sha256: {amd64: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
              aarch64: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}}
  - {name: etcdctl, roles: [etcd], dst: /usr/bin, url: ["https://a.example/{arch}.tar.gz", "https://b.example/{arch}.tar.gz"], member: "*/etcdctl"}
  - {name: mytool, roles: [node], dst: /usr/local/bin/, path: "bin/{arch}/mytool", mode: 0750}
files:
  - {path: files/10-net.conf, dst: /etc/cni/net.d, roles: [worker, node]}
dirs:
  - {name: cni, url: "https://x.example/cni-{arch}.tgz", dst: /opt/cni/bin}
registries:
  - {name: "registry.lan:5000", plain-http: true, mirrors: [mirror.lan]}
images:
  - k8s.gcr.io/pause:3.2
  - {name: nginx, roles: [loadbalance], from: "images/nginx-{arch}.tar"}
addons:
  - {name: calico, path: addons/calico.yaml, images: discover}
  - {name: flannel, url: "https://x.example/flannel.yaml", images: [a/b:1]}
"#;

#[test]
fn every_key_of_a_full_manifest_is_understood() {
    let manifest = parse(DESIGN).unwrap();
    assert_eq!(manifest.archs, Arch::ALL);
    assert_eq!(manifest.repos[0].source, RepoSource::DebSystem);
    let RepoSource::Deb { suites, .. } = &manifest.repos[1].source else { panic!("deb") };
    assert_eq!(suites, &["bookworm", "bookworm-updates"]);
    assert_eq!(manifest.packages.len(), 4);
    assert_eq!(manifest.packages[1].to_string(), "containerd >= 1.6");
    assert_eq!(manifest.packages[1].role, Role::Worker);
    let kubelet = &manifest.files[0];
    assert!(kubelet.checksums.get(Arch::Arm64).is_some());
    let From::Urls(urls) = &manifest.files[1].from else { panic!("urls") };
    assert_eq!(urls.len(), 2);
    assert_eq!(manifest.files[2].mode, Some(0o750));
    assert_eq!(manifest.files[2].dst.as_deref(), Some("/usr/local/bin"));
    assert_eq!(manifest.files[3].name, "10-net.conf");
    assert_eq!(manifest.files[3].roles, [Role::Worker]);
    assert_eq!(manifest.files[4].kind, Kind::Dir);
    assert_eq!(manifest.images[1].roles, [Role::Loadbalance]);
    assert_eq!(manifest.addons[1].images, AddonImages::Also(vec!["a/b:1".into()]));
    assert_eq!(manifest.lock_file(), Path::new("m.lock"));
}

/// `manifest => the beginning of each problem`, one after another.
#[test]
fn what_is_wrong_is_said_with_its_line() {
    let cases: [(&str, &[&str]); 19] = [
        ("{}", &["m.yaml:1:1: `name` is missing", "m.yaml:1:1: `version` is missing"]),
        ("name: a\nversion: 1\nimagse: [x]", &["m.yaml:3:1: unknown key `imagse` (did you mean `images`?)"]),
        (
            "name: a\nversion: 1\nimagess:\n- {nam: x, rols: [wrker]}\nbinarys: [{name: x, path: x}]",
            &[
                "m.yaml:3:1: unknown key `imagess` (did you mean `images`?)",
                "m.yaml:4:4: unknown key `images.nam` (did you mean `name`?)",
                "m.yaml:4:12: unknown key `images.rols` (did you mean `roles`?)",
                "m.yaml:4:19: unknown role `wrker`",
                "m.yaml:5:1: unknown key `binarys` (did you mean `binaries`?)",
                "m.yaml:5:11: `binaries[0].dst` is missing",
            ],
        ),
        (
            "name: a\nversion: 1\nrepo: []\npakcages: {etcd: [x]}",
            &[
                "m.yaml:3:1: unknown key `repo` (did you mean `repos`?)",
                "m.yaml:4:1: unknown key `pakcages` (did you mean `packages`?)",
                "m.yaml:4:11: `packages` needs `repos` to take them from",
            ],
        ),
        ("name: ../a\nversion: 1", &["m.yaml:1:7: `name` is `../a`, which cannot be a file's name"]),
        ("name: a@b\nversion: 1", &["m.yaml:1:7: `name` is `a@b`, which cannot be a bundle's name"]),
        (
            "name: a\nversion: 1.0 beta/2",
            &["m.yaml:2:10: `version` is `1.0 beta/2`, which cannot be a bundle's version"],
        ),
        ("name: a\nversion: 1\narchs: [riscv64]", &["m.yaml:3:9: unknown arch `riscv64`"]),
        (
            "name: a\nversion: 1\nbinaries:\n- {name: x, path: x, dst: /etc/kubernetes-evil}",
            &["m.yaml:4:27: destination `/etc/kubernetes-evil` is outside of the whitelist"],
        ),
        (
            "name: a\nversion: 1\nbinaries:\n- {name: x, path: x, url: 'http://a/b', dst: /usr/bin}",
            &["m.yaml:4:19: `binaries[0].path` and `url` exclude each other"],
        ),
        (
            "name: a\nversion: 1\nbinaries:\n- {name: x, pth: x, dst: /usr/bin}",
            &["m.yaml:4:13: unknown key `binaries[0].pth` (did you mean `path`?)"],
        ),
        (
            "name: a\nversion: 1\nbinaries:\n- {name: x, dst: /usr/bin}",
            &["m.yaml:4:3: `binaries[0].url` is missing"],
        ),
        (
            "name: a\nversion: 1\nbinaries:\n- {name: x, url: 'ftp://a/{foo}', dst: /usr/bin}",
            &["m.yaml:4:18: `ftp://a/{foo}` is not an http, https or file url"],
        ),
        (
            "name: a\nversion: 1\nbinaries:\n- {name: x, url: 'http://u:p@a/{foo}', dst: /usr/bin}",
            &["m.yaml:4:18: `http://a/{foo}` has the unknown placeholder `{foo}`"],
        ),
        (
            "name: a\nversion: 1\nbinaries:\n- {name: x, url: 'http://a/{foo}', dst: /usr/bin}",
            &["m.yaml:4:18: `http://a/{foo}` has the unknown placeholder `{foo}`"],
        ),
        (
            "name: a\nversion: 1\nbinaries:\n- {name: x, path: x, dst: /usr/bin}\n- {name: x, path: y, dst: /usr/bin, archs: [arm64]}",
            &["m.yaml:5:1: bin `x` for arm64 is listed a second time; the first is on line 4"],
        ),
        ("name: a\nversion: 1\npackages: {workr: [x]}", &["m.yaml:3:12: unknown role `workr`"]),
        (
            "name: a\nversion: 1\nrepos: [{name: d, type: deb, from: system}]\npackages: {etcd: ['x >> ', 'y ~ 3']}",
            &["m.yaml:4:19: `x >>` needs one version after `>`", "m.yaml:4:28: `y ~ 3` is not `name` or"],
        ),
        (
            "name: a\nversion: 1\nfiles: [{path: x, dst: /tmp, mode: 4755, sha256: abc}]",
            &["m.yaml:3:36: `mode` is `4755`", "m.yaml:3:50: `abc` is not a sha256 digest"],
        ),
    ];
    for (text, expected) in cases {
        let problems = parse(text).unwrap_err();
        let lines: Vec<&str> = problems.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{text}\n{problems}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.starts_with(expected), "{text}\nfound {line}\nexpected {expected}");
        }
    }
}
