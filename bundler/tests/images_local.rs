//! Images from files: what docker, skopeo and others write.

mod images_support;

use eggo_bundle::images::{self, Error, Registries, Wanted};
use eggo_bundle::lock::LockedImage;
use eggo_bundles::{Arch, Digest};
use eggo_terminal::Report;
use images_support::make::{Pile, Style, config_of, gzip, layer};
use images_support::{Bench, have, run};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

async fn lock(bench: &Bench, name: &str, from: &str, archs: &[Arch]) -> Result<Vec<LockedImage>, Error> {
    let from: BTreeMap<Arch, String> =
        archs.iter().map(|arch| (*arch, from.replace("{arch}", arch.as_str()))).collect();
    let wanted = Wanted { from, ..Wanted::new(name.parse().unwrap(), vec![], "test".to_string()) };
    images::lock(&[wanted], archs, &Registries::default(), bench.path(), bench.tools()).await
}

fn tar_of(folder: &Path, file: &Path, names: &[&str]) {
    let mut arguments = vec!["-C", folder.to_str().unwrap(), "-cf", file.to_str().unwrap()];
    arguments.extend(names);
    run("tar", &arguments);
}

#[tokio::test]
async fn oci_layouts_as_folder_and_archive_by_full_name_or_tag() {
    let bench = Bench::new();
    let mut pile = Pile::default();
    let index = pile.multi(Style::Oci, "x", 5000);
    let folder = bench.path().join("layout");
    pile.write_layout(&folder, &[("docker.io/library/x:1", &index), ("2", &index)]);
    tar_of(&folder, &bench.path().join("layout.tar"), &["oci-layout", "index.json", "blobs"]);
    run("gzip", &["-k", bench.path().join("layout.tar").to_str().unwrap()]);
    for from in ["layout", "layout.tar", "layout.tar.gz"] {
        for name in ["x:1", "other.io/y:2"] {
            let locked = lock(&bench, name, from, &Arch::ALL).await.unwrap_or_else(|e| panic!("{from}: {e}"));
            assert_eq!(locked.len(), 2);
            for image in &locked {
                assert_eq!(image.config.sha256, config_of(&pile, &index, image.arch));
                assert_eq!(image.from.as_deref(), Some(from));
                for blob in image.blobs() {
                    assert!(bench.cache.verified(&blob.sha256).unwrap().is_some());
                }
            }
        }
        let error = lock(&bench, "x:3", from, &Arch::ALL).await.unwrap_err();
        let text = Report::from(error).to_string();
        assert!(
            text.contains("has no image `docker.io/library/x:3`\n  found: docker.io/library/x:1"),
            "{text}"
        );
    }
}

/// As `docker save` of old wrote it: a folder per layer, links for repeated ones.
fn docker_archive(folder: &Path, arch: &str) -> Digest {
    let (one, two) = (layer("one", 3000), layer("two", 3000));
    let diff_ids = [&one, &two, &one].map(|tar| Digest::of(tar).oci());
    let config =
        json!({"architecture": arch, "os": "linux", "rootfs": {"type": "layers", "diff_ids": diff_ids}});
    let config = config.to_string();
    let digest = Digest::of(config.as_bytes());
    for (name, bytes) in [("aaa", &one), ("bbb", &two)] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        std::fs::write(folder.join(name).join("layer.tar"), bytes).unwrap();
    }
    std::fs::create_dir_all(folder.join("ccc")).unwrap();
    std::os::unix::fs::symlink("../aaa/layer.tar", folder.join("ccc/layer.tar")).unwrap();
    std::fs::write(folder.join(format!("{digest}.json")), &config).unwrap();
    let manifest = json!([{
        "Config": format!("{digest}.json"),
        "RepoTags": ["app:1", "host:5000/team/app:2"],
        "Layers": ["aaa/layer.tar", "bbb/layer.tar", "ccc/layer.tar"],
    }]);
    std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
    digest
}

#[tokio::test]
async fn docker_archives_one_per_arch() {
    let bench = Bench::new();
    for arch in Arch::ALL {
        let folder = bench.path().join(arch.as_str());
        std::fs::create_dir(&folder).unwrap();
        let config = docker_archive(&folder, arch.as_str());
        tar_of(&folder, &bench.path().join(format!("app-{arch}.tar")), &["."]);
        for name in ["app:1", "host:5000/team/app:2"] {
            let locked = lock(&bench, name, "app-{arch}.tar", &[arch]).await.unwrap();
            assert_eq!(locked[0].config.sha256, config);
            assert_eq!(locked[0].layers.len(), 3);
            assert_eq!(locked[0].layers[0], locked[0].layers[2]);
            assert_eq!(locked[0].layers[0].media_type, "application/vnd.oci.image.layer.v1.tar");
        }
    }
    let error = lock(&bench, "app:1", "app-amd64.tar", &Arch::ALL).await.unwrap_err();
    assert!(matches!(error, Error::NoArch { arch: Arch::Arm64, .. }), "{error}");
}

/// What a hostile folder would like to have in the bundle.
#[tokio::test]
async fn no_link_leads_out_of_a_folder() {
    let bench = Bench::new();
    let secret = bench.path().join("secret");
    std::fs::write(&secret, layer("secret", 100)).unwrap();
    let folder = bench.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    docker_archive(&folder, "amd64");
    // As `docker save` of old wrote it, with links between its own folders.
    assert_eq!(lock(&bench, "app:1", "folder", &[Arch::Amd64]).await.unwrap()[0].layers.len(), 3);
    let layer = folder.join("ccc/layer.tar");
    for target in ["../../secret", secret.to_str().unwrap()] {
        std::fs::remove_file(&layer).unwrap();
        std::os::unix::fs::symlink(target, &layer).unwrap();
        let error = lock(&bench, "app:1", "folder", &[Arch::Amd64]).await.unwrap_err();
        let text = Report::from(error).to_string();
        assert!(text.contains(&format!("the link `{}` leads out", layer.display())), "{text}");
        assert!(text.contains(&format!("to `{target}`")) && text.contains("in place of the link"), "{text}");
    }
    for name in ["../secret", secret.to_str().unwrap()] {
        let manifest = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
        std::fs::write(folder.join("manifest.json"), manifest.replace("ccc/layer.tar", name)).unwrap();
        let error = lock(&bench, "app:1", "folder", &[Arch::Amd64]).await.unwrap_err().to_string();
        assert!(error.contains("leads out of"), "{error}");
        std::fs::write(folder.join("manifest.json"), manifest).unwrap();
    }

    // The documents themselves, folders on the way, and the folder that the manifest names.
    let layout = bench.path().join("layout");
    let mut pile = Pile::default();
    let index = pile.multi(Style::Oci, "x", 500);
    pile.write_layout(&layout, &[("x:1", &index)]);
    std::fs::rename(layout.join("blobs"), bench.path().join("blobs")).unwrap();
    std::os::unix::fs::symlink("../blobs", layout.join("blobs")).unwrap();
    let error = lock(&bench, "x:1", "layout", &Arch::ALL).await.unwrap_err().to_string();
    assert!(error.contains("leads out of"), "{error}");
    std::fs::remove_file(layout.join("index.json")).unwrap();
    std::os::unix::fs::symlink(&secret, layout.join("index.json")).unwrap();
    let error = lock(&bench, "x:1", "layout", &Arch::ALL).await.unwrap_err().to_string();
    assert!(error.contains("index.json` leads out of"), "{error}");
    std::os::unix::fs::symlink("/etc", bench.path().join("elsewhere")).unwrap();
    let error = lock(&bench, "x:1", "elsewhere", &Arch::ALL).await.unwrap_err().to_string();
    assert!(error.contains("elsewhere` leads out of"), "{error}");
}

#[tokio::test]
async fn what_skopeo_writes_is_read_and_the_same_every_time() {
    if !have(&["skopeo"]) {
        return;
    }
    let bench = Bench::new();
    let mut pile = Pile::default();
    let image = pile.image(Style::Oci, "amd64", None, &[("a", 4000), ("b", 4000)]);
    pile.write_layout(&bench.path().join("layout"), &[("1", &image)]);
    let from = format!("oci:{}:1", bench.path().join("layout").display());
    let docker = bench.path().join("docker.tar");
    run("skopeo", &["copy", "-q", &from, &format!("docker-archive:{}:app:1", docker.display())]);
    let oci = bench.path().join("oci.tar");
    run("skopeo", &["copy", "-q", &from, &format!("oci-archive:{}:app:1", oci.display())]);
    let first = lock(&bench, "app:1", "docker.tar", &[Arch::Amd64]).await.unwrap();
    assert_eq!(first, lock(&Bench::new_in(&bench), "app:1", "docker.tar", &[Arch::Amd64]).await.unwrap());
    let from_oci = lock(&bench, "app:1", "oci.tar", &[Arch::Amd64]).await.unwrap();
    assert_eq!(first[0].config.sha256, from_oci[0].config.sha256);
}

#[tokio::test]
async fn a_fetch_reads_the_archive_again_and_notices_a_change() {
    let bench = Bench::new();
    let mut pile = Pile::default();
    let index = pile.multi(Style::Oci, "x", 5000);
    let folder = bench.path().join("layout");
    pile.write_layout(&folder, &[("app:1", &index)]);
    let locked = lock(&bench, "app:1", "layout", &Arch::ALL).await.unwrap();
    let empty = Bench::new_in(&bench);
    let registries = Registries::default();
    images::fetch(&locked, &registries, bench.path(), empty.tools()).await.unwrap();
    assert!(empty.cache.verified(&locked[0].layers[0].sha256).unwrap().is_some());

    let gone = folder.join(format!("blobs/sha256/{}", locked[0].layers[1].sha256));
    std::fs::write(&gone, b"something else").unwrap();
    let empty = Bench::new_in(&bench);
    let error = images::fetch(&locked, &registries, bench.path(), empty.tools()).await.unwrap_err();
    let text = Report::from(error).to_string();
    assert!(text.contains("has changed since it was locked") && text.contains("eggo-bundle lock"), "{text}");

    // What cannot be read, or written, has not changed.
    std::fs::remove_file(&gone).unwrap();
    std::fs::create_dir(&gone).unwrap();
    let error = images::fetch(&locked, &registries, bench.path(), empty.tools()).await.unwrap_err();
    assert!(error.to_string().contains("cannot be read to its end"), "{error}");
    let blocked = Bench::new_in(&bench);
    let temporary = blocked.cache.path(&Digest::of(b"")).ancestors().nth(3).unwrap().join("tmp");
    std::fs::remove_dir_all(&temporary).unwrap();
    std::fs::write(&temporary, "in the way").unwrap();
    let error = images::fetch(&locked, &registries, bench.path(), blocked.tools()).await.unwrap_err();
    assert!(error.to_string().contains("cannot write to the cache"), "{error}");
}

#[tokio::test]
async fn files_that_are_no_images_are_refused_by_name() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join("empty")).unwrap();
    std::fs::write(bench.path().join("text.tar"), "no archive at all").unwrap();
    std::fs::write(bench.path().join("half.tar.gz"), &gzip(&layer("x", 5000))[..2000]).unwrap();
    std::fs::write(bench.path().join("other.tar"), layer("x", 100)).unwrap();
    for (from, reason) in [
        ("absent.tar", "No such file"),
        ("empty", "neither a docker archive"),
        ("text.tar", "is not an archive"),
        ("half.tar.gz", "cannot be read to its end"),
        ("other.tar", "neither a docker archive"),
    ] {
        let error = lock(&bench, "x:1", from, &[Arch::Amd64]).await.unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains(from), "{from}: {error}");
    }
}
