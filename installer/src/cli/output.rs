//! Printing data: JSON for programs, text for people; and what is said beside it.

pub use eggo_terminal::{print as text_out, print_bytes as bytes, print_json as json, say, show};
