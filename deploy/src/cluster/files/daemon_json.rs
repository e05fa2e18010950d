//! docker's and iSulad's daemon.json.
//!
//! The keys that stood in the file before the first install, and those that deploy.yaml adds, are
//! the user's and win; lists of registries are joined. Keys that we never write are always kept. The file
//! of iSulad's package has an empty text for much that nobody has set yet: those do not win.

use super::runtime::{CgroupDriver, RuntimeError, cgroup_driver};
use crate::cluster::paths;
use crate::cluster::probe::Probe;
use crate::cluster::version::Version;
use crate::config::{Config, RuntimeSettings};
use crate::remote::KEPT;
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

pub fn docker(config: &Config, probe: &Probe) -> Result<String, RuntimeError> {
    let driver = format!("native.cgroupdriver={}", cgroup_driver(config, probe).as_str());
    let ours = json!({ "exec-opts": [driver] });
    write(paths::DOCKER, ours, config, probe)
}

/// The kubelet speaks nothing but the first version of CRI from here on, and iSulad must be told to.
const CRI_V1: u16 = 26;
const ENABLE_CRI_V1: &str = "enable-cri-v1";

pub fn isulad(config: &Config, probe: &Probe, kubelet: Version) -> Result<String, RuntimeError> {
    let mut ours = json!({
        "pod-sandbox-image": config.runtime.pause_image,
        "network-plugin": "cni",
        // It takes several, in this form.
        "cni-bin-dir": config.network.cni_bin_dirs.join(";"),
        "cni-conf-dir": paths::CNI_CONFIG,
        "systemd-cgroup": cgroup_driver(config, probe) == CgroupDriver::Systemd,
    });
    if kubelet.minor >= CRI_V1 {
        ours[ENABLE_CRI_V1] = true.into();
    }
    write(paths::ISULAD, ours, config, probe)
}

/// The driver that the user set for docker.
pub fn docker_cgroup_driver(config: &Config, probe: &Probe) -> Option<CgroupDriver> {
    let user = user_keys(paths::DOCKER, &[], config, probe).ok()?;
    let options = user.get("exec-opts")?.as_array()?;
    let mut texts = options.iter().filter_map(Value::as_str);
    texts.find_map(|text| text.strip_prefix("native.cgroupdriver=")).and_then(CgroupDriver::parse)
}

/// The driver that the user set for iSulad.
pub fn isulad_cgroup_driver(config: &Config, probe: &Probe) -> Option<CgroupDriver> {
    let user = user_keys(paths::ISULAD, &[], config, probe).ok()?;
    let systemd = user.get("systemd-cgroup")?.as_bool()?;
    Some(if systemd { CgroupDriver::Systemd } else { CgroupDriver::Cgroupfs })
}

fn write(path: &str, ours: Value, config: &Config, probe: &Probe) -> Result<String, RuntimeError> {
    let mut merged = ours.as_object().cloned().unwrap_or_default();
    let runtime = &config.runtime;
    for (key, list) in [
        ("registry-mirrors", &runtime.registry_mirrors),
        ("insecure-registries", &runtime.insecure_registries),
    ] {
        if !list.is_empty() {
            merged.insert(key.to_string(), json!(list));
        }
    }
    let keys: Vec<String> =
        merged.keys().cloned().chain(["registry-mirrors".into(), "insecure-registries".into()]).collect();
    // Without the CRI that the kubelet speaks nothing would run.
    let wins = |key: &str, value: &Value| *value != json!("") && key != ENABLE_CRI_V1;
    for (key, value) in user_keys(path, &keys, config, probe)? {
        if merged.contains_key(&key) && !wins(&key, &value) {
            continue;
        }
        let joined = match (key.as_str(), merged.get(&key), &value) {
            ("registry-mirrors" | "insecure-registries", Some(Value::Array(ours)), Value::Array(theirs)) => {
                let mut list = ours.clone();
                list.extend(theirs.iter().filter(|entry| !ours.contains(entry)).cloned());
                Value::Array(list)
            }
            _ => value,
        };
        merged.insert(key, joined);
    }
    let mut text = serde_json::to_string_pretty(&Value::Object(merged)).expect("JSON values are JSON");
    text.push('\n');
    Ok(text)
}

/// The user's keys. `ours` are the keys that we may have written into the file ourselves.
fn user_keys(path: &str, ours: &[String], config: &Config, probe: &Probe) -> Result<Object, RuntimeError> {
    let mut keys = Object::new();
    let original = format!("{KEPT}/original{path}");
    let current = parse(path, probe)?;
    match probe.settings.contains_key(&original) {
        true => {
            keys.extend(current.into_iter().filter(|(key, _)| !ours.contains(key)));
            keys.extend(parse(&original, probe)?);
        }
        false => keys.extend(
            current.into_iter().filter(|(key, _)| !ours.contains(key) || !written_by_us(probe, path)),
        ),
    }
    if let Some(RuntimeSettings::Json(more)) = &config.runtime.settings {
        keys.extend(more.clone());
    }
    Ok(keys)
}

/// Nothing was there before us, so the file is ours.
fn written_by_us(probe: &Probe, path: &str) -> bool {
    probe.settings.contains_key(&format!("{KEPT}/absent{path}"))
}

fn parse(path: &str, probe: &Probe) -> Result<Object, RuntimeError> {
    let Some(bytes) = probe.settings.get(path).filter(|bytes| !bytes.trim_ascii().is_empty()) else {
        return Ok(Object::new());
    };
    serde_json::from_slice(bytes).map_err(|error| RuntimeError::Json(path.to_string(), error.to_string()))
}
