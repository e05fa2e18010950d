//! docker's and iSulad's daemon.json.
//!
//! The keys that were in the file before the first install, and those that deploy.yaml adds, are
//! the user's and win; lists of registries are joined. Keys that we never write are always kept. The file
//! of iSulad's package has an empty text for much that nobody has set yet: those do not win.

use super::{RuntimeError, RuntimeSettings, Scope};
use crate::script::KEPT;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

type Object = Map<String, Value>;
type Files = BTreeMap<String, Vec<u8>>;

/// The file with `ours` and the user's keys; of the keys in `alone` the user's do not win.
pub(super) fn merged(
    path: &str,
    ours: Value,
    alone: &[&str],
    scope: &Scope<'_>,
) -> Result<String, RuntimeError> {
    let mut merged = ours.as_object().cloned().unwrap_or_default();
    let runtime = scope.chosen;
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
    let wins = |key: &str, value: &Value| *value != json!("") && !alone.contains(&key);
    for (key, value) in user_keys(path, &keys, scope)? {
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
pub(super) fn user_keys(path: &str, ours: &[String], scope: &Scope<'_>) -> Result<Object, RuntimeError> {
    let mut keys = Object::new();
    let original = format!("{KEPT}/original{path}");
    // Nothing was there before us, so the file is ours.
    let written_by_us = scope.settings.contains_key(&format!("{KEPT}/absent{path}"));
    let current = parse(path, scope.settings)?;
    match scope.settings.contains_key(&original) {
        true => {
            keys.extend(current.into_iter().filter(|(key, _)| !ours.contains(key)));
            keys.extend(parse(&original, scope.settings)?);
        }
        false => keys.extend(current.into_iter().filter(|(key, _)| !ours.contains(key) || !written_by_us)),
    }
    if let Some(RuntimeSettings::Json(more)) = &scope.chosen.settings {
        keys.extend(more.clone());
    }
    Ok(keys)
}

fn parse(path: &str, files: &Files) -> Result<Object, RuntimeError> {
    let Some(bytes) = files.get(path).filter(|bytes| !bytes.trim_ascii().is_empty()) else {
        return Ok(Object::new());
    };
    serde_json::from_slice(bytes).map_err(|error| RuntimeError::Json(path.to_string(), error.to_string()))
}
