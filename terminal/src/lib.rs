//! What a person sees of either program: errors with hints and exit codes, tables,
//! sizes, progress, questions; and what both do first. Nothing of them writes to stdout or stderr but through here. No logic of bundles or hosts, and no decision, lives here.

#![warn(unreachable_pub)]

mod bars;
mod dumps;
mod lookups;
mod questions;
mod screen;
mod table;
mod watch;

pub use bars::{Bar, Bars};
pub use dumps::keep_memory_inside;
pub use eggo_errors::{
    Code, Count, Exit, Explain, Rate, Report, Size, is_obeyed, printable, printable_lines, printable_message,
};
pub use lookups::keep_lookups_inside;
pub use questions::{can_ask, hidden, is_asking, yes};
pub use screen::{Log, is_watched, print, print_bytes, print_json, print_json_line, say, show};
pub use table::Table;
pub use watch::{Loudness, Watch};
