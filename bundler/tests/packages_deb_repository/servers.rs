//! Several servers with the same packages, or each with some of them, and one that changes while it is read.

use crate::repo::{Asked, PACKAGES, Repo, STABLE, ask};
use eggo_bundle::packages::history::History;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn the_next_mirror_is_asked_when_one_is_wrong() {
    let (bad, good) = (Repo::new(), Repo::new());
    for repo in [&bad, &good] {
        let release = repo.packages("dists/stable", "", PACKAGES);
        repo.write("dists/stable/Release", release);
    }
    bad.write("dists/stable/main/binary-amd64/Packages", "another file");
    fs::remove_file(bad.path("dists/stable/main/binary-arm64/Packages")).unwrap();
    let asked = ask(&[bad.url(), good.url()], &format!("{STABLE}, allow-unsigned: true"));
    let locked = asked.lock().unwrap();
    assert_eq!(locked.packages.len(), 4);
    assert_eq!(locked.packages[0].mirrors, [format!("{}/pool/tool_1.0-1_amd64.deb", good.url())]);
}

/// As Ubuntu does: the metadata of both servers lists both archs, each has the files of one.
#[test]
fn an_arch_may_live_on_another_server() {
    let servers = [("amd64", Repo::new()), ("arm64", Repo::new())];
    for (arch, repo) in &servers {
        // Each server's own text: content that one server has need not be asked of the other.
        let packages = format!("{PACKAGES}Homepage: http://{arch}.test\n");
        repo.write("dists/stable/Release", repo.packages("dists/stable", "", &packages));
        let other = if *arch == "amd64" { "arm64" } else { "amd64" };
        fs::remove_dir_all(repo.path(&format!("dists/stable/main/binary-{other}"))).unwrap();
    }
    let of = |more: &dyn Fn(&str) -> String| Asked {
        cache: tempfile::tempdir().unwrap(),
        history: History::default(),
        repo: servers
            .each_ref()
            .map(|(arch, repo)| {
                let (url, more) = (repo.url(), more(arch));
                format!("{{name: {arch}, type: deb, url: \"{url}\", {STABLE}, allow-unsigned: true{more}}}")
            })
            .join(", "),
    };
    let locked = of(&|arch| format!(", archs: [{arch}]")).lock().unwrap();
    let homes: Vec<String> =
        locked.packages.iter().map(|p| format!("{} {} from {}", p.name, p.arch, p.repo)).collect();
    let expected =
        ["tool amd64 from amd64", "lib amd64 from amd64", "tool arm64 from arm64", "lib arm64 from arm64"];
    assert_eq!(homes, expected);
    let error = of(&|_| String::new()).lock().unwrap_err();
    assert!(error.contains("/Packages` of stable"), "{error}");
    assert!(
        error.contains("hint: if this server does not have every arch, name those that it has with `archs`"),
        "{error}"
    );
}

/// Serves a folder that changes to `next` after the first Release was read.
#[test]
fn a_repository_that_changes_in_between_is_read_again() {
    let (first, next) = (Repo::new(), Repo::new());
    let newer = PACKAGES.replace("1.0-1", "1.1-1");
    for (repo, text) in [(&first, PACKAGES), (&next, newer.as_str())] {
        let release = repo.packages("dists/stable", "", text);
        repo.write("dists/stable/Release", release);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let releases = Arc::new(AtomicUsize::new(0));
    let (seen, folders) = (releases.clone(), [first.path(""), next.path("")]);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut request).unwrap();
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                line.clear();
            }
            let path = request.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_string();
            // The mirror moves on as soon as the Release was handed out.
            let state = usize::from(seen.load(Ordering::SeqCst) > 0);
            let answer = fs::read(folders[state].join(&path));
            if path.ends_with("/Release") {
                seen.fetch_add(1, Ordering::SeqCst);
            }
            let (status, body) = answer.map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    let locked = ask(&[url], &format!("{STABLE}, allow-unsigned: true")).lock().unwrap();
    assert_eq!(locked.packages[0].version, "1.1-1");
    assert_eq!(releases.load(Ordering::SeqCst), 2);
}
