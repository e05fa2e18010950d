//! The images of the bundle that each node was given last. `status` compares them with what its runtime has.

use super::{Folder, Name, State};
use eggo_bundles::Image;
use eggo_errors::Report;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// By the names of nodes.
pub type NodeImages = BTreeMap<String, Vec<Arc<Image>>>;

/// Keeps them, in place of those before.
pub fn save_images(state: &Path, images: &NodeImages) -> Result<(), Report> {
    let plain: BTreeMap<&String, Vec<&Image>> =
        images.iter().map(|(node, images)| (node, images.iter().map(|image| &**image).collect())).collect();
    let text = serde_json::to_vec_pretty(&plain).map_err(|error| Report::new(error.to_string()))?;
    let (state, name) = (Folder::new(state), Name::Images);
    let path = state.path(&name);
    let failed = |error| Report::new(format!("cannot write `{}`: {error}", path.display()));
    state.put(&name, &text).map_err(failed)
}

/// Without an install that kept them: of no node.
pub fn images(state: &Path) -> Result<NodeImages, Report> {
    let (state, name) = (Folder::new(state), Name::Images);
    let path = state.path(&name);
    let failed = |error: io::Error| Report::new(format!("cannot read `{}`: {error}", path.display()));
    let Some(text) = state.get(&name).map_err(failed)? else { return Ok(NodeImages::new()) };
    let plain: BTreeMap<String, Vec<Image>> =
        serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
    Ok(plain.into_iter().map(|(node, images)| (node, images.into_iter().map(Arc::new).collect())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use eggo_bundles::{Arch, Digest};

    #[test]
    fn what_was_kept_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(images(folder.path()).unwrap(), NodeImages::new());
        let image = Image {
            name: "docker.io/library/busybox:1.35".into(),
            arch: Arch::Amd64,
            manifest: Digest::of(b"manifest"),
            media_type: "application/vnd.oci.image.manifest.v1+json".into(),
            config: Digest::of(b"config"),
            layers: vec![Digest::of(b"layer")],
            roles: vec![],
        };
        let kept = NodeImages::from([("w".to_string(), vec![Arc::new(image)]), ("m".to_string(), vec![])]);
        save_images(folder.path(), &kept).unwrap();
        assert_eq!(images(folder.path()).unwrap(), kept);
        std::fs::write(folder.path().join("images.json"), "{").unwrap();
        assert!(images(folder.path()).unwrap_err().message.starts_with("cannot read"));
    }
}
