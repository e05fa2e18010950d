//! Errors that a person can act on: a stable code for programs, a message, notes and one hint for people.
//! And how counts, sizes and foreign text are written in them. Nothing here prints, and nothing decides.

#![warn(unreachable_pub)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]

mod count;
mod printable;
mod report;
mod size;

pub use count::Count;
pub use printable::{is_obeyed, printable, printable_lines, printable_message};
pub use report::{Code, Exit, Explain, Report};
pub use size::{Rate, Size};
