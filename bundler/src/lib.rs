//! Builds bundles: manifest → lock → fetch → index → seal → write.
