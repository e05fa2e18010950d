//! The container runtime, and the user's own settings of it.

use super::defaults;
use super::model::{Runtime, RuntimeKind, RuntimeSettings};
use super::warnings::Warnings;
use eggo_yaml::{Fields, Node};

pub(super) fn read(top: &Fields<'_>, warnings: &Warnings) -> Runtime {
    let kind = top.text("runtime").filter(|text| !text.is_empty()).and_then(|text| {
        let kind = text.parse::<RuntimeKind>().ok();
        if let (None, Some(node)) = (kind, top.node("runtime")) {
            top.reader().at(node, format!("`runtime` is `{text}`, expected docker, iSulad or containerd"));
        }
        kind
    });
    let kind = kind.unwrap_or(RuntimeKind::Docker);
    let endpoint = top.text("runtime-endpoint").filter(|text| !text.is_empty());
    if let (Some(endpoint), Some(node)) = (&endpoint, top.node("runtime-endpoint")) {
        let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        if !path.starts_with('/') {
            let message = format!("`runtime-endpoint` is `{endpoint}`, expected unix:///PATH");
            top.reader().at(node, message);
        }
        let other = RuntimeKind::ALL.into_iter().find(|other| *other != kind && usual_socket(*other, path));
        if let Some(other) = other {
            let message = format!("`runtime-endpoint` is {other}'s socket, but the runtime is {kind}");
            warnings.at(node, message);
        }
    }
    let endpoint = match endpoint {
        Some(endpoint) if endpoint.starts_with('/') => format!("unix://{endpoint}"),
        Some(endpoint) => endpoint,
        None => kind.default_endpoint().to_string(),
    };
    let pause = top.text("pause-image").filter(|text| !text.is_empty());
    Runtime {
        kind,
        endpoint,
        pause_image: pause.unwrap_or_else(|| defaults::PAUSE_IMAGE.to_string()),
        registry_mirrors: top.texts("registry-mirrors"),
        insecure_registries: top.texts("insecure-registries"),
        settings: runtime_settings(top, kind),
    }
}

fn usual_socket(kind: RuntimeKind, path: &str) -> bool {
    let usual = kind.default_endpoint().trim_start_matches("unix://");
    path.trim_start_matches("/var") == usual.trim_start_matches("/var")
}

/// `runtime-settings`: keys of daemon.json for docker and iSulad, a text of TOML for containerd.
fn runtime_settings(top: &Fields<'_>, kind: RuntimeKind) -> Option<RuntimeSettings> {
    let node = top.node("runtime-settings")?;
    match (kind, node.as_mapping(), node.as_str()) {
        (RuntimeKind::Containerd, _, Some(text)) => Some(RuntimeSettings::Toml(text.to_string())),
        (RuntimeKind::Docker | RuntimeKind::Isulad, Some(_), _) => match json(node) {
            serde_json::Value::Object(map) => Some(RuntimeSettings::Json(map)),
            _ => None,
        },
        (RuntimeKind::Containerd, ..) => {
            top.reader().at_hinted(
                node,
                "`runtime-settings` for containerd is a text in TOML",
                "write `runtime-settings: |` and the settings indented below",
            );
            None
        }
        _ => {
            let message = format!("`runtime-settings` for {kind} is a mapping with keys of daemon.json");
            top.reader().at(node, message);
            None
        }
    }
}

/// YAML's core schema: plain words that look like numbers, booleans or null are those.
fn json(node: &Node) -> serde_json::Value {
    use eggo_yaml::Value;
    match &node.value {
        Value::Scalar { .. } if node.is_null() => serde_json::Value::Null,
        Value::Scalar { text, plain: true } => match text.as_str() {
            "true" => true.into(),
            "false" => false.into(),
            number => match serde_json::from_str::<serde_json::Number>(number) {
                Ok(number) => number.into(),
                Err(_) => text.as_str().into(),
            },
        },
        Value::Scalar { text, .. } => text.as_str().into(),
        Value::Sequence(nodes) => nodes.iter().map(json).collect::<Vec<_>>().into(),
        Value::Mapping(entries) => serde_json::Value::Object(
            entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect(),
        ),
    }
}
