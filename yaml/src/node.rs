//! A YAML value that knows where it is.

/// Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub value: Value,
    pub line: usize,
    pub column: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A scalar as written. `plain` is false for quoted and block scalars, which are always strings.
    Scalar {
        text: String,
        plain: bool,
    },
    Sequence(Vec<Node>),
    /// In the order of the file; keys are unique.
    Mapping(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub line: usize,
    pub column: usize,
    pub node: Node,
}

impl Node {
    /// `~`, `null` or nothing at all.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    pub fn as_sequence(&self) -> Option<&[Node]> {
        match &self.value {
            Value::Sequence(nodes) => Some(nodes),
            _ => None,
        }
    }

    pub fn as_mapping(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Mapping(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_mapping()?.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// What it is, for a message.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Scalar { .. } if self.is_null() => "nothing",
            Value::Scalar { .. } => "a value",
            Value::Sequence(_) => "a list",
            Value::Mapping(_) => "a mapping",
        }
    }
}
