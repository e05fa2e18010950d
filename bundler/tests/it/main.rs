//! The bundler against a server that misbehaves on purpose, and its command line as people see it.

mod build;
mod cli;
mod http;
mod server;
mod world;
