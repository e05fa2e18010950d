//! Printing data: JSON for programs, text for people; and what is said beside it.

use eggo_terminal::Report;
use serde::Serialize;
use std::io::{self, Write};

pub fn json(value: &impl Serialize) -> Result<(), Report> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Report::new(error.to_string()))?;
    text_out(&format!("{text}\n"))
}

/// To stdout; a reader that has seen enough (`| head`) is not an error.
pub fn text_out(text: &str) -> Result<(), Report> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Report::new(format!("cannot write the result: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// To stderr. Where nobody is left to read it, the work goes on and ends with the exit code that it has.
pub fn say(line: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
