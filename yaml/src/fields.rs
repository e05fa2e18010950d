//! Reading a mapping key by key, collecting what is wrong instead of stopping at it.

use crate::keys::{self, Key};
use crate::node::{Entry, Node};
use crate::problem::{Problem, Problems, nearest};
use std::cell::RefCell;

/// Collects the problems of one file while it is read.
pub struct Reader {
    file: String,
    keys: &'static [Key],
    problems: RefCell<Vec<Problem>>,
}

impl Reader {
    /// `keys` are all that will be asked for.
    pub fn new(file: impl Into<String>, keys: &'static [Key]) -> Self {
        Self { file: file.into(), keys, problems: RefCell::default() }
    }

    pub fn problem(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    /// A problem with the value `node`.
    pub fn at(&self, node: &Node, message: impl Into<String>) {
        self.problem(Problem::new(node.line, node.column, message));
    }

    pub fn at_hinted(&self, node: &Node, message: impl Into<String>, hint: impl Into<String>) {
        self.problem(Problem::new(node.line, node.column, message).hinted(hint));
    }

    /// The mapping `node` as fields; `what` names it in messages: `masters[0]`.
    /// Anything but a mapping is a problem and reads as an empty one.
    pub fn fields<'a>(&'a self, node: &'a Node, what: impl Into<String>) -> Fields<'a> {
        let what = what.into();
        let entries = node.as_mapping();
        if entries.is_none() && !node.is_null() {
            self.at(node, format!("`{what}` must be a mapping, found {}", node.kind()));
        }
        Fields {
            reader: self,
            what,
            line: node.line,
            column: node.column,
            entries: entries.unwrap_or(&[]),
            asked: RefCell::default(),
        }
    }

    /// A scalar as text; a list or mapping is a problem.
    pub fn text(&self, node: &Node, what: &str) -> Option<String> {
        if node.is_null() {
            return None;
        }
        let text = node.as_str().map(str::to_string);
        if text.is_none() {
            self.at(node, format!("`{what}` must be one value, found {}", node.kind()));
        }
        text
    }

    /// `value` if nothing was wrong.
    pub fn finish<T>(self, value: T) -> Result<T, Problems> {
        let mut list = self.problems.into_inner();
        if list.is_empty() {
            return Ok(value);
        }
        list.sort_by_key(|problem| (problem.line, problem.column));
        Err(Problems { file: self.file, list })
    }
}

/// The keys of one mapping. Each key that is asked for becomes known; [`Fields::finish`]
/// reports the others.
pub struct Fields<'a> {
    reader: &'a Reader,
    what: String,
    line: usize,
    column: usize,
    entries: &'a [Entry],
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Fields<'a> {
    pub fn reader(&self) -> &'a Reader {
        self.reader
    }

    /// The name of `key` for messages: `masters[0].ip`.
    pub fn name(&self, key: &str) -> String {
        if self.what.is_empty() { key.to_string() } else { format!("{}.{key}", self.what) }
    }

    pub fn entry(&self, key: &'static str) -> Option<&'a Entry> {
        debug_assert!(keys::knows(self.reader.keys, &self.name(key)), "no table has `{}`", self.name(key));
        self.asked.borrow_mut().push(key);
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The value of `key`, if it is there and not null.
    pub fn node(&self, key: &'static str) -> Option<&'a Node> {
        self.entry(key).map(|entry| &entry.node).filter(|node| !node.is_null())
    }

    /// The value under the first of several spellings; two of them at once are a problem.
    pub fn any(&self, keys: &[&'static str]) -> Option<&'a Node> {
        let mut found: Option<(&'static str, &'a Node)> = None;
        for key in keys {
            let Some(node) = self.node(key) else { continue };
            if let Some((first, _)) = found {
                let message =
                    format!("`{}` and `{}` mean the same; keep one", self.name(first), self.name(key));
                self.reader.at(node, message);
            } else {
                found = Some((key, node));
            }
        }
        found.map(|(_, node)| node)
    }

    /// The spelling under which a key with aliases is there, else the first; two at once are a problem.
    pub fn spelled(&self, keys: &[&'static str]) -> &'static str {
        let found = self.any(keys);
        let present = keys.iter().find(|key| found.is_some() && self.node(key).is_some());
        present.or(keys.first()).copied().unwrap_or("")
    }

    pub fn text(&self, key: &'static str) -> Option<String> {
        self.reader.text(self.node(key)?, &self.name(key))
    }

    /// As [`Fields::text`]; its absence is a problem.
    pub fn required(&self, key: &'static str) -> Option<String> {
        if self.node(key).is_none() {
            self.missing(key);
        }
        self.text(key)
    }

    pub fn missing(&self, key: &'static str) {
        let message = format!("`{}` is missing", self.name(key));
        self.reader.problem(Problem::new(self.line, self.column, message));
    }

    /// A text that parses as `T`; `expected` says what it should look like.
    pub fn parsed<T: std::str::FromStr>(&self, key: &'static str, expected: &str) -> Option<T> {
        let node = self.node(key)?;
        let text = self.reader.text(node, &self.name(key))?;
        let value = text.parse().ok();
        if value.is_none() {
            self.reader.at(node, format!("`{}` is `{text}`, expected {expected}", self.name(key)));
        }
        value
    }

    /// `true` or `false`; YAML 1.1's `yes`, `no`, `on`, `off` are refused with a hint, for they
    /// mean a boolean to some programs and a string to others.
    pub fn boolean(&self, key: &'static str) -> Option<bool> {
        let node = self.node(key)?;
        let text = self.reader.text(node, &self.name(key))?;
        match text.as_str() {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            other => {
                let message = format!("`{}` is `{other}`, expected true or false", self.name(key));
                match other.to_ascii_lowercase().as_str() {
                    "yes" | "on" | "y" => self.reader.at_hinted(node, message, "write `true`"),
                    "no" | "off" | "n" => self.reader.at_hinted(node, message, "write `false`"),
                    _ => self.reader.at(node, message),
                }
                None
            }
        }
    }

    /// The elements of a list; a single value where a list is expected is a problem.
    pub fn list(&self, key: &'static str) -> &'a [Node] {
        let Some(node) = self.node(key) else { return &[] };
        node.as_sequence().unwrap_or_else(|| {
            let message = format!("`{}` must be a list, found {}", self.name(key), node.kind());
            self.reader.at_hinted(node, message, format!("write `{key}: [ … ]` or one `- …` a line"));
            &[]
        })
    }

    pub fn texts(&self, key: &'static str) -> Vec<String> {
        let name = self.name(key);
        let nodes = self.list(key).iter();
        nodes.filter_map(|node| self.reader.text(node, &name)).collect()
    }

    pub fn fields(&self, key: &'static str) -> Option<Fields<'a>> {
        let node = self.node(key)?;
        Some(self.reader.fields(node, self.name(key)))
    }

    /// All entries, for mappings whose keys are the user's own.
    pub fn entries(&self) -> &'a [Entry] {
        self.entries
    }

    /// Reports every key that nobody asked for.
    pub fn finish(self) {
        let asked = self.asked.borrow();
        for entry in self.entries.iter().filter(|entry| !asked.contains(&entry.key.as_str())) {
            let problem =
                Problem::new(entry.line, entry.column, format!("unknown key `{}`", self.name(&entry.key)));
            let near = nearest(&entry.key, asked.iter().copied());
            self.reader.problem(match near {
                Some(near) => problem.hinted(format!("did you mean `{near}`?")),
                None => problem,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shape, key, parse, required};

    const KEYS: &[Key] = &[
        required("name", Shape::Text, "A name"),
        key("port", Shape::Number { min: 1, max: 65535 }, None, "A port"),
        key("secure", Shape::Boolean, None, "A choice"),
        key("list", Shape::List(&Shape::Text), None, "Several"),
    ];

    #[test]
    fn collects_every_problem_in_the_order_of_the_file() {
        let root = parse("d.yaml", b"nmae: x\nport: many\nsecure: yes\nlist: one\n").unwrap();
        let reader = Reader::new("d.yaml", KEYS);
        let fields = reader.fields(&root, "");
        fields.required("name");
        fields.parsed::<u16>("port", "a port number");
        fields.boolean("secure");
        fields.list("list");
        fields.finish();
        let problems = reader.finish(()).unwrap_err().to_string();
        assert_eq!(
            problems,
            "d.yaml:1:1: `name` is missing\n\
             d.yaml:1:1: unknown key `nmae` (did you mean `name`?)\n\
             d.yaml:2:7: `port` is `many`, expected a port number\n\
             d.yaml:3:9: `secure` is `yes`, expected true or false (write `true`)\n\
             d.yaml:4:7: `list` must be a list, found a value (write `list: [ … ]` or one `- …` a line)"
        );
    }
}
