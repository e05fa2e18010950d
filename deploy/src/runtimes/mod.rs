//! Container runtimes: what each is, in a file of its own, and the table of them.
//!
//! A runtime is a [`Runtime`] (names, folders, what its configuration says) and a file of shell that has these functions
//! with its own commands:
//!
//! | function | |
//! |---|---|
//! | `works` | succeeds once it answers |
//! | `list_images` | prints a line for each image: its name, and the digest that [`Runtime::images`] names |
//! | `load_images` | loads the archive on standard input |
//! | `load_archive FILE` | loads an archive that is a file |
//! | `remove_images NAME…` | removes images, as far as they exist |
//! | `pin_images NAME…` | has the kubelet keep these images and none that it had kept before, as far as [`Images::pins`] |
//! | `remove_pods` | removes the pods, and no other container |
//!
//! Nothing here knows a deploy.yaml or a cluster: what a configuration depends on comes as a [`Scope`]. How a runtime
//! becomes a service is decided in `cluster`.

mod cni;
mod containerd;
mod daemon_json;
mod docker;
mod isulad;
mod kind;
pub mod users;

pub use cni::{CniLinks, cni_bin_dir, cni_links};
pub use containerd::USER_SETTINGS as CONTAINERD_SETTINGS;
pub use kind::RuntimeKind;

use crate::script::{CALL, RemoteFile, Script};
use crate::version::Version;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All of them. The first is the one for a deploy.yaml that names none.
const TABLE: &[&Runtime] = &[&docker::RUNTIME, &isulad::RUNTIME, &containerd::RUNTIME];

/// How a schema may spell their names.
pub const WORDS: &[&str] = &words();

const fn words() -> [&'static str; count()] {
    let mut words = [""; count()];
    let (mut runtime, mut next) = (0, 0);
    while runtime < TABLE.len() {
        let mut word = 0;
        while word < TABLE[runtime].words.len() {
            words[next] = TABLE[runtime].words[word];
            (word, next) = (word + 1, next + 1);
        }
        runtime += 1;
    }
    words
}

const fn count() -> usize {
    let (mut runtime, mut count) = (0, 0);
    while runtime < TABLE.len() {
        count += TABLE[runtime].words.len();
        runtime += 1;
    }
    count
}

/// Where CNI plugins find the networks that they make.
pub const CNI_CONFIG: &str = "/etc/cni/net.d";
/// Where addons put CNI programs.
pub const CNI_BIN_DIR: &str = "/opt/cni/bin";

/// What a container runtime is.
pub struct Runtime {
    /// In deploy.yaml and messages.
    pub name: &'static str,
    /// How a schema may spell the name; people may write it in any case.
    pub words: &'static [&'static str],
    /// The systemd service.
    pub service: &'static str,
    /// The program that the service runs.
    pub program: &'static str,
    /// The program that the functions of [`Runtime::shell`] call.
    pub client: &'static str,
    /// Words in the names of packages that bring the program.
    pub packages: &'static [&'static str],
    /// Where the kubelet finds it, unless deploy.yaml says otherwise.
    pub endpoint: &'static str,
    /// The folder that its images and containers are in.
    pub data: &'static str,
    /// How the kubelet talks to it.
    pub kubelet: Kubelet,
    /// What `runtime-settings` of deploy.yaml is.
    pub settings: Format,
    /// Files of the user's with settings, which are read before ours are written.
    pub reads: &'static [Reads],
    /// The cgroup driver that the user's settings ask for.
    pub user_driver: fn(&Scope<'_>) -> Option<CgroupDriver>,
    /// Its configuration on one node.
    pub files: fn(&Scope<'_>) -> Result<Vec<RemoteFile>, RuntimeError>,
    /// Which folders with CNI programs it knows.
    pub cni: fn(&Scope<'_>) -> CniFolders,
    pub images: Images,
    pub containers: Containers,
    /// The functions of the module's table, in shell.
    pub shell: &'static str,
}

/// How the kubelet talks to a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kubelet {
    /// Through the container runtime interface.
    Remote,
    /// Through dockershim, a part of the kubelet up to 1.23: it makes the pods' networks itself.
    Dockershim,
}

/// What a user's own settings are in deploy.yaml.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Keys of daemon.json.
    Json,
    /// A piece of config.toml.
    Toml,
}

/// What is read of a user's settings on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// A file that we write as well: also what was there before, or the note that nothing was.
    Shared(&'static str),
    /// All files of a folder whose names end so. Nobody but the user writes them.
    Folder(&'static str, &'static str),
}

/// How far a runtime looks for CNI programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CniFolders {
    All,
    /// It knows but one: the others' programs are linked there.
    One,
}

/// How a runtime knows images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Images {
    /// What `list_images` says of an image besides its name.
    pub identity: Identity,
    /// It prints names of docker.io without the host.
    pub short_names: bool,
    /// The first patch of each minor version, and of all later ones, that reports images as pinned. Empty: none does.
    pub pins: &'static [Version],
}

impl Images {
    /// Whether a kubelet is told which images are pinned.
    pub fn are_pinned(&self, version: Version) -> bool {
        let same = |first: &&Version| (first.major, first.minor) == (version.major, version.minor);
        match self.pins.iter().find(same) {
            Some(first) => version >= *first,
            None => self.pins.last().is_some_and(|last| version >= *last),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// The digest of its manifest.
    Manifest,
    /// The digest of its configuration.
    Config,
    /// Nothing.
    Name,
}

/// What a runtime's containers are on a node, and what is left of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Containers {
    /// How the name of the process begins that holds one.
    pub shim: &'static str,
    /// What such a process has among its arguments, if another runtime has the like.
    pub namespace: &'static str,
    /// The same for pods; empty if the runtime ends them itself.
    pub pods: &'static str,
    /// Removed by cleanup, unless the runtime was the user's.
    pub folders: &'static [&'static str],
    /// Of another runtime that it uses: its service, and what goes unless that one was the user's.
    pub uses: Option<(&'static str, &'static [&'static str])>,
    /// A network link that it makes by itself.
    pub link: Option<&'static str>,
}

/// What deploy.yaml says of the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    pub kind: RuntimeKind,
    /// Given, or the runtime's usual socket: `unix:///…`.
    pub endpoint: String,
    pub pause_image: String,
    pub registry_mirrors: Vec<String>,
    pub insecure_registries: Vec<String>,
    /// The user's own settings, merged into the runtime's configuration.
    pub settings: Option<RuntimeSettings>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeSettings {
    /// Keys of daemon.json.
    Json(serde_json::Map<String, serde_json::Value>),
    /// A piece of config.toml.
    Toml(String),
}

/// What a runtime's configuration on a node depends on.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub chosen: &'a Chosen,
    /// Where CNI programs are looked for.
    pub cni_bin_dirs: &'a [String],
    /// Those of them that have any.
    pub cni_found: &'a [String],
    /// The user's settings on the node, by path.
    pub settings: &'a BTreeMap<String, Vec<u8>>,
    /// Of the runtime's program.
    pub version: Option<Version>,
    pub kubelet: Version,
    /// The driver that deploy.yaml gives the kubelet.
    pub kubelets_driver: Option<CgroupDriver>,
    /// The driver that suits the node.
    pub nodes_driver: CgroupDriver,
}

impl Scope<'_> {
    /// What the user says, for the kubelet or for the runtime, comes first.
    pub fn cgroup_driver(&self) -> CgroupDriver {
        self.kubelets_driver.or_else(|| (self.chosen.kind.user_driver)(self)).unwrap_or(self.nodes_driver)
    }
}

/// On which runtime and kubelet must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupDriver {
    Systemd,
    Cgroupfs,
}

impl CgroupDriver {
    pub fn as_str(self) -> &'static str {
        match self {
            CgroupDriver::Systemd => "systemd",
            CgroupDriver::Cgroupfs => "cgroupfs",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [CgroupDriver::Systemd, CgroupDriver::Cgroupfs].into_iter().find(|driver| driver.as_str() == text)
    }

    fn of(systemd: bool) -> Self {
        if systemd { CgroupDriver::Systemd } else { CgroupDriver::Cgroupfs }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    #[error("docker is a runtime for Kubernetes up to 1.23, and this is {0}")]
    NoDockershim(Version),
    #[error("`{0}` is not valid TOML: {1}")]
    Toml(String, String),
    #[error(
        "`{name}` has containerd's settings in version {theirs}, and its containerd takes version {ours}"
    )]
    Settings { name: String, theirs: i64, ours: i64 },
    #[error("`{0}` is not a JSON object: {1}")]
    Json(String, String),
}

impl RuntimeError {
    pub fn hint(&self) -> Option<String> {
        match self {
            RuntimeError::NoDockershim(_) => Some("set `runtime: containerd` in deploy.yaml".into()),
            RuntimeError::Settings { ours, .. } => Some(format!(
                "write them for `version = {ours}`: `containerd config migrate` shows what sections are called there"
            )),
            RuntimeError::Toml(..) | RuntimeError::Json(..) => None,
        }
    }
}

impl Runtime {
    /// A script that calls one of the functions of [`Runtime::shell`].
    pub fn call(&self, function: &'static str) -> Script {
        Script::new([self.shell, CALL]).arg(function)
    }

    /// The unit of one that came as a bare program.
    pub fn unit(&self, program: &str) -> String {
        format!(
            "# Written by eggo-install.\n[Unit]\nDescription=Container runtime\nAfter=network-online.target\n\
             Wants=network-online.target\n\n[Service]\nType=notify\nExecStartPre=-/sbin/modprobe overlay\nExecStart={program}\n\
             Delegate=yes\nKillMode=process\nRestart=always\nRestartSec=5\nLimitNPROC=infinity\nLimitCORE=infinity\n\
             TasksMax=infinity\n\n[Install]\nWantedBy=multi-user.target\n# {}\n",
            self.service
        )
    }
}
