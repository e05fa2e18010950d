//! YAML for people to read, out of JSON values.

use serde_json::Value;

/// `value` in block style. Strings that another reader could take for something else are quoted.
pub fn write(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                out.push_str(&" ".repeat(indent));
                out.push_str(&string(key));
                out.push(':');
                nested(value, indent, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for value in list {
                out.push_str(&" ".repeat(indent));
                out.push('-');
                element(value, indent, out);
            }
        }
        other => {
            out.push_str(&flow(other));
            out.push('\n');
        }
    }
}

fn nested(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(value, indent + 2, out);
        }
        Value::Array(list) if !list.is_empty() => {
            out.push('\n');
            block(value, indent, out);
        }
        other => {
            out.push(' ');
            out.push_str(&flow(other));
            out.push('\n');
        }
    }
}

/// A list's element: a mapping begins on the dash's line.
fn element(value: &Value, indent: usize, out: &mut String) {
    let mut inner = String::new();
    block(value, indent + 2, &mut inner);
    out.push(' ');
    out.push_str(inner.trim_start());
}

fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        other => other.to_string(),
    }
}

fn string(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let word = matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "null" | "nan" | "inf"
    );
    if begins && !word && text.chars().all(safe) {
        return text.to_string();
    }
    // A JSON string is a YAML string.
    Value::String(text.to_string()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_back_as_it_was() {
        let value = json!({
            "kind": "X", "on": "yes", "n": 5, "t": true, "empty": {}, "none": [], "time": "0s",
            "list": ["10.0.0.1", {"a": 1, "b": {"c": "d: e"}}, ["x"]], "text": "a\nb",
        });
        let text = write(&value);
        assert!(text.contains("list:\n- \"10.0.0.1\"\n- a: 1\n  b:\n    c: \"d: e\"\n- - x\n"), "{text}");
        let node = eggo_yaml::parse("x", text.as_bytes()).unwrap();
        assert_eq!(node.get("on").unwrap().as_str(), Some("yes"));
        assert_eq!(node.get("text").unwrap().as_str(), Some("a\nb"));
        let second = &node.get("list").unwrap().as_sequence().unwrap()[1];
        assert_eq!(second.get("b").unwrap().get("c").unwrap().as_str(), Some("d: e"));
    }
}
