//! The bill of materials: complete, the same each time, and sound by the rules of its format.

mod made;

use eggo_bundles::sbom::{self, Created};
use eggo_bundles::{seal, seal_created};
use made::{Sample, key};
use serde_json::Value;
use std::collections::BTreeSet;

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn spdx_lists_every_package_binary_and_image_once() {
    let sample = Sample::small();
    let sealed = seal(sample.index.clone(), key()).unwrap();
    let document = parse(sealed.sbom());
    assert_eq!(sealed.sbom(), sbom::spdx(sealed.index(), Created::default()));
    assert_eq!(document["creationInfo"]["created"], "1970-01-01T00:00:00Z");
    let dated = seal_created(sample.index.clone(), "1704067200".parse().unwrap(), key()).unwrap();
    assert_eq!(parse(dated.sbom())["creationInfo"]["created"], "2024-01-01T00:00:00Z");
    let packages = document["packages"].as_array().unwrap();
    let ids: BTreeSet<&str> = packages.iter().map(|package| package["SPDXID"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), packages.len());
    let files: BTreeSet<&str> =
        packages.iter().filter_map(|package| package["packageFileName"].as_str()).collect();
    for item in sealed.index().items.iter().filter(|item| item.link.is_none()) {
        let expected = item.kind != eggo_bundles::Kind::Image;
        assert_eq!(files.contains(item.path.as_str()), expected, "{}", item.path);
    }
    let images = packages.iter().filter(|package| package["primaryPackagePurpose"] == "CONTAINER");
    assert_eq!(images.count(), sample.index.images.len());
    for relationship in document["relationships"].as_array().unwrap() {
        for end in ["spdxElementId", "relatedSpdxElement"] {
            let id = relationship[end].as_str().unwrap();
            assert!(id == "SPDXRef-DOCUMENT" || ids.contains(id), "{id}");
        }
    }
    for package in packages {
        for required in ["name", "downloadLocation", "licenseConcluded", "copyrightText"] {
            assert!(package[required].is_string(), "{package}");
        }
    }
}

#[test]
fn cyclonedx_lists_the_same() {
    let sealed = seal(Sample::small().index, key()).unwrap();
    let spdx = parse(sealed.sbom());
    let document = parse(&sbom::cyclonedx(sealed.index()));
    let components = document["components"].as_array().unwrap();
    // SPDX also lists the bundle itself.
    assert_eq!(components.len() + 1, spdx["packages"].as_array().unwrap().len());
    assert_eq!(document["specVersion"], "1.5");
    let serial = document["serialNumber"].as_str().unwrap();
    assert_eq!(serial.len(), "urn:uuid:00000000-0000-8000-8000-000000000000".len());
    assert_eq!(sbom::cyclonedx(sealed.index()), sbom::cyclonedx(sealed.index()));
}
