//! Builds bundles: manifest → lock → fetch → index → seal → write.

pub mod addons;
pub mod archive;
pub mod cache;
pub mod http;
pub mod images;
pub mod lock;
pub mod manifest;
pub mod packages;

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
