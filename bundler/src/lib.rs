//! Builds bundles: manifest → lock → fetch → index → seal → write.

pub mod packages;
