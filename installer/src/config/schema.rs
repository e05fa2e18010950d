//! The table of keys as a JSON schema for editors, and as the reference page.

use super::keys::{KEYS, Key, Shape};
use serde_json::{Map, Value, json};

/// A JSON schema (draft 2020-12) of deploy.yaml.
pub fn json_schema() -> Value {
    let mut schema = mapping(KEYS);
    let top = schema.as_object_mut().expect("a mapping's schema is an object");
    top.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    top.insert("title".into(), "deploy.yaml of eggo".into());
    schema
}

fn mapping(keys: &[Key]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in keys {
        let mut schema = shape(&key.shape);
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".into(), key.about.into());
            if let Some(default) = key.default {
                schema.insert("default".into(), serde_json::from_str(default).unwrap_or(default.into()));
            }
        }
        for alias in key.aliases {
            properties.insert((*alias).into(), schema.clone());
        }
        properties.insert(key.name.into(), schema);
        if key.required {
            let names = std::iter::once(&key.name).chain(key.aliases);
            required
                .push(json!({"anyOf": names.map(|name| json!({"required": [name]})).collect::<Vec<_>>()}));
        }
    }
    let mut schema = json!({"type": "object", "additionalProperties": false, "properties": properties});
    if !required.is_empty() {
        schema["allOf"] = required.into();
    }
    schema
}

fn shape(shape_of: &Shape) -> Value {
    match shape_of {
        Shape::Text => json!({"type": ["string", "number", "boolean"]}),
        Shape::Boolean => json!({"type": "boolean"}),
        Shape::Number { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Shape::Duration => json!({"type": ["string", "integer"], "pattern": "^([0-9]+(ms|s|m|h)?)+$"}),
        Shape::Address => json!({"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}),
        Shape::Network => json!({"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$"}),
        Shape::Words(words) => json!({"enum": words}),
        Shape::List(inner) => json!({"type": "array", "items": shape(inner)}),
        Shape::Mapping(keys) => mapping(keys),
        Shape::Free(inner) => json!({"type": "object", "additionalProperties": shape(inner)}),
        Shape::Either(shapes) => json!({"anyOf": shapes.iter().map(shape).collect::<Vec<_>>()}),
        Shape::Anything => json!({}),
    }
}

/// The reference as Markdown: one table, keys below others with dots.
pub fn markdown() -> String {
    let mut text = String::from(
        "| key | value | default | what it says |\n\
         |---|---|---|---|\n",
    );
    rows(&mut text, "", KEYS, &mut Vec::new());
    text
}

/// Mappings that occur more than once are written out the first time.
fn rows(text: &mut String, prefix: &str, keys: &'static [Key], seen: &mut Vec<(&'static [Key], String)>) {
    for key in keys {
        let name = format!("{prefix}{}", key.name);
        let mut about = key.about.to_string();
        if !key.aliases.is_empty() {
            let also = key.aliases.iter().map(|alias| format!("`{alias}`")).collect::<Vec<_>>().join(", ");
            about.push_str(&format!(" (also: {also})"));
        }
        let below = below(&key.shape, &name);
        let repeated = below.as_ref().and_then(|(keys, _)| {
            seen.iter()
                .find(|(known, _)| std::ptr::eq(known.as_ptr(), keys.as_ptr()))
                .map(|(_, name)| name.clone())
        });
        if let Some(first) = &repeated {
            about.push_str(&format!("; entries as in `{first}`"));
        }
        let default = match (key.default, key.required) {
            (Some(default), _) => format!("`{default}`"),
            (None, true) => "required".to_string(),
            (None, false) => String::new(),
        };
        text.push_str(&format!(
            "| `{name}` | {} | {default} | {} |\n",
            words(&key.shape),
            about.replace('|', "\\|")
        ));
        if let (Some((keys, prefix)), None) = (below, repeated) {
            seen.push((keys, name));
            rows(text, &prefix, keys, seen);
        }
    }
}

fn below(shape: &Shape, name: &str) -> Option<(&'static [Key], String)> {
    match shape {
        Shape::Mapping(keys) => Some((keys, format!("{name}."))),
        Shape::List(Shape::Mapping(keys)) => Some((keys, format!("{name}[]."))),
        Shape::Either(shapes) => shapes.iter().find_map(|shape| below(shape, name)),
        _ => None,
    }
}

fn words(shape: &Shape) -> String {
    match shape {
        Shape::Text => "text".into(),
        Shape::Boolean => "true or false".into(),
        Shape::Number { .. } => "number".into(),
        Shape::Duration => "time: `30s`, `2m`".into(),
        Shape::Address => "IP address".into(),
        Shape::Network => "network: `10.0.0.0/16`".into(),
        Shape::Words(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Shape::List(Shape::Mapping(_)) => "list".into(),
        Shape::List(inner) => format!("list of {}", self::words(inner)),
        Shape::Mapping(_) => "mapping".into(),
        Shape::Free(inner) => format!("mapping to {}", self::words(inner)),
        Shape::Either(shapes) => shapes.iter().map(self::words).collect::<Vec<_>>().join(" or "),
        Shape::Anything => "mapping or text".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    /// A file that uses every key of the table, under each of its spellings in turn.
    fn sample(keys: &[Key], round: usize) -> Value {
        let entry = |key: &Key| {
            let spellings: Vec<&str> = std::iter::once(key.name).chain(key.aliases.iter().copied()).collect();
            (spellings[round % spellings.len()].to_string(), value(&key.shape, round))
        };
        Value::Object(keys.iter().map(entry).collect())
    }

    fn value(shape: &Shape, round: usize) -> Value {
        match shape {
            Shape::Mapping(keys) => sample(keys, round),
            Shape::List(inner) => json!([value(inner, round)]),
            Shape::Free(inner) => json!({"amd64": value(inner, round)}),
            Shape::Either(shapes) => value(&shapes[shapes.len() - 1], round),
            Shape::Words(words) => words[round % words.len()].into(),
            Shape::Boolean => true.into(),
            Shape::Number { min, .. } => (*min).into(),
            Shape::Anything => json!({"a": 1}),
            _ => "x".into(),
        }
    }

    #[test]
    fn the_loader_knows_every_key_of_the_table() {
        for round in 0..4 {
            let text = sample(KEYS, round).to_string();
            let problems = parse("t", text.as_bytes()).unwrap_err();
            let unknown: Vec<_> =
                problems.list.iter().filter(|p| p.message.contains("unknown key")).collect();
            assert_eq!(unknown, Vec::<&eggo_yaml::Problem>::new());
        }
    }

    #[test]
    fn the_table_knows_the_defaults() {
        let schema = json_schema();
        let default = |path: &str| schema.pointer(path).and_then(|key| key.get("default")).cloned();
        use crate::config::defaults;
        assert_eq!(default("/properties/cluster-id"), Some(defaults::CLUSTER_ID.into()));
        assert_eq!(default("/properties/pause-image"), Some(defaults::PAUSE_IMAGE.into()));
        assert_eq!(default("/properties/cni-bin-dir"), Some(defaults::CNI_BIN_DIR.into()));
        assert_eq!(default("/properties/service/properties/cidr"), Some(defaults::SERVICE_CIDR.into()));
        assert_eq!(default("/properties/network/properties/podcidr"), Some(defaults::POD_CIDR.into()));
        assert_eq!(default("/properties/loadbalance/properties/bind-port"), Some(defaults::BIND_PORT.into()));
        assert_eq!(default("/properties/dns-domain"), Some(defaults::DNS_DOMAIN.into()));
    }

    #[test]
    fn the_reference_page_is_the_table() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/deploy-yaml.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let start = page.find("| key |").unwrap();
        let end = start + page[start..].find("\n\n").map_or(page.len() - start, |at| at + 1);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, format!("{}{}{}", &page[..start], markdown(), &page[end..])).unwrap();
        } else {
            assert_eq!(&page[start..end], markdown(), "run the tests with UPDATE_DOCS=1");
        }
    }
}
