//! Builds bundles: manifest → lock → fetch → index → seal → write.

#![warn(unreachable_pub)]

pub mod addons;
pub mod archive;
pub mod beneath;
pub mod build;
pub mod cache;
pub mod check;
pub mod cli;
pub mod contents;
pub mod eggo;
pub mod error;
pub mod fetch;
pub mod files;
pub mod foreign;
pub mod http;
pub mod images;
pub mod index;
pub mod lock;
pub mod manifest;
pub mod packages;
pub mod publish;
pub mod reach;
pub mod resolve;
pub mod wanted;
pub mod why;

use cache::Cache;
use eggo_bundles::progress::Progress;
use http::Http;

/// What every step that fetches works with.
#[derive(Clone, Copy)]
pub struct Tools<'a> {
    pub http: &'a Http,
    pub cache: &'a Cache,
    pub progress: &'a dyn Progress,
}
