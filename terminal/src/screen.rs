//! The one way to stdout and stderr. What is printed may come from a node, a bundle or a file, so everything is made
//! printable here, where it cannot be forgotten; a test keeps every other way shut.

use crate::{Report, is_obeyed, printable_lines, printable_message};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, IsTerminal as _, Write as _};

/// Whether a person sees what goes to stderr.
pub fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Text for people, to stdout.
pub fn print(text: &str) -> Result<(), Report> {
    print_bytes(printable_lines(text).as_bytes())
}

/// For programs: as JSON, to stdout.
pub fn print_json(value: &impl Serialize) -> Result<(), Report> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Report::new(format!("cannot print as JSON: {error}")))?;
    print_bytes(format!("{}\n", printable_json(&text)).as_bytes())
}

/// One line of JSON, to stdout.
pub fn print_json_line(value: &impl Serialize) -> Result<(), Report> {
    let text = serde_json::to_string(value)
        .map_err(|error| Report::new(format!("cannot print as JSON: {error}")))?;
    print_bytes(format!("{}\n", printable_json(&text)).as_bytes())
}

/// Data as it is, to stdout; a terminal gets it printable. A reader that has seen enough (`| head`) is no error.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Report> {
    let mut stdout = io::stdout().lock();
    let written = match stdout.is_terminal() {
        true => stdout.write_all(printable_lines(&String::from_utf8_lossy(bytes)).as_bytes()),
        false => stdout.write_all(bytes),
    };
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Report::new(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// A message, to stderr. What follows its first line is indented.
pub fn say(message: impl Display) {
    write_line(&printable_message(&message.to_string()));
}

/// Lines that belong together, to stderr: a table, an error with its notes.
pub fn show(lines: impl Display) {
    write_line(&printable_lines(&lines.to_string()));
}

/// Where nobody is left to read it, the work goes on and ends with the exit code that it has.
fn write_line(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A question to a person, on stderr; the answer is read by the caller.
pub(crate) fn put_question(question: &str) {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{}", printable_lines(question));
    let _ = stderr.flush();
}

/// Where log lines go.
#[derive(Debug, Clone, Copy, Default)]
pub struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        say(String::from_utf8_lossy(bytes).trim_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// JSON escapes some control characters itself; the others can only be inside of its strings.
fn printable_json(json: &str) -> Cow<'_, str> {
    let obeyed = |c| is_obeyed(c) && c != '\n';
    if !json.contains(obeyed) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        match obeyed(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                write!(shown, "\\u{unit:04x}").expect("writing to memory does not fail");
            }),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_the_same_without_what_a_terminal_obeys() {
        let value = "a\u{1b}\u{9b}\u{202e}\u{feff}\u{e0041}\n é 日";
        let text = serde_json::to_string(value).unwrap();
        let shown = printable_json(&text);
        assert_eq!(shown, r#""a\u001b\u009b\u202e\ufeff\udb40\udc41\n é 日""#);
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), value);
    }
}
