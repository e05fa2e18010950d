//! SPDX 2.3, JSON.

use super::{Component, Created, components, purl};
use crate::Digest;
use crate::index::{Image, Index, Item, Kind};
use serde_json::{Value, json};

/// The bytes of `sbom.spdx.json` for this index; its own `sbom` and `parent` play no role.
pub fn spdx(index: &Index, created: Created) -> Vec<u8> {
    let mut bare = index.full();
    bare.sbom = None;
    let identity = Digest::of(&bare.to_bytes());
    let bundle = "SPDXRef-Bundle";
    let mut packages = vec![json!({
        "SPDXID": bundle,
        "name": index.name,
        "versionInfo": index.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "ARCHIVE",
    })];
    let mut relationships = vec![relationship("SPDXRef-DOCUMENT", "DESCRIBES", bundle)];
    for (number, component) in components(index).iter().enumerate() {
        let id = format!("SPDXRef-{}", number + 1);
        packages.push(match component {
            Component::Item(item) => item_package(&id, item),
            Component::Image(image) => image_package(&id, image),
        });
        relationships.push(relationship(bundle, "CONTAINS", &id));
    }
    let document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("{}-{}", index.name, index.version),
        "documentNamespace": format!("urn:eggo-bundle:{}:{}:{identity}", index.name, index.version),
        "creationInfo": {
            "created": created.to_string(),
            "creators": ["Tool: eggo-bundle"],
        },
        "packages": packages,
        "relationships": relationships,
    });
    let mut bytes = serde_json::to_vec_pretty(&document).expect("JSON values serialise");
    bytes.push(b'\n');
    bytes
}

fn relationship(from: &str, kind: &str, to: &str) -> Value {
    json!({"spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to})
}

fn package(id: &str, name: &str, version: &str, purpose: &str, digest: Digest) -> Value {
    let mut package = json!({
        "SPDXID": id,
        "name": name,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": purpose,
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest.hex()}],
    });
    if !version.is_empty() {
        package["versionInfo"] = json!(version);
    }
    package
}

fn item_package(id: &str, item: &Item) -> Value {
    let purpose = match item.kind {
        Kind::Pkg => "INSTALL",
        Kind::Bin => "APPLICATION",
        Kind::Image => "CONTAINER",
        Kind::File | Kind::Dir | Kind::Addon => "FILE",
    };
    let mut package = package(id, &item.name, &item.version, purpose, item.sha256);
    package["packageFileName"] = json!(item.path);
    if let Some(url) =
        item.source.url.as_deref().filter(|url| url.contains("://") && !url.contains(char::is_whitespace))
    {
        package["downloadLocation"] = json!(url);
    }
    if let Some(purl) = purl::of_item(item) {
        package["externalRefs"] = external(&purl);
    }
    package
}

fn image_package(id: &str, image: &Image) -> Value {
    let (repository, tag) = purl::split_reference(&image.name);
    let mut package = package(id, repository, tag.unwrap_or_default(), "CONTAINER", image.manifest);
    package["externalRefs"] = external(&purl::of_image(image));
    package["comment"] = json!(format!("{} for {}", image.name, image.arch));
    package
}

fn external(purl: &str) -> Value {
    json!([{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}])
}
