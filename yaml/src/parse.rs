//! Text → [`Node`], with every limit a hostile file could test.

use crate::node::{Entry, Node, Value};
use crate::problem::{Problem, Problems};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

const MAX_BYTES: usize = 8 << 20;
const MAX_DEPTH: usize = 64;
/// Nodes of one file after aliases are expanded.
const MAX_NODES: usize = 500_000;
/// Bytes of text of one file after aliases are expanded.
const MAX_EXPANDED: usize = 4 * MAX_BYTES;

/// Parses a file that holds one document. `file` is only for messages.
pub fn parse(file: &str, bytes: &[u8]) -> Result<Node, Problems> {
    let mut documents = parse_all(file, bytes)?;
    let fail = |line, column, message: &str, hint: &str| Problems {
        file: file.to_string(),
        list: vec![Problem::new(line, column, message).hinted(hint)],
    };
    match documents.len() {
        0 => Err(fail(1, 1, "the file is empty", "it needs at least one key")),
        1 => Ok(documents.remove(0)),
        n => Err(fail(
            documents[1].line,
            documents[1].column,
            &format!("{n} documents in one file, expected one"),
            "remove the `---` line and what follows it",
        )),
    }
}

/// Parses a file of any number of documents; empty ones are left out.
pub fn parse_all(file: &str, bytes: &[u8]) -> Result<Vec<Node>, Problems> {
    let text = decode(bytes);
    let documents = text.and_then(|text| Loader::new(text).documents());
    documents.map_err(|problem| Problems { file: file.to_string(), list: vec![problem] })
}

fn decode(bytes: &[u8]) -> Result<&str, Problem> {
    if bytes.len() > MAX_BYTES {
        return Err(Problem::new(1, 1, format!("the file is larger than {} MiB", MAX_BYTES >> 20)));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|b| **b != b'\n').count();
        Problem::new(line, column, "the file is not UTF-8").hinted("save it as UTF-8")
    })
}

struct Loader<'a> {
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, (Node, Size)>,
    /// Of everything read so far.
    size: Size,
}

/// What nodes take, with all that is in them.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    nodes: usize,
    bytes: usize,
}

impl<'a> Loader<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, parser: Parser::new_from_str(text), anchors: HashMap::new(), size: Size::default() }
    }

    fn documents(&mut self) -> Result<Vec<Node>, Problem> {
        let mut documents = Vec::new();
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(documents),
                Event::DocumentStart(_) => {
                    let (event, span) = self.next()?;
                    let node = self.node(event, span, 0)?;
                    if !node.is_null() {
                        documents.push(node);
                    }
                    self.anchors.clear();
                }
                Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
                _ => return Err(problem(span, "content outside of a document")),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Problem> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.scan_problem(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn scan_problem(&self, error: &saphyr_parser::ScanError) -> Problem {
        let marker = error.marker();
        if error.info() == "recursion limit exceeded" {
            // The scanner's own bound on flow collections, which is above ours.
            let message = format!("nested deeper than {MAX_DEPTH} levels");
            return Problem::new(marker.line(), marker.col() + 1, message);
        }
        let problem = Problem::new(marker.line(), marker.col() + 1, error.info());
        let line = self.text.lines().nth(marker.line().saturating_sub(1)).unwrap_or("");
        let indent = &line[..line.len() - line.trim_start().len()];
        if indent.contains('\t') {
            return problem.hinted("YAML does not allow tabs for indentation: use spaces");
        }
        let said = marker.line().saturating_sub(2);
        let lines = self.text.lines().enumerate().skip(said).take(marker.line() - said);
        let unspaced = lines.filter_map(|(number, line)| without_space(number + 1, line)).last();
        let missing = || self.missing_colon(error.info(), marker.line(), line.chars().take(marker.col()));
        crate::slashes::in_broken_text(self.text).or(unspaced).or_else(missing).unwrap_or(problem)
    }

    /// A key without its colon is a text to YAML, which complains only where the next key begins.
    /// Where it complains about a second `:` of that key's line (`before` has the first one), the lines above are innocent.
    fn missing_colon(
        &self,
        said: &str,
        line: usize,
        mut before: impl Iterator<Item = char>,
    ) -> Option<Problem> {
        if !["simple key expect ':'", "mapping values are not allowed in this context"].contains(&said)
            || before.any(|character| character == ':')
        {
            return None;
        }
        let above = self.text.lines().enumerate().take(line.saturating_sub(1));
        let (number, line) = above.filter(|(_, line)| !is_blank(line)).last()?;
        without_colon(number + 1, line)
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Problem> {
        let before = self.size;
        self.count(Size { nodes: 1, bytes: 0 }, span)?;
        if depth > MAX_DEPTH {
            return Err(problem(span, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                check_tag(&tag, span)?;
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let text = text.into_owned();
                self.count(Size { nodes: 0, bytes: text.len() }, span)?;
                (Value::Scalar { text, plain }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                check_tag(&tag, span)?;
                (self.sequence(depth)?, anchor)
            }
            Event::MappingStart(anchor, tag) => {
                check_tag(&tag, span)?;
                (self.mapping(depth)?, anchor)
            }
            Event::Alias(id) => {
                let itself = || problem(span, "an alias that contains itself");
                let size = self.anchors.get(&id).ok_or_else(itself)?.1;
                self.count(size, span)?;
                let value = self.anchors.get(&id).ok_or_else(itself)?.0.value.clone();
                return Ok(Node { value, ..at(span) });
            }
            _ => return Err(problem(span, "the document ends too early")),
        };
        let node = Node { value, ..at(span) };
        if anchor != 0 {
            let size = Size { nodes: self.size.nodes - before.nodes, bytes: self.size.bytes - before.bytes };
            // The copy kept for aliases counts as well: it takes the same memory.
            self.count(size, span)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok(node)
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut nodes = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::Sequence(nodes));
            }
            nodes.push(self.node(event, span, depth + 1)?);
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut lines: HashMap<String, usize> = HashMap::new();
        let mut merged = Merged::default();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let key = self.node(event, span, depth + 1)?;
            let Value::Scalar { text, plain } = key.value else {
                return Err(problem(span, "a key must be a plain word")
                    .hinted("quote values that start with `{` or `[`"));
            };
            let (event, value_span) = self.next()?;
            let node = self.node(event, value_span, depth + 1)?;
            if plain && text == "<<" {
                merged.add(node)?;
                continue;
            }
            if let Some(first) = lines.insert(text.clone(), key.line) {
                let message = format!("key `{text}` is listed a second time; the first is on line {first}");
                return Err(problem(span, message));
            }
            entries.push(Entry { key: text, line: key.line, column: key.column, node });
        }
        entries.extend(merged.entries.into_iter().filter(|entry| !lines.contains_key(&entry.key)));
        Ok(Value::Mapping(entries))
    }

    fn count(&mut self, more: Size, span: Span) -> Result<(), Problem> {
        self.size.nodes = self.size.nodes.saturating_add(more.nodes);
        self.size.bytes = self.size.bytes.saturating_add(more.bytes);
        if self.size.nodes > MAX_NODES || self.size.bytes > MAX_EXPANDED {
            return Err(problem(span, "the file grows too large when its aliases are expanded"));
        }
        Ok(())
    }
}

/// `runtime:docker` is one word to YAML, which then complains about what follows.
fn without_space(number: usize, line: &str) -> Option<Problem> {
    let (column, pair) = pair(line);
    let (key, value) = pair.split_once(':')?;
    if !is_key(key) || value.is_empty() || value.starts_with([' ', '\t', '/']) {
        return None;
    }
    let problem = Problem::new(number, column, format!("no space behind `{key}:`"));
    Some(problem.hinted(format!("write `{key}: {value}`")))
}

/// `runtime docker`, or `network` above what belongs to it.
fn without_colon(number: usize, line: &str) -> Option<Problem> {
    let (column, pair) = pair(line);
    let (key, value) = pair.split_once(' ').unwrap_or((pair, ""));
    if !is_key(key) || pair.ends_with(':') || pair.contains(": ") {
        return None;
    }
    let problem = Problem::new(number, column, format!("no `:` behind `{key}`"));
    Some(problem.hinted(format!("write `{}`", format!("{key}: {}", value.trim()).trim_end())))
}

/// A line's key and value, without what is before them, and the column where they begin.
fn pair(line: &str) -> (usize, &str) {
    let pair = line.trim_start_matches([' ', '-']);
    (line.len() - pair.len() + 1, pair.trim_end())
}

fn is_key(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

fn is_blank(line: &str) -> bool {
    let text = line.trim();
    text.is_empty() || text.starts_with('#')
}

/// What `<<: *anchor` or `<<: [*a, *b]` add: earlier mappings win.
#[derive(Default)]
struct Merged {
    entries: Vec<Entry>,
    keys: HashSet<String>,
}

impl Merged {
    fn add(&mut self, node: Node) -> Result<(), Problem> {
        let bad = Problem::new(node.line, node.column, "`<<` merges a mapping or a list of mappings");
        match node.value {
            Value::Mapping(entries) => {
                self.entries.extend(entries.into_iter().filter(|entry| self.keys.insert(entry.key.clone())));
                Ok(())
            }
            Value::Sequence(nodes) => nodes.into_iter().try_for_each(|node| match node.value {
                Value::Mapping(_) => self.add(node),
                _ => Err(bad.clone()),
            }),
            Value::Scalar { .. } => Err(bad),
        }
    }
}

/// YAML's own types, which at most say what a value looks like anyway.
const TAGS: [&str; 9] = ["str", "int", "float", "bool", "null", "seq", "map", "binary", "timestamp"];

fn check_tag(tag: &Option<Cow<'_, Tag>>, span: Span) -> Result<(), Problem> {
    let Some(tag) = tag else { return Ok(()) };
    // A lone `!` says "not a plain scalar" and names no type.
    let lone = tag.handle.is_empty() && tag.suffix == "!";
    if lone || (tag.is_yaml_core_schema() && TAGS.contains(&tag.suffix.as_str())) {
        return Ok(());
    }
    let shown = match tag.is_yaml_core_schema() {
        true => format!("!!{}", tag.suffix),
        false => tag.to_string(),
    };
    Err(problem(span, format!("tag `{shown}` is not allowed")).hinted("write the value without a tag"))
}

fn at(span: Span) -> Node {
    Node { value: Value::Sequence(Vec::new()), line: span.start.line(), column: span.start.col() + 1 }
}

fn problem(span: Span, message: impl Into<String>) -> Problem {
    Problem::new(span.start.line(), span.start.col() + 1, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse("f.yaml", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn nodes_know_their_place() {
        let node = parse("f", b"\xef\xbb\xbfa: 1\r\nb:\r\n  - x\r\n  - \"~\"\r\n").unwrap();
        let list = node.get("b").unwrap().as_sequence().unwrap();
        assert_eq!((list[1].line, list[1].column), (4, 5));
        assert_eq!(list[1].as_str(), Some("~"), "a quoted tilde is a string");
        assert_eq!(node.get("a").unwrap().as_str(), Some("1"));
    }

    #[test]
    fn refuses_with_line_and_reason() {
        assert!(
            refused("a: 1\nb: 2\na: 3\n")
                .starts_with("f.yaml:3:1: key `a` is listed a second time; the first is on line 1")
        );
        assert!(refused("a: 1\n---\nb: 2\n").starts_with("f.yaml:3:1: 2 documents"));
        assert!(refused("").contains("the file is empty"));
        assert!(refused("a:\n\tb: 1\n").contains("use spaces"));
        assert!(refused("a: !!python/object:x {}\n").contains("tag `!!python/object:x` is not allowed"));
        assert_eq!(
            refused("a: x\nruntime:docker\nb: 1\n"),
            "f.yaml:2:1: no space behind `runtime:` (write `runtime: docker`)"
        );
        assert!(refused("m:\n- name:m\n  ip: 10.0.0.1\n").contains("f.yaml:2:3: no space behind `name:`"));
        assert_eq!(
            refused("a: x\npause-image  10.0.0.1/pause:3\n# more\n\nb: 1\n"),
            "f.yaml:2:1: no `:` behind `pause-image` (write `pause-image: 10.0.0.1/pause:3`)"
        );
        assert!(refused("m:\n- name m\n  ip: 1\n").contains("f.yaml:2:3: no `:` behind `name`"));
        assert!(refused("network\n  podcidr: x\n").contains("f.yaml:1:1: no `:` behind `network`"));
        assert!(refused("a: 1\nlast x\n").contains("f.yaml:2:1: no `:` behind `last`"));
        assert!(refused("a: b: c\n").contains("not allowed in this context"));
        assert!(refused("a:\n- calico\nb: c: d\n").starts_with("f.yaml:3:"), "the list above is innocent");
        assert!(refused("a: !x {}\n").contains("tag `!x` is not allowed"));
        assert_eq!(parse("f", b"a: !!str 1\n").unwrap().get("a").unwrap().as_str(), Some("1"));
    }

    #[test]
    fn bombs_are_refused_quickly() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..12 {
            let p = i - 1;
            bomb.push_str(&format!("a{i}: &a{i} [*a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}]\n"));
        }
        assert!(refused(&bomb).contains("too large"));
        assert!(refused(&"[".repeat(5000)).contains("deeper"));
        assert!(parse("f", b"a: &a [*a]\n").is_err());
    }

    #[test]
    fn bombs_of_few_nodes_and_much_text_are_refused() {
        let text = "x".repeat(2 << 20);
        let list = |aliases| format!("a: &a \"{text}\"\nb: [{}]\n", vec!["*a"; aliases].join(", "));
        assert!(refused(&list(10_000)).contains("too large when its aliases are expanded"));
        assert!(parse("f", list(2).as_bytes()).is_ok());
        let keys = format!("a: &a {{\"{text}\": 1}}\nb: [{}]\n", vec!["*a"; 20].join(", "));
        assert!(refused(&keys).contains("too large"));
    }

    #[test]
    fn many_merged_keys_take_linear_time() {
        let keys: String = (0..60_000).map(|number| format!("  k{number}: v\n")).collect();
        let started = std::time::Instant::now();
        let node = parse("f", format!("base: &b\n{keys}real:\n  <<: *b\n").as_bytes()).unwrap();
        assert!(
            matches!(&node.get("real").unwrap().value, Value::Mapping(entries) if entries.len() == 60_000)
        );
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    #[test]
    fn merge_keys_fill_in_what_is_missing() {
        let node = parse("f", b"base: &b {x: 1, y: 2}\nreal: {<<: *b, y: 3}\n").unwrap();
        let real = node.get("real").unwrap();
        assert_eq!(real.get("x").unwrap().as_str(), Some("1"));
        assert_eq!(real.get("y").unwrap().as_str(), Some("3"));
    }
}
