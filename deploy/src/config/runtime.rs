//! The container runtime, and the user's own settings of it.

use super::defaults;
use super::warnings::Warnings;
use crate::runtimes::{Chosen, Format, RuntimeKind, RuntimeSettings};
use eggo_yaml::{Fields, Node};

pub(super) fn read(top: &Fields<'_>, warnings: &Warnings) -> Chosen {
    let kind = top.text("runtime").filter(|text| !text.is_empty()).and_then(|text| {
        let kind = text.parse::<RuntimeKind>().ok();
        if let (None, Some(node)) = (kind, top.node("runtime")) {
            let known = RuntimeKind::names();
            top.reader().at(node, format!("`runtime` is `{text}`, expected {known}"));
        }
        kind
    });
    let kind = kind.unwrap_or_default();
    let endpoint = top.text("runtime-endpoint").filter(|text| !text.is_empty());
    if let (Some(endpoint), Some(node)) = (&endpoint, top.node("runtime-endpoint")) {
        let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        if !path.starts_with('/') {
            let message = format!("`runtime-endpoint` is `{endpoint}`, expected unix:///PATH");
            top.reader().at(node, message);
        }
        let other = RuntimeKind::all().find(|other| *other != kind && usual_socket(*other, path));
        if let Some(other) = other {
            let message = format!("`runtime-endpoint` is {other}'s socket, but the runtime is {kind}");
            warnings.at(node, message);
        }
    }
    let endpoint = match endpoint {
        Some(endpoint) if endpoint.starts_with('/') => format!("unix://{endpoint}"),
        Some(endpoint) => endpoint,
        None => kind.endpoint.to_string(),
    };
    let pause = top.text("pause-image").filter(|text| !text.is_empty());
    Chosen {
        kind,
        endpoint,
        pause_image: pause.unwrap_or_else(|| defaults::PAUSE_IMAGE.to_string()),
        registry_mirrors: top.texts("registry-mirrors"),
        insecure_registries: top.texts("insecure-registries"),
        settings: runtime_settings(top, kind),
    }
}

fn usual_socket(kind: RuntimeKind, path: &str) -> bool {
    let usual = kind.endpoint.trim_start_matches("unix://");
    path.trim_start_matches("/var") == usual.trim_start_matches("/var")
}

/// `runtime-settings`: in the format that the runtime takes.
fn runtime_settings(top: &Fields<'_>, kind: RuntimeKind) -> Option<RuntimeSettings> {
    let node = top.node("runtime-settings")?;
    match (kind.settings, node.as_mapping(), node.as_str()) {
        (Format::Toml, _, Some(text)) => Some(RuntimeSettings::Toml(text.to_string())),
        (Format::Json, Some(_), _) => match json(node) {
            serde_json::Value::Object(map) => Some(RuntimeSettings::Json(map)),
            _ => None,
        },
        (Format::Toml, ..) => {
            top.reader().at_hinted(
                node,
                format!("`runtime-settings` for {kind} is a string of TOML"),
                "write `runtime-settings: |` and the settings indented below",
            );
            None
        }
        (Format::Json, ..) => {
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
