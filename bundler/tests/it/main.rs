//! The bundler against a server that misbehaves on purpose, and its command line as people see it.

mod build;
mod cli;
mod deltas;
mod http;
mod links;
mod packages;
mod places;
mod server;
mod world;
