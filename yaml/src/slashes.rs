//! `//` comments, which many manuals print after values and YAML does not know.
//!
//! In a block the text becomes part of the value; after a key that opens a list or a
//! mapping it makes the file unreadable. Both deserve better words than the parser's.

use crate::node::{Node, Value};
use crate::problem::Problem;

const HINT: &str = "YAML comments start with `#`: write ` #` in place of ` //`";

/// A problem for every unquoted value that ends in ` // text`.
pub fn slash_comments(root: &Node) -> Vec<Problem> {
    let mut problems = Vec::new();
    collect(root, &mut problems);
    problems
}

fn collect(node: &Node, problems: &mut Vec<Problem>) {
    match &node.value {
        Value::Scalar { text, plain: true } => {
            if let Some(at) = comment(text) {
                let comment = text[at..].split_whitespace().collect::<Vec<_>>().join(" ");
                let message = format!("`{comment}` is part of the value here, not a comment");
                problems.push(Problem::new(node.line, node.column, message).hinted(HINT));
            }
        }
        Value::Scalar { .. } => {}
        Value::Sequence(nodes) => nodes.iter().for_each(|node| collect(node, problems)),
        Value::Mapping(entries) => entries.iter().for_each(|entry| collect(&entry.node, problems)),
    }
}

/// For a text that does not parse: one problem that names every line with a ` //` outside of
/// quotes and `#` comments, if there are any.
pub(crate) fn in_broken_text(text: &str) -> Option<Problem> {
    let found: Vec<(usize, usize)> = text
        .lines()
        .enumerate()
        .filter_map(|(i, line)| Some((i + 1, line[..unquoted_comment(line)?].chars().count() + 1)))
        .collect();
    let (&(line, column), others) = found.split_first()?;
    let message = match others {
        [] => "`//` does not start a comment in YAML".to_string(),
        others => {
            let mut lines: Vec<String> = others.iter().take(8).map(|(line, _)| line.to_string()).collect();
            if others.len() > 8 {
                lines.push(format!("… ({} lines in all)", found.len()));
            }
            format!("`//` does not start a comment in YAML; it is also on line {}", lines.join(", "))
        }
    };
    Some(Problem::new(line, column, message).hinted(HINT))
}

/// Where ` //` begins in an unquoted value. `https://…` has no space before its slashes.
fn comment(text: &str) -> Option<usize> {
    text.match_indices("//").map(|(at, _)| at).find(|at| text[..*at].ends_with([' ', '\t', '\n']))
}

fn unquoted_comment(line: &str) -> Option<usize> {
    let mut quote = None;
    let mut previous = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') if previous.is_whitespace() => return None,
            (None, '/') if previous.is_whitespace() && line[at..].starts_with("//") => return Some(at),
            _ => {}
        }
        previous = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn values_that_end_in_a_slash_comment_are_named() {
        let text = "a: x   // the   name\nb: https://host//path\nc: \"x // y\"\nd: [1, 2 // two\n  ]\ne: x # // fine\n";
        let problems = slash_comments(&parse("f", text.as_bytes()).unwrap());
        let found: Vec<_> = problems.iter().map(|p| (p.line, p.message.as_str())).collect();
        assert_eq!(
            found,
            [
                (1, "`// the name` is part of the value here, not a comment"),
                (4, "`// two` is part of the value here, not a comment"),
            ]
        );
    }

    #[test]
    fn a_file_that_they_break_names_their_lines() {
        let error = parse("f", b"a: x // one\nlist:   // two\n- y\n# // fine\nb: '// fine'\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "f:1:6: `//` does not start a comment in YAML; it is also on line 2 \
             (YAML comments start with `#`: write ` #` in place of ` //`)"
        );
    }
}
