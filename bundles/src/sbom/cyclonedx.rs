//! CycloneDX 1.5, JSON.

use super::{Component, components, purl};
use crate::Digest;
use crate::index::{Image, Index, Item, Kind};
use serde_json::{Value, json};

/// A CycloneDX document of everything that the index lists.
pub fn cyclonedx(index: &Index) -> Vec<u8> {
    let listed: Vec<Value> = components(index)
        .iter()
        .enumerate()
        .map(|(number, component)| match component {
            Component::Item(item) => item_component(number + 1, item),
            Component::Image(image) => image_component(number + 1, image),
        })
        .collect();
    let references: Vec<&Value> = listed.iter().map(|component| &component["bom-ref"]).collect();
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": serial(&Digest::of(&index.full().to_bytes())),
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "eggo-bundle"}]},
            "component": {
                "type": "application",
                "bom-ref": "bundle",
                "name": index.name,
                "version": index.version,
            },
        },
        "components": listed,
        "dependencies": [{"ref": "bundle", "dependsOn": references}],
    });
    let mut bytes = serde_json::to_vec_pretty(&document).expect("JSON values serialise");
    bytes.push(b'\n');
    bytes
}

/// A version-8 UUID out of the index's digest: the same index, the same serial number.
fn serial(digest: &Digest) -> String {
    let mut bytes: [u8; 16] = *digest.as_bytes().first_chunk().expect("a digest is longer");
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(bytes);
    format!("urn:uuid:{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn component(number: usize, kind: &str, name: &str, version: &str, digest: Digest) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": format!("component-{number}"),
        "name": name,
        "hashes": [{"alg": "SHA-256", "content": digest.hex()}],
    });
    if !version.is_empty() {
        component["version"] = json!(version);
    }
    component
}

fn item_component(number: usize, item: &Item) -> Value {
    let kind = match item.kind {
        Kind::Pkg => "library",
        Kind::Bin => "application",
        Kind::Image => "container",
        Kind::File | Kind::Dir | Kind::Addon => "file",
    };
    let mut component = component(number, kind, &item.name, &item.version, item.sha256);
    component["properties"] = json!([
        {"name": "eggo:path", "value": item.path},
        {"name": "eggo:arch", "value": item.arch.as_str()},
    ]);
    if let Some(purl) = purl::of_item(item) {
        component["purl"] = json!(purl);
    }
    if let Some(url) = &item.source.url {
        component["externalReferences"] = json!([{"type": "distribution", "url": url}]);
    }
    component
}

fn image_component(number: usize, image: &Image) -> Value {
    let (repository, tag) = purl::split_reference(&image.name);
    let mut component = component(number, "container", repository, tag.unwrap_or_default(), image.manifest);
    component["purl"] = json!(purl::of_image(image));
    component["properties"] = json!([{"name": "eggo:arch", "value": image.arch.as_str()}]);
    component
}
