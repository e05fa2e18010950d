//! The bundler against a server that misbehaves on purpose, and its command line as people see it.

mod build;
mod cli;
mod deltas;
mod http;
mod interrupted;
mod links;
mod packages;
mod places;
mod results;
mod server;
mod trust;
mod world;
