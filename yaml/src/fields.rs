//! Reading a mapping key by key, collecting what is wrong instead of stopping at it.

use crate::keys::{self, Key};
use crate::node::{Entry, Node};
use crate::problem::{Problem, Problems, nearest};
use std::cell::RefCell;

/// Collects the problems of one file while it is read.
pub struct Reader {
    file: String,
    keys: &'static [Key],
    empty_is_absent: bool,
    one_line: bool,
    problems: RefCell<Vec<Problem>>,
}

impl Reader {
    /// `keys` are all that will be asked for.
    pub fn new(file: impl Into<String>, keys: &'static [Key]) -> Self {
        Self {
            file: file.into(),
            keys,
            empty_is_absent: false,
            one_line: false,
            problems: RefCell::default(),
        }
    }

    /// No text may have a line break or another control character: texts become lines of files in other formats.
    pub fn one_line(mut self) -> Self {
        self.one_line = true;
        self
    }

    /// A key with an empty text (`name: ""`) reads as one that is not there.
    pub fn empty_is_absent(mut self) -> Self {
        self.empty_is_absent = true;
        self
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
            let named = if what.is_empty() { "the file".to_string() } else { format!("`{what}`") };
            let problem = Problem::new(
                node.line,
                node.column,
                format!("{named} must be a mapping, found {}", node.kind()),
            );
            let text = node.as_str().unwrap_or_default();
            self.problem(match without_colon(text, &keys::below(self.keys, &what)) {
                Some(hint) => problem.hinted(hint),
                None => problem,
            });
        }
        let entries = entries.unwrap_or(&[]);
        let meant = self.meant(entries, &what);
        Fields {
            reader: self,
            what,
            line: node.line,
            column: node.column,
            entries,
            meant,
            asked: RefCell::default(),
        }
    }

    /// For each entry of the mapping `what` that its table does not know, the key that was probably meant.
    fn meant(&self, entries: &[Entry], what: &str) -> Vec<Option<&'static str>> {
        let known = keys::below(self.keys, what);
        let meant = |entry: &Entry| match known.contains(&entry.key.as_str()) {
            true => None,
            false => nearest(&entry.key, known.iter().copied()),
        };
        entries.iter().map(meant).collect()
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
        if let Some(control) = text.as_deref().filter(|_| self.one_line).and_then(first_control) {
            // Without the value, which may be a secret.
            let message = format!("`{what}` has the control character `{}`", control.escape_debug());
            self.at_hinted(node, message, "write plain text on one line, without `|`, `>` and escapes");
            return None;
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

fn first_control(text: &str) -> Option<char> {
    text.chars().find(|c| c.is_control())
}

/// The keys of one mapping. Each key that is asked for becomes known; [`Fields::finish`]
/// reports the others.
pub struct Fields<'a> {
    reader: &'a Reader,
    what: String,
    line: usize,
    column: usize,
    entries: &'a [Entry],
    meant: Vec<Option<&'static str>>,
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

    /// A misspelt key is read as the one that was meant, so that what is wrong below it is found too;
    /// [`Fields::finish`] tells of the spelling.
    pub fn entry(&self, key: &'static str) -> Option<&'a Entry> {
        debug_assert!(keys::knows(self.reader.keys, &self.name(key)), "no table has `{}`", self.name(key));
        self.asked.borrow_mut().push(key);
        let exact = self.entries.iter().find(|entry| entry.key == key);
        exact.or_else(|| self.entries.get(self.meant.iter().position(|meant| *meant == Some(key))?))
    }

    /// The value of `key`, if it is there and not null.
    pub fn node(&self, key: &'static str) -> Option<&'a Node> {
        let absent = |node: &Node| {
            node.is_null() || self.reader.empty_is_absent && node.as_str().is_some_and(str::is_empty)
        };
        self.entry(key).map(|entry| &entry.node).filter(|node| !absent(node))
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
        let known = |entry: &Entry| asked.contains(&entry.key.as_str());
        for (entry, meant) in self.entries.iter().zip(&self.meant).filter(|(entry, _)| !known(entry)) {
            let problem =
                Problem::new(entry.line, entry.column, format!("unknown key `{}`", self.name(&entry.key)));
            let meant = meant.filter(|meant| asked.contains(meant));
            let near = meant.or_else(|| nearest(&entry.key, asked.iter().copied()));
            let colon = || without_colon(&entry.key, &asked);
            self.reader.problem(match near.map(|near| format!("did you mean `{near}`?")).or_else(colon) {
                Some(hint) => problem.hinted(hint),
                None => problem,
            });
        }
    }
}

/// For a text that begins with a known key and a space: `name m1` in place of `name: m1`. YAML takes it for one
/// value, or for one key (`{name m1}`).
fn without_colon(text: &str, known: &[&str]) -> Option<String> {
    let key = text.split([' ', '\n']).next().filter(|key| key.len() < text.len() && known.contains(key))?;
    Some(format!("no `:` behind `{key}`"))
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
        key("hosts", Shape::List(&Shape::Mapping(&[required("ip", Shape::Text, "")])), None, "Mappings"),
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
            "d.yaml:1:1: unknown key `nmae` (did you mean `name`?)\n\
             d.yaml:2:7: `port` is `many`, expected a port number\n\
             d.yaml:3:9: `secure` is `yes`, expected true or false (write `true`)\n\
             d.yaml:4:7: `list` must be a list, found a value (write `list: [ … ]` or one `- …` a line)"
        );
    }

    #[test]
    fn empty_texts_are_values_unless_the_reader_says_otherwise() {
        let root = parse("d.yaml", b"name: \"\"\nport: ''\n").unwrap();
        let told = |reader: Reader| {
            let fields = reader.fields(&root, "");
            let name = fields.required("name");
            let port = fields.parsed::<u16>("port", "a port number");
            fields.finish();
            reader.finish((name, port)).map_err(|problems| problems.to_string())
        };
        assert_eq!(
            told(Reader::new("d.yaml", KEYS)),
            Err("d.yaml:2:7: `port` is ``, expected a port number".to_string())
        );
        assert_eq!(
            told(Reader::new("d.yaml", KEYS).empty_is_absent()),
            Err("d.yaml:1:1: `name` is missing".to_string())
        );
    }

    #[test]
    fn a_text_is_one_line_where_the_reader_says_so() {
        let root = parse("d.yaml", b"name: |\n  a\nlist: [\"b\\tc\", d]\n").unwrap();
        let told = |reader: Reader| {
            let fields = reader.fields(&root, "");
            let read = (fields.required("name"), fields.texts("list"));
            fields.finish();
            reader.finish(read).map_err(|problems| problems.to_string())
        };
        let texts = vec!["b\tc".to_string(), "d".to_string()];
        assert_eq!(told(Reader::new("d.yaml", KEYS)), Ok((Some("a\n".to_string()), texts)));
        let hint = "(write plain text on one line, without `|`, `>` and escapes)";
        assert_eq!(
            told(Reader::new("d.yaml", KEYS).one_line()),
            Err(format!(
                "d.yaml:2:3: `name` has the control character `\\n` {hint}\n\
                 d.yaml:3:8: `list` has the control character `\\t` {hint}"
            ))
        );
    }

    #[test]
    fn a_misspelt_key_hides_nothing_below_it() {
        let root =
            parse("d.yaml", b"name: x\nhotss:\n- {pi: 1}\n- {ip: 2, ipp: 3}\n- {}\nlists: one\n").unwrap();
        let reader = Reader::new("d.yaml", KEYS);
        let fields = reader.fields(&root, "");
        fields.required("name");
        fields.list("list");
        for (i, node) in fields.list("hosts").iter().enumerate() {
            let host = reader.fields(node, format!("hosts[{i}]"));
            host.required("ip");
            host.finish();
        }
        fields.finish();
        assert_eq!(
            reader.finish(()).unwrap_err().to_string(),
            "d.yaml:2:1: unknown key `hotss` (did you mean `hosts`?)\n\
             d.yaml:3:4: unknown key `hosts[0].pi` (did you mean `ip`?)\n\
             d.yaml:4:11: unknown key `hosts[1].ipp` (did you mean `ip`?)\n\
             d.yaml:5:3: `hosts[2].ip` is missing\n\
             d.yaml:6:1: unknown key `lists` (did you mean `list`?)\n\
             d.yaml:6:8: `list` must be a list, found a value (write `list: [ … ]` or one `- …` a line)"
        );
    }

    #[test]
    fn a_missing_colon_is_reported_where_yaml_does_not_mind() {
        let told = |text: &str| {
            let root = parse("d.yaml", text.as_bytes()).unwrap();
            let reader = Reader::new("d.yaml", KEYS);
            let fields = reader.fields(&root, "");
            for (i, node) in fields.list("hosts").iter().enumerate() {
                let host = reader.fields(node, format!("hosts[{i}]"));
                host.required("ip");
                host.finish();
            }
            fields.finish();
            reader.finish(()).unwrap_err().to_string()
        };
        let hint = "(no `:` behind `ip`)";
        assert_eq!(
            told("hosts:\n- ip 10.0.0.1\n"),
            format!(
                "d.yaml:2:3: `hosts[0]` must be a mapping, found a value {hint}\n\
                 d.yaml:2:3: `hosts[0].ip` is missing"
            )
        );
        assert!(
            told("hosts: [{ip 10.0.0.1}]\n").contains(&format!("unknown key `hosts[0].ip 10.0.0.1` {hint}"))
        );
        assert_eq!(
            told("port 22\n"),
            "d.yaml:1:1: the file must be a mapping, found a value (no `:` behind `port`)"
        );
        assert!(told("hosts {ip: 1}\n").contains("unknown key `hosts {ip` (no `:` behind `hosts`)"));
        assert!(told("just text\n").ends_with("found a value"));
    }
}
