//! iSulad, openEuler's own.

use super::{
    CgroupDriver, CniFolders, Containers, Format, Identity, Images, Kubelet, Reads, Runtime, RuntimeError,
    Scope, daemon_json,
};
use crate::script::RemoteFile;
use serde_json::json;

const SETTINGS: &str = "/etc/isulad/daemon.json";
const DATA: &str = "/var/lib/isulad";
/// The kubelet speaks nothing but the first version of CRI from here on, and iSulad must be told to.
const CRI_V1: u16 = 26;
const ENABLE_CRI_V1: &str = "enable-cri-v1";

pub(super) const RUNTIME: Runtime = Runtime {
    name: "iSulad",
    words: &["iSulad", "isulad"],
    service: "isulad",
    program: "isulad",
    client: "isula",
    packages: &["isulad"],
    endpoint: "unix:///var/run/isulad.sock",
    data: DATA,
    kubelet: Kubelet::Remote,
    settings: Format::Json,
    reads: &[Reads::Shared(SETTINGS)],
    user_driver,
    files,
    cni: |_| CniFolders::All,
    // Old ones print docker.io's names in full, newer ones do not.
    images: Images { identity: Identity::Name, short_names: true, pins: &[] },
    containers: Containers {
        shim: "isulad-shim",
        namespace: "",
        pods: "",
        folders: &[DATA, "/run/isulad"],
        uses: None,
        link: None,
    },
    shell: include_str!("isulad.sh"),
};

fn files(scope: &Scope<'_>) -> Result<Vec<RemoteFile>, RuntimeError> {
    let mut ours = json!({
        "pod-sandbox-image": scope.chosen.pause_image,
        "network-plugin": "cni",
        // It takes several, in this form.
        "cni-bin-dir": scope.cni_bin_dirs.join(";"),
        "cni-conf-dir": super::CNI_CONFIG,
        "systemd-cgroup": scope.cgroup_driver() == CgroupDriver::Systemd,
    });
    if scope.kubelet.minor >= CRI_V1 {
        ours[ENABLE_CRI_V1] = true.into();
    }
    // Without the CRI that the kubelet speaks nothing would run.
    let text = daemon_json::merged(SETTINGS, ours, &[ENABLE_CRI_V1], scope)?;
    Ok(vec![RemoteFile::new(SETTINGS, text)])
}

fn user_driver(scope: &Scope<'_>) -> Option<CgroupDriver> {
    let user = daemon_json::user_keys(SETTINGS, &[], scope).ok()?;
    Some(CgroupDriver::of(user.get("systemd-cgroup")?.as_bool()?))
}
