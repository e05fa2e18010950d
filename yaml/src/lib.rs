//! YAML that people write by hand.
//!
//! [`parse`] and [`parse_all`] turn text into [`Node`]s that know their line; [`Fields`]
//! reads a mapping's known keys and turns what is left over into problems that name the
//! nearest known key. All problems of a file are collected, not just the first. A file's
//! [`Key`]s are in a table, from which its reference and its JSON schema are made.
//!
//! Hostile files cost little: size, depth and the number of nodes after alias expansion
//! are bounded, tags other than YAML's own are refused.

#![warn(unreachable_pub)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]

mod fields;
mod keys;
mod node;
mod parse;
mod problem;
mod schema;
mod slashes;

pub use fields::{Fields, Reader};
pub use keys::{Key, Shape, key, required};
pub use node::{Entry, Node, Value};
pub use parse::{parse, parse_all};
pub use problem::{Problem, Problems, nearest};
pub use schema::{json_schema, markdown};
pub use slashes::slash_comments;
