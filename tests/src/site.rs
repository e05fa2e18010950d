//! A site inside the air gap: a bundle built by `eggo-bundle`, a deploy.yaml, and lab hosts that
//! `eggo-install` turns into a cluster.

use crate::lab::{Host, Lab, Upstream, cache, kubernetes, project};
use crate::ready;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;
use tempfile::TempDir;

/// What of Kubernetes comes with a new version of it.
pub const PROGRAMS: [&str; 6] =
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet", "kube-proxy"];

/// A Kubernetes that the lab builds, and what goes with it.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    pub kubernetes: &'static str,
    /// What it is upgraded to: the same programs under another name, which must be as long.
    pub next: &'static str,
    pub coredns: &'static str,
    /// None: Debian's.
    pub etcd: Option<&'static str>,
    pub containerd: Option<&'static str>,
    /// As the names of the ready manifests have it.
    pub minor: &'static str,
}

/// Out of Debian's source.
pub const DEBIANS: Release = Release {
    kubernetes: "1.20.2",
    next: "1.20.3",
    coredns: "1.8.4",
    etcd: None,
    containerd: None,
    minor: "1.20",
};
/// From the Go module proxy.
pub const CURRENT: Release = Release {
    kubernetes: "1.36.3",
    next: "1.36.4",
    coredns: "1.14.2",
    etcd: Some("3.6.8"),
    containerd: Some("2.3.7"),
    minor: "1.36",
};

impl Release {
    /// Debian's, or with `EGGO_TEST_KUBERNETES=current` the current one.
    pub fn wanted() -> Self {
        match std::env::var("EGGO_TEST_KUBERNETES").as_deref() {
            Err(_) => DEBIANS,
            Ok("current") => CURRENT,
            Ok(other) => panic!("EGGO_TEST_KUBERNETES is `{other}`, and `current` is all it can be"),
        }
    }

    /// Prints which of its companions is not built, if so.
    fn built(&self, archs: &[&str]) -> Option<()> {
        built("coredns", self.coredns, archs)?;
        let of = |names: &[&str], version| names.iter().try_for_each(|name| built(name, version, archs));
        self.etcd.map_or(Some(()), |version| of(&["etcd", "etcdctl", "etcdutl"], version))?;
        self.containerd
            .map_or(Some(()), |version| of(&["containerd", "containerd-shim-runc-v2", "ctr"], version))
    }

    /// The version of a project's release on GitHub, where it is not the one that Debian has.
    pub fn of(&self, project: &str) -> Option<&'static str> {
        match project {
            "coredns" => Some(self.coredns),
            "etcd" => self.etcd,
            "containerd" => self.containerd,
            _ => None,
        }
    }

    /// Where its programs are.
    pub fn programs(&self, arch: &str) -> PathBuf {
        cache().join("kubernetes").join(self.kubernetes).join(arch)
    }
}

pub struct Site {
    pub lab: Lab,
    pub folder: TempDir,
    pub release: Release,
    /// The ready manifest that bundles are built from.
    manifest: String,
    /// A hook lays a bridge on every worker; without it an addon must bring the pods' network.
    pub bridge: bool,
    /// Images and addons (name and text) beyond those of every bundle. These addons come first.
    pub images: Vec<String>,
    pub addons: Vec<(&'static str, String)>,
    /// The name of the cluster.
    pub cluster: &'static str,
}

/// A host and the lists of deploy.yaml that it is in: `masters`, `workers`, `etcds`.
pub struct Place<'a> {
    pub host: &'a str,
    pub lists: &'a [&'a str],
}

impl Site {
    /// A site for the release's ready manifest of this family: `debian`, `openeuler`…
    ///
    /// Prints why and returns `None` where there is nothing to deploy.
    pub fn new(lab: Lab, cluster: &'static str, release: Release, family: &str) -> Option<Self> {
        let archs = archs(&lab);
        for arch in &archs {
            kubernetes(release.kubernetes, arch)?;
        }
        release.built(&archs)?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir_all(folder.path().join("home/.ssh")).expect("a home");
        fs::copy(lab.known_hosts(), folder.path().join("home/.ssh/known_hosts")).expect("known hosts");
        let manifest = format!("{family}-k8s-{}", release.minor);
        let (images, addons) = (Vec::new(), Vec::new());
        Some(Self { lab, folder, release, manifest, bridge: true, images, addons, cluster })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn host(&self, name: &str) -> &Host {
        self.lab.host(name)
    }

    /// Builds and signs `bundle.tar.gz` from the ready manifest.
    pub fn build(&self) -> PathBuf {
        let upstream = self.lab.upstream();
        self.pack("bundle", &self.manifest(&upstream), &upstream)
    }

    /// Writes the ready manifest to this file, and what it names beside it.
    pub fn write_manifest(&self, file: &Path) {
        let upstream = self.lab.upstream();
        self.lay_out(file, &self.manifest(&upstream), &upstream);
    }

    /// The same as `NAME.tar.gz`, with the programs of the next version of Kubernetes out of `programs/ARCH`.
    pub fn build_next(&self, name: &str, programs: &Path) -> PathBuf {
        let upstream = self.lab.upstream();
        let mut manifest = self.manifest(&upstream);
        manifest["version"] = self.release.next.into();
        for item in ready::list(&mut manifest, "binaries") {
            let name = item["name"].as_str().expect("a binary has a name").to_string();
            if PROGRAMS.contains(&name.as_str()) {
                *item = json!({"name": name, "roles": item["roles"], "dst": item["dst"],
                    "path": format!("{}/{{arch}}/{name}", programs.display())});
            }
        }
        self.pack(name, &manifest, &upstream)
    }

    fn lay_out(&self, file: &Path, manifest: &Value, upstream: &Upstream) {
        let folder = file.parent().expect("it lies in a folder");
        fs::create_dir_all(folder.join("files")).expect("a folder");
        fs::write(file, manifest.to_string()).expect("a manifest");
        fs::write(folder.join("files/network.sh"), NETWORK).expect("a hook");
        fs::write(folder.join("web.yaml"), web(&upstream.registry)).expect("an addon");
        for (name, text) in &self.addons {
            fs::write(folder.join(name), text).expect("an addon");
        }
    }

    fn pack(&self, name: &str, manifest: &Value, upstream: &Upstream) -> PathBuf {
        let file = self.path(&format!("{name}.yaml"));
        self.lay_out(&file, manifest, upstream);
        let (key, out) = (self.path("key"), self.path(&format!("{name}.tar.gz")));
        if !key.exists() {
            succeed(self.bundle(&["keygen", "--no-password", "-o", &text(&key)]));
        }
        let mut build = self.bundle(&["build", "--arch", &archs(&self.lab).join(",")]);
        build
            .arg("-m")
            .arg(file)
            .arg("--key")
            .arg(key)
            .arg("-o")
            .arg(&out)
            .arg("--cache-dir")
            .arg(downloads());
        succeed(build);
        out
    }

    /// The ready manifest in the lab, with what the tests look at: a network, a web server on each node.
    fn manifest(&self, upstream: &Upstream) -> Value {
        let mut manifest = ready::manifest(&self.manifest, self.release, upstream);
        let hook = json!({"path": "files/network.sh", "dst": "/etc/kubernetes/hooks", "roles": ["worker"]});
        ready::list(&mut manifest, "files").push(hook);
        let busybox = format!("{}/busybox:1.35", upstream.registry);
        for name in std::iter::once(&busybox).chain(&self.images) {
            ready::list(&mut manifest, "images").push(json!({"name": name, "roles": ["worker"]}));
        }
        let addons = ready::list(&mut manifest, "addons");
        addons.extend(self.addons.iter().map(|(name, _)| json!({"name": name, "path": name})));
        addons.push(json!({"name": "web.yaml", "path": "web.yaml", "images": "none"}));
        manifest
    }

    /// Writes deploy.yaml: a sample of `manifests/deploy` with these nodes, and `more` (YAML) in place of what it says.
    pub fn describe(&self, sample: &str, places: &[Place<'_>], more: &str) {
        let mut deploy = ready::deploy(sample);
        deploy["cluster-id"] = self.cluster.into();
        for list in ["masters", "workers", "etcds"] {
            let there = places.iter().filter(|place| place.lists.contains(&list));
            let nodes: Vec<Value> = there.map(|place| self.node(place.host)).collect();
            if nodes.is_empty() {
                deploy.as_object_mut().expect("a mapping").remove(list);
            } else {
                deploy[list] = nodes.into();
            }
        }
        self.settle(&mut deploy);
        if !more.is_empty()
            && let Value::Object(more) = ready::parse(more)
        {
            deploy.as_object_mut().expect("a mapping").extend(more);
        }
        fs::write(self.path("deploy.yaml"), deploy.to_string()).expect("a deploy.yaml");
    }

    /// What a deploy.yaml must say in this lab, and for this manifest.
    pub fn settle(&self, deploy: &mut Value) {
        let upstream = self.lab.upstream();
        let manifest = ready::manifest(&self.manifest, self.release, &upstream);
        deploy["private-key-path"] = text(self.lab.key()).into();
        deploy["pause-image"] = manifest["images"][0]["name"].clone();
        deploy["insecure-registries"] = json!([upstream.registry]);
        // Debian's package has the plugins elsewhere.
        let plugins = manifest["dirs"][0]["dst"].as_str().unwrap_or("/usr/lib/cni");
        deploy["cni-bin-dir"] = plugins.into();
        if self.bridge {
            let hook =
                |when| json!({"name": "network.sh", "type": "shell", "schedule": when, "timeout": "60s"});
            deploy["install"]["addition"] = json!({"worker": [hook("prejoin"), hook("postcleanup")]});
            deploy["network"].as_object_mut().expect("a mapping").remove("plugin");
        }
    }

    fn node(&self, name: &str) -> Value {
        let host = self.host(name);
        json!({"name": host.name(), "ip": host.address(), "port": 22, "arch": host.arch()})
    }

    /// `eggo-install WORDS -f deploy.yaml …` for this site.
    pub fn install(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program("eggo-install"));
        command.args(words).arg("-f").arg(self.path("deploy.yaml"));
        command.arg("--state-dir").arg(self.path("state"));
        command.env("HOME", self.path("home")).env_remove("SSH_AUTH_SOCK").stdin(std::process::Stdio::null());
        command
    }

    /// The whole install of a bundle.
    pub fn deploy(&self, bundle: &Path) -> Command {
        let mut command = self.install(&[&text(bundle)]);
        command.arg("--pubkey").arg(self.path("key.pub")).arg("--yes");
        command
    }

    /// kubectl of a master with the administrator's kubeconfig; the kubeconfig does not stay there.
    pub fn kubectl(&self, master: &str, words: &str) -> String {
        let kubeconfig = fs::read_to_string(self.path("state").join(self.cluster).join("admin.conf"))
            .expect("the administrator's kubeconfig");
        let host = self.host(master);
        host.write("/run/test.conf", kubeconfig.as_bytes());
        host.exec(&format!("KUBECONFIG=/run/test.conf kubectl {words}; s=$?; rm -f /run/test.conf; exit $s"))
    }

    fn bundle(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program("eggo-bundle"));
        command.args(words).env("HOME", self.path("home")).stdin(std::process::Stdio::null());
        command
    }
}

/// Where bundles' sources are kept from test to test.
pub fn downloads() -> PathBuf {
    project().join("target/bundle-cache")
}

/// The archs of its hosts, each once.
fn archs(lab: &Lab) -> Vec<&str> {
    let archs: std::collections::BTreeSet<&str> = lab.hosts().iter().map(Host::arch).collect();
    archs.into_iter().collect()
}

/// Prints that this companion of Kubernetes is not built for these archs, if so.
pub fn built(name: &str, version: &str, archs: &[&str]) -> Option<()> {
    let folder = cache().join("companions").join(name).join(version);
    if archs.iter().all(|arch| folder.join(arch).join(name).is_file()) {
        return Some(());
    }
    println!("skipped: {name} {version} is not built (scripts/lab kubernetes)");
    None
}

/// Runs it to its end and prints how long that took.
///
/// # Panics
/// When it fails: the message holds all that it said.
pub fn succeed(command: Command) -> String {
    let output = run(command);
    assert!(
        output.status.success(),
        "it failed ({}):\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn run(mut command: Command) -> Output {
    let begin = Instant::now();
    let output = command.output().expect("the program can be run");
    let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    println!("[{:.1} s] {}", begin.elapsed().as_secs_f64(), words.join(" "));
    output
}

/// A program of this workspace, built on first use.
pub fn program(name: &str) -> PathBuf {
    static BUILT: std::sync::Once = std::sync::Once::new();
    BUILT.call_once(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        // As the tests themselves are built: other features, or what cargo tells a test about its package,
        // would compile dependencies again.
        build.args(["test", "--quiet", "--locked", "--workspace", "--no-run"]).current_dir(project());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_")) {
            if !["CARGO_HOME", "CARGO_TARGET_DIR"].contains(&name.as_str()) {
                build.env_remove(name);
            }
        }
        let built = build.status();
        assert!(built.is_ok_and(|status| status.success()), "the programs can be built");
    });
    let folder = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.parent()?.to_path_buf()));
    folder.expect("a test lies in the target folder").join(name)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A bridge on every worker, and routes to those of the others: the hosts are in one network.
const NETWORK: &str = r#"#!/bin/sh
set -e
last=${EGGO_NODE_IP##*.}; net=${EGGO_NODE_IP%.*}
if [ $EGGO_HOOK_TYPE = postcleanup ]; then
  rm -f /etc/cni/net.d/10-bridge.conflist /run/eggo-operator
  exit
fi
echo $EGGO_OPERATOR > /run/eggo-operator
mkdir -p /etc/cni/net.d
cat > /etc/cni/net.d/10-bridge.conflist <<END
{"cniVersion": "0.4.0", "name": "bridge", "plugins": [
 {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$last.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
END
for other in $(seq 11 60); do
  [ $other = $last ] || ip route replace 10.244.$other.0/24 via $net.$other
done
echo "network of $EGGO_NODE_NAME ($EGGO_NODE_ROLE, $EGGO_HOOK_TYPE, $EGGO_OPERATOR)"
"#;

/// A web server on every node, behind one service.
fn web(registry: &str) -> String {
    format!(
        r#"apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: web, namespace: default}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{{operator: Exists}}]
      containers:
      - name: web
        image: {registry}/busybox:1.35
        imagePullPolicy: IfNotPresent
        command: [sh, -c, "mkdir -p /www; uname -m > /www/index.html; exec httpd -f -p 8080 -h /www"]
        readinessProbe: {{httpGet: {{path: /index.html, port: 8080}}, periodSeconds: 2}}
---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: default}}
spec: {{selector: {{app: web}}, ports: [{{port: 80, targetPort: 8080}}]}}
"#
    )
}
