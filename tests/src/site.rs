//! A site inside the air gap: a bundle built by `eggo-bundle`, a deploy.yaml, and lab hosts that
//! `eggo-install` turns into a cluster.

use crate::lab::{Host, Lab, cache, kubernetes, project};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;
use tempfile::TempDir;

/// A Kubernetes that the lab builds, and what goes with it.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    pub kubernetes: &'static str,
    /// What it is upgraded to: the same programs under another name, which must be as long.
    pub next: &'static str,
    pub coredns: &'static str,
    pub pause: &'static str,
}

/// Out of Debian's source.
pub const DEBIANS: Release = Release { kubernetes: "1.20.2", next: "1.20.3", coredns: "1.8.4", pause: "3.2" };
/// From the Go module proxy.
pub const CURRENT: Release =
    Release { kubernetes: "1.34.4", next: "1.34.5", coredns: "1.12.4", pause: "3.10" };

impl Release {
    /// Debian's, or with `EGGO_TEST_KUBERNETES=current` the current one.
    pub fn wanted() -> Self {
        match std::env::var("EGGO_TEST_KUBERNETES").as_deref() {
            Err(_) => DEBIANS,
            Ok("current") => CURRENT,
            Ok(other) => panic!("EGGO_TEST_KUBERNETES is `{other}`, and `current` is all it can be"),
        }
    }

    /// Where its programs lie, with `{arch}` for the arch.
    pub fn programs(&self) -> String {
        format!("{}/kubernetes/{}/{{arch}}", cache().display(), self.kubernetes)
    }
}

pub struct Site {
    pub lab: Lab,
    pub folder: TempDir,
    pub release: Release,
    /// A hook lays a bridge on every worker; without it an addon must bring the pods' network.
    pub bridge: bool,
    /// Images and addons (name and text) beyond those of every bundle. These addons come first.
    pub images: Vec<String>,
    pub addons: Vec<(&'static str, String)>,
    /// The name of the cluster.
    pub cluster: &'static str,
}

/// A host and the lists of deploy.yaml that it stands in: `masters`, `workers`, `etcds`.
pub struct Place<'a> {
    pub host: &'a str,
    pub lists: &'a [&'a str],
}

impl Site {
    /// Prints why and returns `None` where there is nothing to deploy.
    pub fn new(lab: Lab, cluster: &'static str, release: Release) -> Option<Self> {
        for host in lab.hosts() {
            kubernetes(release.kubernetes, host.arch())?;
        }
        built("coredns", release.coredns)?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir_all(folder.path().join("home/.ssh")).expect("a home");
        fs::copy(lab.known_hosts(), folder.path().join("home/.ssh/known_hosts")).expect("known hosts");
        let (images, addons) = (Vec::new(), Vec::new());
        Some(Self { lab, folder, release, bridge: true, images, addons, cluster })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn host(&self, name: &str) -> &Host {
        self.lab.host(name)
    }

    /// Builds and signs `bundle.tar.gz` with the release's programs.
    pub fn build(&self, runtime: &[&str]) -> PathBuf {
        self.build_from("bundle", self.release.kubernetes, &self.release.programs(), runtime)
    }

    /// Builds and signs `NAME.tar.gz` with Kubernetes' programs out of `programs` (with `{arch}`).
    pub fn build_from(&self, name: &str, version: &str, programs: &str, runtime: &[&str]) -> PathBuf {
        let registry = self.lab.upstream().registry;
        let manifest = self.manifest(version, programs, runtime, &registry);
        fs::write(self.path(&format!("{name}.yaml")), manifest).expect("a manifest");
        fs::create_dir_all(self.path("files")).expect("a folder");
        fs::write(self.path("files/network.sh"), NETWORK).expect("a hook");
        fs::write(self.path("web.yaml"), web(&registry)).expect("an addon");
        for (name, text) in &self.addons {
            fs::write(self.path(name), text).expect("an addon");
        }
        let (key, out) = (self.path("key"), self.path(&format!("{name}.tar.gz")));
        if !key.exists() {
            succeed(self.bundle(&["keygen", "--no-password", "-o", &text(&key)]));
        }
        let archs: std::collections::BTreeSet<&str> = self.lab.hosts().iter().map(Host::arch).collect();
        let archs = archs.into_iter().collect::<Vec<_>>().join(",");
        let cache = project().join("target/bundle-cache");
        let manifest = text(&self.path(&format!("{name}.yaml")));
        let (key, written, cache) = (text(&key), text(&out), text(&cache));
        let words = [
            "build",
            "-m",
            &manifest,
            "--arch",
            &archs,
            "--key",
            &key,
            "-o",
            &written,
            "--cache-dir",
            &cache,
        ];
        succeed(self.bundle(&words));
        out
    }

    /// Writes deploy.yaml. `more` is appended.
    pub fn describe(&self, places: &[Place<'_>], more: &str) {
        let registry = self.lab.upstream().registry;
        let mut deploy = format!(
            "cluster-id: {}\nusername: root\nprivate-key-path: {}\npause-image: {registry}/pause:{}\n\
             insecure-registries: [\"{registry}\"]\ncni-bin-dir: /usr/lib/cni\n",
            self.cluster,
            self.lab.key().display(),
            self.release.pause
        );
        for list in ["masters", "workers", "etcds"] {
            let there: Vec<&Place<'_>> = places.iter().filter(|place| place.lists.contains(&list)).collect();
            if !there.is_empty() {
                writeln!(deploy, "{list}:").expect("text grows");
            }
            for place in there {
                let host = self.host(place.host);
                let (name, ip, arch) = (host.name(), host.address(), host.arch());
                writeln!(deploy, "- {{name: {name}, ip: {ip}, port: 22, arch: {arch}}}").expect("text grows");
            }
        }
        deploy.push_str("install:\n  package-source: {type: bundle}\n");
        if self.bridge {
            deploy.push_str(
                "  addition:\n    worker:\n    \
                 - {name: network.sh, type: shell, schedule: prejoin, timeout: 60s}\n    \
                 - {name: network.sh, type: shell, schedule: postcleanup, timeout: 60s}\n",
            );
        }
        deploy.push_str(more);
        fs::write(self.path("deploy.yaml"), deploy).expect("a deploy.yaml");
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

    fn manifest(&self, version: &str, programs: &str, runtime: &[&str], registry: &str) -> String {
        let Release { coredns: dns, pause, .. } = self.release;
        let mut text = format!(
            "name: kubernetes\nversion: {version}\narchs: [amd64, arm64]\nrepos:\n- {{name: debian, type: deb, from: system}}\n\
         baseline: minimal\npackages:\n  etcd: [etcd-server, etcd-client]\n  loadbalance: [nginx, libnginx-mod-stream]\n  \
         worker: [{}, runc, containernetworking-plugins, conntrack, socat, ebtables, iptables, ipset, iproute2, kmod]\nbinaries:\n",
            runtime.join(", ")
        );
        for (name, role) in [
            ("kube-apiserver", "master"),
            ("kube-controller-manager", "master"),
            ("kube-scheduler", "master"),
            ("kubectl", "master"),
            ("kubelet", "worker"),
            ("kube-proxy", "worker"),
        ] {
            writeln!(
            text,
            "- {{name: {name}, version: {version}, roles: [{role}], dst: /usr/bin, path: \"{programs}/{name}\"}}"
        )
        .expect("text grows");
        }
        let coredns = format!("{}/companions/coredns/{dns}/{{arch}}/coredns", cache().display());
        write!(
            text,
            "- {{name: coredns, version: {dns}, roles: [master], dst: /usr/bin, path: \"{coredns}\"}}\n\
         files:\n- {{path: files/network.sh, dst: /etc/kubernetes/hooks, roles: [worker]}}\n\
         registries:\n- {{name: \"{registry}\", plain-http: true}}\n\
         images:\n"
        )
        .expect("text grows");
        for name in [format!("{registry}/pause:{pause}"), format!("{registry}/busybox:1.35")]
            .iter()
            .chain(&self.images)
        {
            writeln!(text, "- {{name: \"{name}\", roles: [worker]}}").expect("text grows");
        }
        text.push_str("addons:\n");
        for (name, _) in &self.addons {
            writeln!(text, "- {{name: {name}, path: {name}}}").expect("text grows");
        }
        text.push_str("- {name: web.yaml, path: web.yaml, images: none}\n");
        text
    }

    fn bundle(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program("eggo-bundle"));
        command.args(words).env("HOME", self.path("home")).stdin(std::process::Stdio::null());
        command
    }
}

/// Prints that this companion of Kubernetes is not built for both archs, if so.
pub fn built(name: &str, version: &str) -> Option<()> {
    let folder = cache().join("companions").join(name).join(version);
    if ["amd64", "arm64"].iter().all(|arch| folder.join(arch).is_dir()) {
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
        // would compile dependencies anew.
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

/// A bridge on every worker, and routes to those of the others: the hosts stand in one network.
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
for other in 11 12 13 14 15 16 17 18; do
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
