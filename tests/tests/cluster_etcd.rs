//! etcd on nodes of its own: masters and members join and leave, data is restored from a snapshot, and a second
//! cluster uses the same etcd as one that is already there.

use eggo_tests::lab::{Kind, Lab};
use eggo_tests::site::{Place, Release, Site, succeed};
use std::fs;

#[test]
fn separate_and_external_etcd() {
    let hosts = ["e", "f", "g", "m", "n", "w"].map(|name| (name, Kind::DebAmd64));
    let Some(lab) = Lab::take(&hosts) else { return };
    let Some(mut site) = Site::new(lab, "apart", Release::wanted(), "binaries") else { return };
    let bundle = site.build();
    let endpoint = format!("apiserver-endpoint: {}:6443\n", site.host("m").address());
    let mut places = vec![
        Place { host: "e", lists: &["etcds"] },
        Place { host: "f", lists: &["etcds"] },
        Place { host: "g", lists: &["etcds"] },
        Place { host: "m", lists: &["masters"] },
        Place { host: "w", lists: &["workers"] },
    ];
    site.describe("three-nodes", &places, &endpoint);
    succeed(site.deploy(&bundle));
    assert!(site.kubectl("m", "get nodes --no-headers").contains(" Ready "));
    for (host, runs) in [("e", true), ("m", false)] {
        let found = site.host(host).exec("systemctl is-active etcd || true");
        assert_eq!(found.trim() == "active", runs, "etcd on {host}: {found}");
    }

    // A snapshot, a change, and back.
    site.kubectl("m", "create configmap before");
    succeed(site.install(&["etcd", "backup"]));
    site.kubectl("m", "create configmap after");
    let snapshot = newest_snapshot(&site);
    let mut restore = site.install(&["etcd", "restore", &snapshot]);
    restore.arg("--yes");
    succeed(restore);
    let configmaps = site.kubectl("m", "get configmap -o name");
    assert!(configmaps.contains("/before") && !configmaps.contains("/after"), "{configmaps}");

    // A member leaves; a master joins; then the other way about.
    delete(&site, "g");
    places.retain(|place| place.host != "g");
    places.push(Place { host: "n", lists: &["masters"] });
    site.describe("three-nodes", &places, &endpoint);
    join(&site, &bundle);
    assert!(site.kubectl("n", "get configmap -o name").contains("/before"));
    delete(&site, "n");
    places.retain(|place| place.host != "n");
    places.push(Place { host: "g", lists: &["etcds"] });
    site.describe("three-nodes", &places, &endpoint);
    join(&site, &bundle);
    let status = succeed(site.install(&["status"]));
    assert!(status.contains('g'), "{status}");

    // Another cluster with this etcd, apart by its prefix.
    let pki = site.path("state").join("apart/pki");
    let endpoints: Vec<String> =
        ["e", "f", "g"].map(|name| format!("\"https://{}:2379\"", site.host(name).address())).to_vec();
    let external = format!(
        "etcd-external:\n  endpoints: [{}]\n  ca: {pki}/etcd/ca.crt\n  \
         cert: {pki}/nodes/m/apiserver-etcd-client.crt\n  key: {pki}/nodes/m/apiserver-etcd-client.key\n\
         config-extra-args:\n- {{name: kube-apiserver, extra-args: {{\"--etcd-prefix\": /other}}}}\n",
        endpoints.join(", "),
        pki = pki.display()
    );
    site.cluster = "guest";
    site.describe("one-node", &[Place { host: "n", lists: &["masters", "workers"] }], &external);
    succeed(site.deploy(&bundle));
    assert!(site.kubectl("n", "get nodes --no-headers").contains(" Ready "));
    let configmaps = site.kubectl("n", "get configmap -o name");
    assert!(!configmaps.contains("/before"), "{configmaps}");
}

fn delete(site: &Site, node: &str) {
    let mut command = site.install(&["delete", node]);
    command.arg("--yes");
    succeed(command);
}

fn join(site: &Site, bundle: &std::path::Path) {
    let mut command = site.install(&["join"]);
    command.arg(bundle).arg("--pubkey").arg(site.path("key.pub")).arg("--yes");
    succeed(command);
}

fn newest_snapshot(site: &Site) -> String {
    let mut folders = vec![site.path("state").join("apart")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the state folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "db") {
                found.push(path);
            }
        }
    }
    found.sort();
    found.pop().expect("a snapshot").display().to_string()
}
