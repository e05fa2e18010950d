//! The ready manifests and sample deploy.yaml files of `manifests/` with the lab in place of the world: what the tests on
//! hosts lock, build and deploy, so that these files cannot rot.

use crate::lab::{Upstream, project};
use crate::site::Release;
use eggo_yaml::{Node, Value as Yaml};
use serde_json::{Value, json};
use std::path::Path;

/// Only policies for SELinux, which no host of the lab has.
const WITHOUT: [&str; 1] = ["container-selinux"];

/// `manifests/NAME.yaml` with the lab's repositories, releases and registry. Its addons are left out: their images are not
/// in the lab.
pub fn manifest(name: &str, release: Release, upstream: &Upstream) -> Value {
    let mut manifest = read(&format!("manifests/{name}.yaml"));
    manifest["version"] = release.kubernetes.into();
    manifest["addons"] = json!([]);
    packages(&mut manifest, release, upstream);
    // Debian's etcd is older than this helper.
    list(&mut manifest, "binaries").retain(|item| release.etcd.is_some() || item["name"] != "etcdutl");
    for kind in ["binaries", "dirs"] {
        for item in list(&mut manifest, kind) {
            fetch_here(item, release, upstream);
        }
    }
    let mut registries = vec![json!({"name": upstream.registry, "plain-http": true})];
    for image in list(&mut manifest, "images") {
        let name = image["name"].as_str().expect("an image has a name");
        let host = name.split('/').next().unwrap_or_default();
        registries.push(json!({"name": host, "mirrors": [upstream.registry]}));
    }
    manifest["registries"] = registries.into();
    let text = manifest.to_string();
    assert!(!text.contains("https://"), "{name}: the lab has no stand-in for all of {text}");
    manifest
}

/// `manifests/deploy/NAME.yaml`.
pub fn deploy(name: &str) -> Value {
    read(&format!("manifests/deploy/{name}.yaml"))
}

/// Names of all ready manifests that bring Kubernetes.
pub fn names() -> Vec<String> {
    let files = std::fs::read_dir(project().join("manifests")).expect("the manifests");
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".yaml")?.to_string())).collect();
    names.retain(|name| name.contains("-k8s-"));
    names.sort();
    names
}

/// What these words of YAML say.
///
/// # Panics
/// When it is no YAML.
pub fn parse(text: &str) -> Value {
    value(&eggo_yaml::parse("text", text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}")))
}

/// An entry that is a list, and becomes one where there is none.
///
/// # Panics
/// When it is something else.
pub fn list<'a>(value: &'a mut Value, key: &str) -> &'a mut Vec<Value> {
    let entry = &mut value[key];
    if entry.is_null() {
        *entry = json!([]);
    }
    entry.as_array_mut().unwrap_or_else(|| panic!("`{key}` is no list"))
}

fn packages(manifest: &mut Value, release: Release, upstream: &Upstream) {
    let debian = json!([{"name": "debian", "type": "deb", "from": "system"}]);
    if manifest["repos"].is_null() {
        // Hosts of the lab are bare: what this manifest expects nodes to have comes as packages here.
        manifest["repos"] = debian;
        manifest["baseline"] = "minimal".into();
        manifest["packages"] = json!({
            "loadbalance": ["nginx", "libnginx-mod-stream"],
            "worker": ["conntrack", "socat", "iptables", "ebtables", "ethtool", "kmod"],
        });
        return;
    }
    // (A key that comes by plain http proves nothing.)
    let key = upstream.www.join(upstream.rpm_key.rsplit('/').next().unwrap_or_default());
    let lab = json!([{"name": "lab", "type": "rpm", "url": upstream.rpm, "gpgkey": key}]);
    manifest["repos"] = if manifest["repos"][0]["type"] == "rpm" { lab } else { debian };
    let roles = manifest["packages"].as_object_mut().expect("packages stand under roles");
    for wanted in roles.values_mut().filter_map(Value::as_array_mut) {
        wanted.retain(|name| WITHOUT.iter().all(|absent| name != absent));
        for name in wanted {
            // The lab's repository may have more than one version.
            let text = name.as_str().expect("a package is a word");
            let pinned = match text {
                "coredns" => Some(release.coredns),
                kubernetes if kubernetes.starts_with("kubernetes-") => Some(release.kubernetes),
                _ => None,
            };
            if let Some(version) = pinned {
                *name = format!("{text} = {version}").into();
            }
        }
    }
}

/// The same path on the lab's server, in the version that the lab has.
fn fetch_here(item: &mut Value, release: Release, upstream: &Upstream) {
    let Some(url) = item["url"].as_str().map(str::to_string) else { return };
    if let Some(path) = url.strip_prefix("https://dl.k8s.io/") {
        item["url"] = format!("{}/release/{path}", upstream.http).into();
    } else if let Some(path) = url.strip_prefix("https://github.com/") {
        let name = path.split('/').nth(1).unwrap_or_default();
        let version = release
            .of(name)
            .or_else(|| upstream.releases.get(name).map(String::as_str))
            .unwrap_or_else(|| panic!("the lab has no release of `{name}`"));
        item["version"] = version.into();
        item["url"] = format!("{}/github.com/{path}", upstream.http).into();
    }
}

fn read(file: &str) -> Value {
    let path: &Path = &project().join(file);
    parse(&std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}")))
}

fn value(node: &Node) -> Value {
    match &node.value {
        _ if node.is_null() => Value::Null,
        Yaml::Scalar { text, plain: true } if matches!(text.as_str(), "true" | "false") => {
            (text == "true").into()
        }
        Yaml::Scalar { text, plain } => match text.parse::<u32>() {
            Ok(number) if *plain => number.into(),
            _ => text.as_str().into(),
        },
        Yaml::Sequence(nodes) => nodes.iter().map(value).collect(),
        Yaml::Mapping(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), value(&entry.node))).collect())
        }
    }
}
