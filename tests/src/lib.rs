//! What tests across the two programs share: real hosts to work on.
//!
//! No test lives here, and nothing that a program needs at run time.

pub mod lab;
pub mod parcel;
pub mod readme;
pub mod ready;
pub mod site;
pub mod terminal;
pub mod user;
