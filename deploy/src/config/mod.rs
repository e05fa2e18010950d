//! deploy.yaml: what the user wants.
//!
//! [`Config`] is the normalised form of all generations of the file: one [`Host`] per
//! address with the set of its roles, defaults filled in, aliases resolved. The rest of
//! the program never asks which generation a file was written for.
//!
//! Nothing here touches a node, a bundle or, apart from reading the file itself, a disk.

mod address;
mod control_plane;
pub mod defaults;
mod extras;
mod hosts;
mod install;
mod keys;
mod load;
mod model;
mod names;
mod networks;
pub mod proxy;
mod runtime;
mod secret;
mod template;
mod values;
mod warnings;
mod way;

pub use address::{Cidr, Endpoint};
pub use keys::KEYS;
pub use load::{LoadError, Loaded, load, parse};
pub use model::{
    Addon, ApiServer, Choice, Component, Config, Content, Dns, DnsKind, Etcd, ExternalEtcd, Hook, Host, Item,
    ItemKind, Login, Network, Port, Protocol, Sans, Schedule, Section, Service,
};
pub use secret::Secret;
pub use template::{BadHostWord, HostWord, Template};
pub use way::{HostKey, Jump, KeyPlace};
