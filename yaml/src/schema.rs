//! A table of keys as a JSON schema for editors, and as a reference page.

use crate::keys::{Key, Shape};
use serde_json::{Map, Value, json};

/// A JSON schema (draft 2020-12).
pub fn json_schema(title: &str, keys: &[Key]) -> Value {
    let mut schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title});
    if let (Value::Object(schema), Value::Object(top)) = (&mut schema, mapping(keys)) {
        schema.extend(top);
    }
    schema
}

fn mapping(keys: &[Key]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in keys {
        let mut schema = shape(&key.shape);
        if !key.required {
            allow_null(&mut schema);
        }
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

/// A key without a value is as good as none.
fn allow_null(schema: &mut Value) {
    if let Some(one) = schema.get("type").filter(|one| one.is_string()).cloned() {
        schema["type"] = json!([one]);
    }
    for (choices, null) in
        [("type", json!("null")), ("enum", Value::Null), ("anyOf", json!({"type": "null"}))]
    {
        if let Some(Value::Array(choices)) = schema.get_mut(choices) {
            choices.push(null);
        }
    }
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
pub fn markdown(keys: &'static [Key]) -> String {
    let mut page = Page {
        text: "| key | value | default | what it says |\n|---|---|---|---|\n".to_string(),
        written: Vec::new(),
    };
    page.rows("", keys);
    page.text
}

struct Page {
    text: String,
    /// Mappings that occur more than once are written out the first time.
    written: Vec<(&'static [Key], String)>,
}

impl Page {
    fn rows(&mut self, prefix: &str, keys: &'static [Key]) {
        for key in keys {
            let name = format!("{prefix}{}", key.name);
            let mut about = key.about.to_string();
            if !key.aliases.is_empty() {
                let also =
                    key.aliases.iter().map(|alias| format!("`{alias}`")).collect::<Vec<_>>().join(", ");
                about.push_str(&format!(" (also: {also})"));
            }
            let below = key.shape.mappings();
            let first = below.iter().find_map(|keys| self.place_of(keys));
            if let Some(first) = &first {
                about.push_str(&format!("; entries as in `{first}`"));
            }
            self.row(&name, key, &about);
            if first.is_none() {
                let list = if matches!(key.shape, Shape::List(_)) { "[]" } else { "" };
                for keys in below {
                    self.written.push((keys, name.clone()));
                    self.rows(&format!("{name}{list}."), keys);
                }
            }
        }
    }

    fn row(&mut self, name: &str, key: &Key, about: &str) {
        let default = match (key.default, key.required) {
            (Some(default), _) => format!("`{default}`"),
            (None, true) => "required".to_string(),
            (None, false) => String::new(),
        };
        let about = about.replace('|', "\\|");
        self.text.push_str(&format!("| `{name}` | {} | {default} | {about} |\n", words(&key.shape)));
    }

    fn place_of(&self, keys: &[Key]) -> Option<String> {
        let mut written = self.written.iter();
        written.find(|(known, _)| std::ptr::eq(known.as_ptr(), keys.as_ptr())).map(|(_, name)| name.clone())
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
        Shape::List(inner) => format!("list of {}", plural(inner)),
        Shape::Mapping(_) => "mapping".into(),
        Shape::Free(inner) => format!("mapping to {}", self::words(inner)),
        Shape::Either(shapes) => either(shapes, words),
        Shape::Anything => "mapping or text".into(),
    }
}

fn plural(shape: &Shape) -> String {
    match shape {
        Shape::Text => "texts".into(),
        Shape::Mapping(_) => "mappings".into(),
        Shape::Address => "IP addresses".into(),
        Shape::Either(shapes) => either(shapes, plural),
        other => words(other),
    }
}

fn either(shapes: &[Shape], words: fn(&Shape) -> String) -> String {
    let mut words: Vec<String> = shapes.iter().map(words).collect();
    words.dedup();
    words.join(" or ")
}
