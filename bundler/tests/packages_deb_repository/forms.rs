//! Every form that a repository may have is read.

use crate::repo::{PACKAGES, Repo, ask, has, keys, names, refused, signed};
use eggo_bundles::Digest;
use std::fs;

#[test]
fn a_signed_repository_resolves_for_both_archs_in_every_form() {
    if !has("gpg") {
        return;
    }
    for form in [".xz", ".gz", ".zst", ".bz2", ""] {
        let repo = Repo::new();
        let release = repo.packages("dists/stable", form, PACKAGES);
        repo.write("dists/stable/InRelease", keys().clearsign("good", &release, &[]));
        let asked = signed(&repo, "good");
        let locked = asked.lock().unwrap();
        let expected =
            ["tool 1.0-1 amd64 amd64", "lib 2 amd64 all", "tool 1.0-1 arm64 arm64", "lib 2 arm64 all"];
        assert_eq!(names(&locked), expected, "{form}");
        let tool = &locked.packages[0];
        assert_eq!(tool.url, format!("{}/pool/tool_1.0-1_amd64.deb", repo.url()));
        assert_eq!(tool.required_by, ["role worker"]);
        assert_eq!(locked.packages[1].required_by, ["tool"]);
        assert!(tool.key.as_ref().is_some_and(|key| key.len() == 40));
        // The second time the index files are not needed any more.
        fs::remove_dir_all(repo.path("dists/stable/main")).unwrap();
        assert_eq!(names(&asked.lock().unwrap()), expected, "{form}");
    }
}

#[test]
fn by_hash_detached_signatures_and_flat_repositories() {
    if !has("gpg") {
        return;
    }
    let repo = Repo::new();
    let release =
        repo.packages("dists/stable", ".xz", PACKAGES).replace("SHA256:", "Acquire-By-Hash: yes\nSHA256:");
    for arch in ["amd64", "arm64"] {
        let folder = repo.path(&format!("dists/stable/main/binary-{arch}"));
        let bytes = fs::read(folder.join("Packages.xz")).unwrap();
        fs::create_dir_all(folder.join("by-hash/SHA256")).unwrap();
        fs::write(folder.join("by-hash/SHA256").join(Digest::of(&bytes).hex()), bytes).unwrap();
        fs::write(folder.join("Packages.xz"), "already the next version").unwrap();
    }
    repo.write("dists/stable/InRelease", keys().clearsign("good", &release, &[]));
    assert_eq!(signed(&repo, "good").lock().unwrap().packages.len(), 4);

    let repo = Repo::new();
    let release = repo.packages("dists/stable", ".gz", PACKAGES);
    let signature =
        keys().gpg(&["--local-user", "good", "--armor", "--detach-sign"], Some(release.as_bytes()));
    repo.write("dists/stable/Release", &release);
    repo.write("dists/stable/Release.gpg", signature);
    assert_eq!(signed(&repo, "good").lock().unwrap().packages.len(), 4);
    refused(&signed(&repo, "other"), &["no given key made a signature"]);

    let repo = Repo::new();
    let bytes = PACKAGES.replace("ARCH", "amd64") + "\n" + &PACKAGES.replace("ARCH", "arm64");
    repo.write("sub/Packages", &bytes);
    let release = format!("SHA256:\n {} {} Packages\n", Digest::of(bytes.as_bytes()), bytes.len());
    repo.write("sub/InRelease", keys().clearsign("good", &release, &[]));
    let flat = ask(&[repo.url()], &format!("suites: [sub/], signed-by: {}", keys().public("good").display()));
    assert_eq!(flat.lock().unwrap().packages.len(), 4);
}
