//! Which signatures count, and when a repository may have none.

use crate::repo::{Asked, PACKAGES, Repo, STABLE, ask, has, keys, refused, signed};
use eggo_bundle::lock::Lock;
use eggo_bundle::packages::history::History;
use std::fs;
use std::path::Path;

#[test]
fn signatures_that_do_not_count_are_refused() {
    if !has("gpg") {
        return;
    }
    let repo = Repo::new();
    repo.publish("good");
    refused(
        &signed(&repo, "other"),
        &["no given key made a signature", "InRelease", "hint: name the repository's key"],
    );

    let intact = fs::read_to_string(repo.path("dists/stable/InRelease")).unwrap();
    repo.write("dists/stable/InRelease", intact.replace("Origin: Test", "Origin: Tesu"));
    refused(&signed(&repo, "good"), &["does not match the content", "InRelease"]);
    repo.write("dists/stable/InRelease", format!("{intact}Origin: more\n"));
    refused(&signed(&repo, "good"), &["InRelease"]);

    let release = repo.packages("dists/stable", ".xz", PACKAGES);
    let back_then = ["--faked-system-time=20200601T000000!"];
    repo.write("dists/stable/InRelease", keys().clearsign("expired", &release, &back_then));
    refused(&signed(&repo, "expired"), &["has expired", "InRelease"]);

    let weak = ["--digest-algo", "SHA1", "--allow-weak-digest-algos"];
    repo.write("dists/stable/InRelease", keys().clearsign("good", &release, &weak));
    refused(&signed(&repo, "good"), &["weak hash SHA1"]);
}

#[test]
fn a_suite_that_goes_back_in_time_or_loses_its_signature_is_refused() {
    if !has("gpg") {
        return;
    }
    let repo = Repo::new();
    let publish = |day: u8| {
        let release = repo.packages("dists/stable", ".xz", PACKAGES);
        let release = format!("Date: Sat, {day} Jun 2023 08:53:33 UTC\n{release}");
        repo.write("dists/stable/InRelease", keys().clearsign("good", &release, &[]));
        release
    };
    publish(10);
    let locked = signed(&repo, "good").lock().unwrap();
    assert_eq!(locked.repos.len(), 1, "one for both archs");
    let seen = &locked.repos[0];
    assert_eq!((seen.date.as_deref(), seen.suite.as_deref()), (Some("2023-06-10T08:53:33Z"), Some("stable")));
    assert_eq!((&seen.key, seen.arch), (&locked.packages[0].key, None));
    let after = |mut asked: Asked, accepted: &[&str]| {
        let lock = Lock { repos: locked.repos.clone(), ..empty_lock() };
        asked.history =
            History::new(Some(&lock), &accepted.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        asked
    };
    after(signed(&repo, "good"), &[]).lock().unwrap();
    let release = publish(9);
    let words = [
        "is older than before",
        "in the lock: of 2023-06-10",
        "found: of 2023-06-09",
        "`--accept-repo local`",
    ];
    refused(&after(signed(&repo, "good"), &[]), &words);
    after(signed(&repo, "good"), &["local"]).lock().unwrap();
    // Another place is another repository.
    let elsewhere = Repo::new();
    let of_elsewhere = elsewhere.packages("dists/stable", ".xz", PACKAGES);
    elsewhere.write("dists/stable/InRelease", keys().clearsign("good", &of_elsewhere, &[]));
    after(signed(&elsewhere, "good"), &[]).lock().unwrap();

    // Where unsigned metadata is allowed, too, a signature that was there is missed.
    fs::remove_file(repo.path("dists/stable/InRelease")).unwrap();
    repo.write("dists/stable/Release", release.replace(" 9 Jun", " 11 Jun"));
    let unsigned = || ask(&[repo.url()], &format!("{STABLE}, allow-unsigned: true"));
    refused(&after(unsigned(), &[]), &["is no longer signed", &locked.packages[0].key.clone().unwrap()]);
    after(unsigned(), &["local"]).lock().unwrap();
}

fn empty_lock() -> Lock {
    let text = "lock = 1\nname = \"x\"\nversion = \"1\"\narchs = []\nasked = []\n";
    Lock::parse(Path::new("x.lock"), text).unwrap()
}

#[test]
fn an_unsigned_repository_needs_the_manifests_word() {
    let repo = Repo::new();
    let release = repo.packages("dists/stable", ".xz", PACKAGES);
    repo.write("dists/stable/Release", &release);
    refused(&ask(&[repo.url()], STABLE), &["is not signed", "allow-unsigned"]);
    let locked = ask(&[repo.url()], &format!("{STABLE}, allow-unsigned: true")).lock().unwrap();
    assert!(locked.packages.iter().all(|package| package.key.is_none()));
    // A signature that nobody here can check is as good as none.
    let nowhere = format!("{STABLE}, allow-unsigned: true, signed-by: /nowhere/key.asc");
    for file in ["Release.gpg", "InRelease"] {
        repo.write(&format!("dists/stable/{file}"), if file == "InRelease" { &release } else { "x" });
        let locked = ask(&[repo.url()], &nowhere).lock().unwrap();
        assert!(locked.packages.iter().all(|package| package.key.is_none()), "{file}");
    }
    refused(&ask(&[repo.url()], "suites: [gone], components: [main]"), &["has no Release file"]);
}
