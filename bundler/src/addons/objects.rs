//! Walks Kubernetes objects and tells pod specs from everything else.

use super::machines;
use super::text::{self, Trust};
use super::{Discovery, Mention, Place, Unfilled};
use crate::images::{BadReference, Reference};
use eggo_bundles::Arch;
use eggo_yaml::{Entry, Node, Value};

/// The lists of containers in a pod spec.
const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// Groups of Kubernetes itself; `*.k8s.io` are its own too, its sub-projects' CRDs among them.
const BUILT_IN_GROUPS: [&str; 5] = ["apps", "batch", "autoscaling", "policy", "extensions"];

type Bad = (usize, BadReference);

pub(super) fn read(object: &Node, found: &mut Discovery) -> Result<(), Bad> {
    let text = |key: &str| object.get(key).and_then(Node::as_str).unwrap_or("");
    let kind = text("kind");
    if let (true, Some(items)) = (kind.ends_with("List"), object.get("items").and_then(Node::as_sequence)) {
        return items.iter().try_for_each(|item| read(item, found));
    }
    let class = match kind {
        // Its schema talks about images in examples and descriptions.
        "CustomResourceDefinition" => return Ok(()),
        "ConfigMap" | "Secret" => Class::ConfigMap,
        _ if is_built_in(text("apiVersion")) => Class::BuiltIn,
        _ => Class::Custom,
    };
    let mut walk = Walk { class, archs: Arch::ALL.to_vec(), found };
    for entry in object.as_mapping().unwrap_or_default() {
        match entry.key.as_str() {
            // What the cluster writes, and what it writes about what we wrote.
            "status" => {}
            "metadata" => walk.node(&entry.node, &Spot { place: Place::Metadata, image_key: false })?,
            // A secret's data is base64 and nobody's business.
            "data" if kind == "Secret" => {}
            _ => walk.entry(entry, &Spot { place: class.place(), image_key: false })?,
        }
    }
    Ok(())
}

fn is_built_in(api_version: &str) -> bool {
    match api_version.split_once('/') {
        None => true,
        Some((group, _)) => BUILT_IN_GROUPS.contains(&group) || group.ends_with(".k8s.io"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    BuiltIn,
    ConfigMap,
    Custom,
}

impl Class {
    fn place(self) -> Place {
        match self {
            Self::BuiltIn => Place::Other,
            Self::ConfigMap => Place::ConfigMap,
            Self::Custom => Place::CustomResource,
        }
    }
}

/// Where a value stands: the place to report, and whether what names it speaks of images.
struct Spot {
    place: Place,
    image_key: bool,
}

struct Walk<'a> {
    class: Class,
    /// Of the pod spec around.
    archs: Vec<Arch>,
    found: &'a mut Discovery,
}

impl Walk<'_> {
    fn node(&mut self, node: &Node, spot: &Spot) -> Result<(), Bad> {
        match &node.value {
            Value::Scalar { .. } => {
                if let Some(scalar) = node.as_str() {
                    self.scalar(scalar, node.line, spot);
                }
                Ok(())
            }
            Value::Sequence(items) => {
                let mut flag_speaks = false;
                for item in items {
                    // `--image`, then its value as the next argument.
                    let image_key = spot.image_key || flag_speaks;
                    let written = item.as_str().unwrap_or("");
                    flag_speaks =
                        written.starts_with('-') && !written.contains('=') && speaks_of_image(written);
                    self.node(item, &Spot { place: spot.place, image_key })?;
                }
                Ok(())
            }
            Value::Mapping(entries) => {
                let is_pod = self.class != Class::ConfigMap
                    && spot.place != Place::Metadata
                    && CONTAINER_LISTS.iter().any(|list| node.get(list).is_some());
                let around = self.archs.clone();
                if is_pod {
                    self.archs = machines::archs(node);
                }
                self.split_reference(entries, spot);
                let walked = entries.iter().try_for_each(|entry| self.entry(entry, spot));
                self.archs = around;
                walked
            }
        }
    }

    fn entry(&mut self, entry: &Entry, spot: &Spot) -> Result<(), Bad> {
        let Entry { key, node, .. } = entry;
        let in_object = self.class != Class::ConfigMap && spot.place != Place::Metadata;
        if in_object && CONTAINER_LISTS.contains(&key.as_str()) {
            return self.containers(node, spot);
        }
        if in_object && key == "volumes" {
            return self.volumes(node, spot);
        }
        // A custom resource's own `image:` is meant as one, if it looks like one.
        if self.class == Class::Custom
            && in_object
            && key == "image"
            && let Some(text) = node.as_str()
            && let Some(reference) = text::whole(text)
        {
            self.image(reference, node.line);
            return Ok(());
        }
        // The whole object again, as text.
        if key == "kubectl.kubernetes.io/last-applied-configuration" {
            return Ok(());
        }
        let image_key = speaks_of_image(key);
        self.node(node, &Spot { place: spot.place, image_key })
    }

    fn containers(&mut self, list: &Node, spot: &Spot) -> Result<(), Bad> {
        let Some(containers) = list.as_sequence() else { return self.node(list, spot) };
        for container in containers {
            let Some(entries) = container.as_mapping() else {
                self.node(container, spot)?;
                continue;
            };
            for entry in entries {
                let place = |place| Spot { place, image_key: false };
                match entry.key.as_str() {
                    "image" => self.image_field(&entry.node)?,
                    "args" | "command" => self.node(&entry.node, &place(Place::Args))?,
                    "env" => self.environment(&entry.node)?,
                    _ => self.entry(entry, spot)?,
                }
            }
        }
        Ok(())
    }

    /// An image can be mounted as a volume too.
    fn volumes(&mut self, list: &Node, spot: &Spot) -> Result<(), Bad> {
        for volume in list.as_sequence().unwrap_or_default() {
            match volume.get("image").and_then(|image| image.get("reference")) {
                Some(reference) => self.image_field(reference)?,
                None => self.node(volume, spot)?,
            }
        }
        Ok(())
    }

    fn environment(&mut self, list: &Node) -> Result<(), Bad> {
        for variable in list.as_sequence().unwrap_or_default() {
            let name = variable.get("name").and_then(Node::as_str).unwrap_or("");
            if let Some(value) = variable.get("value") {
                self.node(value, &Spot { place: Place::Env, image_key: speaks_of_image(name) })?;
            }
        }
        Ok(())
    }

    fn image_field(&mut self, node: &Node) -> Result<(), Bad> {
        let Some(text) = node.as_str() else { return Ok(()) };
        // `auto` is what Istio's webhook fills in.
        if text.trim().is_empty() || text == "auto" || text::has_template(text) {
            self.found.unfilled.push(Unfilled { text: text.to_string(), line: node.line });
            return Ok(());
        }
        let reference = text.trim().parse::<Reference>().map_err(|error| (node.line, error))?;
        self.image(reference, node.line);
        Ok(())
    }

    fn image(&mut self, reference: Reference, line: usize) {
        let archs = self.archs.clone();
        self.found.images.push(Mention { reference, line, place: Place::Image, archs });
    }

    fn scalar(&mut self, text: &str, line: usize, spot: &Spot) {
        let trust = if spot.image_key { Trust::NamedImage } else { Trust::Anywhere };
        for (offset, reference) in text::references(text, trust) {
            let line = line + offset;
            self.possible(reference, line, spot.place);
        }
    }

    fn possible(&mut self, reference: Reference, line: usize, place: Place) {
        let archs = self.archs.clone();
        self.found.possible.push(Mention { reference, line, place, archs });
    }

    /// `{registry: r, repository: a/b, tag: "1"}`, as charts and operators like it.
    fn split_reference(&mut self, entries: &[Entry], spot: &Spot) {
        let get = |keys: &[&str]| {
            let entry = entries.iter().find(|entry| keys.contains(&entry.key.as_str()))?;
            Some((entry.node.as_str()?, entry.node.line))
        };
        let Some((repository, line)) = get(&["repository", "image"]) else { return };
        let registry = get(&["registry"]).map(|(text, _)| format!("{text}/")).unwrap_or_default();
        let tag = get(&["tag", "version"]).map(|(text, _)| format!(":{text}")).unwrap_or_default();
        let digest = get(&["digest", "sha"]).map(|(text, _)| {
            let text = text.trim_start_matches("sha256:");
            format!("@sha256:{text}")
        });
        let digest = digest.unwrap_or_default();
        if (tag.is_empty() && digest.is_empty()) || repository.contains([':', '@']) {
            return;
        }
        if let Some(reference) = text::whole(&format!("{registry}{repository}{tag}{digest}")) {
            self.possible(reference, line, spot.place);
        }
    }
}

/// Does this key, flag or variable name an image? Not its pull policy or secrets.
fn speaks_of_image(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("image") && !name.contains("pull") && !name.contains("policy") && !name.contains("secret")
}
