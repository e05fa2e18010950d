//! What is in a bundle loads into real runtimes, with the tags and configs that skopeo reports.

mod images_support;

use eggo_bundle::images::{self, Contents, Wanted};
use eggo_bundle::lock::LockedImage;
use eggo_bundles::layout::{Layout, blob_path};
use eggo_bundles::{Arch, Digest, Index};
use images_support::make::{Pile, Style, digest_of};
use images_support::{Bench, DockerRegistry, have, plain, run};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Three images of both archs, fetched, and the index of a bundle with them.
struct Fetched {
    bench: Bench,
    locked: Vec<LockedImage>,
    index: Index,
    registry: DockerRegistry,
}

async fn fetched() -> Fetched {
    let (registry, bench) = (DockerRegistry::start(), Bench::new());
    let at = &registry.address;
    let mut names = Vec::new();
    for (name, style) in [("one", Style::Oci), ("two", Style::Docker), ("pinned", Style::Oci)] {
        let mut pile = Pile::default();
        let index = pile.multi(style, name, 20_000);
        pile.push(&bench.http, at, &format!("team/{name}"), &index, "v1").await;
        let digest = if name == "pinned" { format!("@{}", digest_of(&index).oci()) } else { String::new() };
        names.push(format!("{at}/team/{name}:v1{digest}"));
    }
    let wanted = |name: &String| Wanted::new(name.parse().unwrap(), vec![], "test".to_string());
    let wanted: Vec<Wanted> = names.iter().map(wanted).collect();
    let registries = plain(&[at]);
    let locked = images::lock(&wanted, &Arch::ALL, &registries, bench.path(), bench.tools()).await.unwrap();
    images::fetch(&locked, &registries, bench.path(), bench.tools()).await.unwrap();
    let Contents { items, images, .. } = images::contents(&locked).unwrap();
    let index = Index {
        format: eggo_bundles::index::FORMAT,
        name: "t".into(),
        version: "1".into(),
        archs: Arch::ALL.to_vec(),
        parent: None,
        items,
        images,
        baselines: vec![],
        carried: Default::default(),
        sbom: None,
    };
    Fetched { bench, locked, index, registry }
}

impl Fetched {
    /// The stream that a node's runtime gets, as a file.
    fn archive(&self, arch: Arch, wanted: impl Fn(&str) -> bool) -> PathBuf {
        let layout = Layout::of_index(&self.index, arch, |image| wanted(&image.name)).unwrap();
        let path = self.bench.path().join(format!("{arch}.tar"));
        let mut builder = tar::Builder::new(std::fs::File::create(&path).unwrap());
        let mut add = |name: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, bytes).unwrap();
        };
        for (name, bytes) in &layout.files {
            add(name, bytes);
        }
        for digest in layout.blobs.keys() {
            add(&blob_path(digest), &std::fs::read(self.bench.cache.path(digest)).unwrap());
        }
        builder.finish().unwrap();
        path
    }

    /// The config digest that skopeo reports for an image of the registry.
    fn skopeo_config(&self, tagged: &str, arch: Arch) -> Digest {
        let source = format!("docker://{tagged}");
        let arguments =
            ["--override-arch", arch.as_str(), "inspect", "--raw", "--config", "--tls-verify=false"];
        let mut arguments = arguments.to_vec();
        arguments.push(&source);
        Digest::of(run("skopeo", &arguments).as_bytes())
    }

    fn tagged(&self, arch: Arch) -> Vec<(String, Digest)> {
        let images = self.locked.iter().filter(|image| image.arch == arch);
        images
            .map(|image| {
                let tagged = image.name.split('@').next().unwrap().to_string();
                (tagged.clone(), self.skopeo_config(&tagged, arch))
            })
            .collect()
    }
}

#[tokio::test]
async fn podman_loads_it() {
    if !have(&["docker-registry", "skopeo", "podman"]) {
        return;
    }
    let fetched = fetched().await;
    for arch in Arch::ALL {
        let archive = fetched.archive(arch, |_| true);
        let storage = tempfile::tempdir().unwrap();
        let (root, state) = (storage.path().join("root"), storage.path().join("run"));
        let podman = |arguments: &[&str]| {
            let mut all = vec!["--root", root.to_str().unwrap(), "--runroot", state.to_str().unwrap()];
            all.extend(["--storage-driver", "vfs", "--events-backend", "none"]);
            all.extend(arguments);
            run("podman", &all)
        };
        podman(&["load", "-q", "-i", archive.to_str().unwrap()]);
        for (tagged, config) in fetched.tagged(arch) {
            let id = podman(&["image", "inspect", "--format", "{{.Id}} {{.Architecture}}", &tagged]);
            assert_eq!(id.trim(), format!("{config} {arch}"), "{tagged}");
        }
    }
}

/// A containerd of our own; gone when dropped.
struct Containerd {
    child: Child,
    socket: PathBuf,
    folder: tempfile::TempDir,
}

impl Containerd {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (root, state, socket) = (path("root"), path("state"), path("c.sock"));
        let config = path("config.toml");
        let text = format!(
            "version = 2\nroot = {root:?}\nstate = {state:?}\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.internal.v1.opt\"]\n\
             [grpc]\naddress = {socket:?}\n[ttrpc]\naddress = {:?}\n",
            path("t.sock"),
        );
        std::fs::write(&config, text).unwrap();
        let mut child = Command::new("containerd")
            .args(["-c", config.to_str().unwrap()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
        let booted = lines.any(|line| line.unwrap().contains("containerd successfully booted"));
        assert!(booted, "containerd did not start");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, socket, folder }
    }

    fn ctr(&self, arguments: &[&str]) -> String {
        let mut all = vec!["-a", self.socket.to_str().unwrap(), "-n", "k8s.io"];
        all.extend(arguments);
        run("ctr", &all)
    }

    fn config_of(&self, image: &str) -> Digest {
        let list = self.ctr(&["images", "ls", &format!("name=={image}")]);
        let target = list.lines().nth(1).unwrap_or_else(|| panic!("no `{image}` in containerd"));
        let digest = target.split_whitespace().nth(2).unwrap();
        let manifest: serde_json::Value =
            serde_json::from_str(&self.ctr(&["content", "get", digest])).unwrap();
        manifest["config"]["digest"].as_str().unwrap().parse().unwrap()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = &self.folder;
    }
}

#[tokio::test]
async fn containerd_imports_it() {
    if !have(&["docker-registry", "skopeo", "containerd", "ctr"]) {
        return;
    }
    let fetched = fetched().await;
    let containerd = Containerd::start();
    for arch in Arch::ALL {
        let archive = fetched.archive(arch, |_| true);
        import(&containerd, &archive);
        for (tagged, config) in fetched.tagged(arch) {
            assert_eq!(containerd.config_of(&tagged), config, "{tagged} {arch}");
        }
        // The kubelet asks for a pinned image without its tag.
        let pinned =
            fetched.locked.iter().find(|image| image.name.contains('@') && image.arch == arch).unwrap();
        let digested = pinned.name.replace(":v1@", "@");
        assert_eq!(containerd.config_of(&digested), pinned.config.sha256);
    }
}

#[tokio::test]
async fn a_subset_loads_without_the_rest() {
    if !have(&["docker-registry", "skopeo", "containerd", "ctr"]) {
        return;
    }
    let fetched = fetched().await;
    let containerd = Containerd::start();
    import(&containerd, &fetched.archive(Arch::Arm64, |name| name.contains("/two:")));
    let names = containerd.ctr(&["images", "ls", "-q"]);
    assert_eq!(names.trim(), format!("{}/team/two:v1", fetched.registry.address));
}

/// From standard input, as the installer does it; the other arch is not this machine's.
fn import(containerd: &Containerd, archive: &Path) {
    let socket = containerd.socket.to_str().unwrap();
    let output = Command::new("ctr")
        .args(["-a", socket, "-n", "k8s.io", "images", "import", "--all-platforms", "--no-unpack", "-"])
        .stdin(std::fs::File::open(archive).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
