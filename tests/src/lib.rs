//! What tests across the two programs share: real hosts to work on, and the source as a graph.
//!
//! No test of the programs lives here, and nothing that a program needs at run time.

pub mod expired;
pub mod foreign;
pub mod lab;
pub mod modules;
pub mod parcel;
pub mod readme;
pub mod ready;
pub mod site;
pub mod terminal;
pub mod user;
