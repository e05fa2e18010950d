//! docker, which the kubelet up to 1.23 talks to itself.

use super::{
    CgroupDriver, CniFolders, Containers, Format, Identity, Images, Kubelet, Reads, Runtime, RuntimeError,
    Scope, containerd, daemon_json,
};
use crate::script::RemoteFile;
use serde_json::{Value, json};

const SETTINGS: &str = "/etc/docker/daemon.json";
const DATA: &str = "/var/lib/docker";

pub(super) const RUNTIME: Runtime = Runtime {
    name: "docker",
    words: &["docker"],
    service: "docker",
    program: "dockerd",
    client: "docker",
    packages: &["docker", "moby"],
    endpoint: "unix:///var/run/docker.sock",
    data: DATA,
    kubelet: Kubelet::Dockershim,
    settings: Format::Json,
    reads: &[Reads::Shared(SETTINGS)],
    user_driver,
    files,
    cni: |_| CniFolders::All,
    images: Images { identity: Identity::Config, short_names: true, pins: &[] },
    containers: Containers {
        shim: "containerd-shim",
        namespace: "moby",
        pods: "",
        folders: &[DATA, "/var/lib/dockershim", "/run/docker", "/etc/docker/key.json"],
        uses: Some(("containerd", &[containerd::DATA, containerd::RUN])),
        link: Some("docker0"),
    },
    shell: include_str!("docker.sh"),
};

fn files(scope: &Scope<'_>) -> Result<Vec<RemoteFile>, RuntimeError> {
    if scope.kubelet.minor >= 24 {
        return Err(RuntimeError::NoDockershim(scope.kubelet));
    }
    let driver = format!("native.cgroupdriver={}", scope.cgroup_driver().as_str());
    let text = daemon_json::merged(SETTINGS, json!({ "exec-opts": [driver] }), &[], scope)?;
    Ok(vec![RemoteFile::new(SETTINGS, text)])
}

fn user_driver(scope: &Scope<'_>) -> Option<CgroupDriver> {
    let user = daemon_json::user_keys(SETTINGS, &[], scope).ok()?;
    let options = user.get("exec-opts")?.as_array()?;
    let mut texts = options.iter().filter_map(Value::as_str);
    texts.find_map(|text| text.strip_prefix("native.cgroupdriver=")).and_then(CgroupDriver::parse)
}
