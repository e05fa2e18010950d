use super::*;
use crate::config;
use eggo_bundles::Kind;
use eggo_bundles::index::{Baseline, PackageFormat};
use eggo_errors::Report;

/// A bundle in words: one line per item, `PATH ROLES [DST] [requires…]`, for both archs where
/// the path starts with `*`.
fn index(lines: &str) -> Index {
    let mut items = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        let path = words.next().unwrap();
        let roles: Vec<Role> =
            words.next().unwrap().split(',').filter(|r| *r != "-").map(|r| r.parse().unwrap()).collect();
        let dst = words.next().filter(|dst| *dst != "-").map(String::from);
        let requires: Vec<String> = words.map(String::from).collect();
        for arch in Arch::ALL {
            let path = path.replacen('*', arch.as_str(), 1);
            if !path.starts_with(arch.as_str()) {
                continue;
            }
            let kind =
                Kind::ALL.into_iter().find(|kind| path.split('/').nth(1) == Some(kind.room())).unwrap();
            let file = path.split('/').nth(2).unwrap();
            let name = if kind == Kind::Pkg { file.split('_').next().unwrap() } else { file };
            let (sha256, size) = (Digest::of(path.as_bytes()), 100 + path.len() as u64);
            let (roles, dst, requires) = (roles.clone(), dst.clone(), requires.clone());
            let item = Item::new(arch, kind, name, sha256, size);
            items.push(Item { path, roles, dst, requires, ..item });
        }
    }
    items.sort_by(|a, b| a.path.cmp(&b.path));
    Index::new("test", "1", Arch::ALL.to_vec()).with_items(items)
}

/// Adds an image of two blobs and a layer that all images share.
fn image(index: &mut Index, name: &str, roles: &[Role]) {
    for arch in Arch::ALL {
        let mut blob = |text: &str| {
            let sha256 = Digest::of(text.as_bytes());
            let path = format!("{arch}/image/blobs/sha256/{sha256}");
            if !index.items.iter().any(|item| item.path == path) {
                let mut item = index.items[0].clone();
                item =
                    Item { arch, kind: Kind::Image, name: name.into(), sha256, roles: roles.into(), ..item };
                item = Item { path, size: 1000, dst: None, requires: vec![], ..item };
                index.items.push(item);
            }
            sha256
        };
        let (manifest, config) = (blob(&format!("m{name}{arch}")), blob(&format!("c{name}{arch}")));
        let layers = vec![blob(&format!("shared{arch}"))];
        let media_type = "application/vnd.oci.image.manifest.v1+json".to_string();
        let roles = roles.to_vec();
        index.images.push(Image { name: name.into(), arch, manifest, media_type, config, layers, roles });
    }
    index.items.sort_by(|a, b| a.path.cmp(&b.path));
}

fn config(more: &str) -> Config {
    let text = format!(
        "masters: [{{name: m, ip: 192.168.7.1, arch: amd64}}]\n\
         workers: [{{name: m, ip: 192.168.7.1, arch: amd64}}, {{name: w, ip: 192.168.7.2, arch: arm64}}]\n{more}"
    );
    config::parse("deploy.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}")).config
}

fn full() -> Index {
    let mut index = index(
        "*/bin/etcd etcd /usr/bin
         */bin/kube-apiserver master /usr/bin
         */bin/kubelet worker /usr/bin
         */bin/lonely -
         */pkg/containerd_1.deb worker - libseccomp2 runc
         */pkg/runc_1.deb - - libseccomp2
         */pkg/libseccomp2_1.deb -
         */pkg/other_1.deb -
         */dir/conf/a worker /etc/kubernetes/conf
         */file/prejoin.sh - /tmp
         */addons/calico.yaml -",
    );
    image(&mut index, "k8s.gcr.io/pause:3.2", &[]);
    image(&mut index, "docker.io/calico/node:v3.19.1", &[]);
    image(&mut index, "docker.io/library/only-masters:1", &[Role::Master]);
    index
}

/// As an install plans.
fn plan(config: &Config, index: &Index, known: &BTreeMap<String, Known<'_>>) -> Result<Plan, PlanError> {
    crate::operation::plan(config, index, known, &crate::operation::Options::default())
}

fn made(config: &Config, index: &Index) -> Plan {
    plan(config, index, &BTreeMap::new()).unwrap_or_else(|error| panic!("{}", Report::from(error)))
}

fn refused(config: &Config, index: &Index) -> String {
    Report::from(plan(config, index, &BTreeMap::new()).unwrap_err()).to_string()
}

fn names(node: &NodePlan, kind: Kind) -> Vec<&str> {
    node.of_kind(kind).map(|wanted| wanted.item.name.as_str()).collect()
}

#[test]
fn by_role_each_node_gets_its_arch_and_roles() {
    let plan = made(&config("install: {package-source: {type: bundle}}\n"), &full());
    let (master, worker) = (plan.node("m").unwrap(), plan.node("w").unwrap());
    assert_eq!(names(master, Kind::Bin), ["etcd", "kube-apiserver", "kubelet"]);
    assert_eq!(names(worker, Kind::Bin), ["kubelet"]);
    assert_eq!(names(worker, Kind::Pkg), ["containerd", "libseccomp2", "runc"], "closed over `requires`");
    assert!(plan.nodes.iter().all(|node| node.items.iter().all(|wanted| wanted.item.arch == node.arch)));
    assert_eq!(worker.images.len(), 2);
    assert_eq!(master.images.len(), 3);
    assert_eq!(names(master, Kind::Addon), ["calico.yaml"]);
    assert_eq!(names(worker, Kind::Addon), Vec::<&str>::new());
    assert_eq!(
        worker.items.iter().filter(|wanted| wanted.item.kind == Kind::Image).count(),
        5,
        "2 × 2 + 1 shared"
    );
    let sum: u64 = worker.items.iter().map(|wanted| wanted.item.size).sum();
    assert_eq!(worker.bytes, sum);
    insta::assert_snapshot!(serde_json::to_string_pretty(&plan).unwrap());
}

#[test]
fn a_plan_is_written_and_read_back() {
    let mut plan = made(&config("install: {package-source: {type: bundle}}\n"), &full());
    let read = |plan: &Plan| serde_json::from_str::<Plan>(&serde_json::to_string(plan).unwrap()).unwrap();
    assert_eq!(read(&plan), plan);
    // deploy.yaml may send an item elsewhere than the index does, or from nowhere to somewhere.
    for wanted in &mut plan.nodes[0].items {
        wanted.dst = Some("/opt/elsewhere".into());
    }
    for wanted in &mut plan.nodes[1].items {
        wanted.dst = None;
    }
    plan.network_without_addon = Some("flannel".into());
    assert_eq!(read(&plan), plan);
}

const LISTS: &str = "install:
  etcd: [{name: etcd, type: bin, dst: /usr/local/bin}]
  kubernetes-master: [{name: kube-apiserver, type: bin}]
  kubernetes-worker: [{name: kubelet, type: bin, dst: /usr/bin}]
  container: [{name: containerd, type: pkg}]
  image: [{name: pause.tar, type: image}]
  addition:
    worker: [{name: prejoin.sh, type: shell, schedule: prejoin}]
";

#[test]
fn lists_decide_what_and_where() {
    let plan = made(&config(LISTS), &full());
    let (master, worker) = (plan.node("m").unwrap(), plan.node("w").unwrap());
    assert_eq!(names(worker, Kind::Bin), ["kubelet"]);
    let etcd = master.of_kind(Kind::Bin).find(|wanted| wanted.item.name == "etcd").unwrap();
    assert_eq!(etcd.dst.as_deref(), Some("/usr/local/bin"), "deploy.yaml comes before the bundle");
    assert_eq!(
        worker.images.iter().map(|image| image.name.as_str()).collect::<Vec<_>>(),
        ["k8s.gcr.io/pause:3.2"]
    );
    let hook = worker.of_kind(Kind::File).next().unwrap();
    assert_eq!((hook.item.name.as_str(), hook.dst.as_deref()), ("prejoin.sh", None));
    assert_eq!(
        worker.steps,
        [
            "distribute",
            "simulate",
            "system",
            "packages",
            "files",
            "runtime",
            "images",
            "prejoin",
            "workers",
            "prune"
        ]
    );
}

#[test]
fn the_index_places_every_file_and_deploy_yaml_whole_folders() {
    let places = |config: &Config| {
        let plan = made(config, &full());
        let worker = plan.node("w").unwrap();
        worker.of_kind(Kind::Dir).map(|wanted| wanted.dst.clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(places(&config("install: {package-source: {type: bundle}}\n")), ["/etc/kubernetes/conf"]);
    let listed = LISTS.replace("worker: [", "worker: [{name: conf, type: dir, dst: /opt/cni/bin}, ");
    assert_eq!(places(&config(&listed)), ["/opt/cni/bin/conf"]);
}

#[test]
fn a_network_that_no_addon_lays_is_reported() {
    let told = |plugin: &str| {
        let more = format!("install: {{package-source: {{type: bundle}}}}\nnetwork: {{plugin: {plugin}}}\n");
        made(&config(&more), &full()).network_without_addon
    };
    assert_eq!(told("Calico"), None);
    assert_eq!(told("flannel").as_deref(), Some("flannel"));
}

#[test]
fn an_archive_of_eggo_stands_for_the_images_of_the_bundle() {
    let lists = LISTS.replace("pause.tar", "images.tar");
    let plan = made(&config(&lists), &full());
    assert_eq!(plan.node("w").unwrap().images.len(), 2);
    let exact = LISTS.replace("pause.tar", "calico/node:v3.19.1");
    assert_eq!(made(&config(&exact), &full()).node("w").unwrap().images.len(), 2, "pause always comes along");
}

#[test]
fn what_is_missing_is_reported_for_every_arch_at_once() {
    let lists = LISTS
        .replace("name: etcd", "name: \"etcd,etcdctl\"")
        .replace("name: containerd, type: pkg", "name: \"lonely,absent\", type: pkg")
        .replace("prejoin.sh", "none.sh");
    let mut index = full();
    index.items.retain(|item| item.path != "arm64/bin/kubelet");
    index.images.retain(|image| image.arch == Arch::Amd64);
    insta::assert_snapshot!(refused(
        &config(&format!("addons: [{{filename: flannel.yaml}}]\n{lists}")),
        &index
    ));
}

#[test]
fn a_package_of_the_baseline_is_not_missing() {
    let lists = LISTS.replace("name: containerd", "name: socat");
    let mut index = full();
    for arch in Arch::ALL {
        index.baselines.push(Baseline {
            arch,
            format: PackageFormat::Deb,
            name: "minimal".into(),
            packages: vec!["socat 1.7".into()],
            meets: vec![],
        });
    }
    assert_eq!(names(made(&config(&lists), &index).node("w").unwrap(), Kind::Pkg), Vec::<&str>::new());
}

#[test]
fn facts_choose_the_package_format_and_what_is_still_to_send() {
    let mut index = full();
    let rpms: Vec<Item> = index.items.iter().filter(|item| item.kind == Kind::Pkg).cloned().collect();
    index.items.extend(rpms.into_iter().map(|item| {
        let path = item.path.replace(".deb", ".rpm");
        Item { sha256: Digest::of(path.as_bytes()), path, ..item }
    }));
    let there = index.items.iter().find(|item| item.path == "arm64/bin/kubelet").unwrap();
    let known = Known { packages: Some(PackageFormat::Rpm), content: [there.sha256].into(), facts: None };
    let size = there.size;
    let facts = [("w".to_string(), known)].into();
    let plan = plan(&config(LISTS), &index, &facts).unwrap();
    let worker = plan.node("w").unwrap();
    assert!(worker.of_kind(Kind::Pkg).all(|wanted| wanted.item.path.ends_with(".rpm")));
    assert_eq!(names(worker, Kind::Pkg).len(), 3);
    assert_eq!(worker.bytes_to_send, worker.bytes - size);
}

#[test]
fn refused_for_its_reason() {
    let by_role = "install: {package-source: {type: bundle}}\n";
    let mut only_amd64 = full();
    only_amd64.archs = vec![Arch::Amd64];
    let mut evil = full();
    evil.items.iter_mut().for_each(|item| {
        if item.name == "kubelet" {
            item.dst = Some("/usr/bin/../../etc".into());
        }
    });
    let mut nowhere = full();
    nowhere.items.iter_mut().filter(|item| item.kind == Kind::Dir).for_each(|item| item.dst = None);
    let repo = LISTS.replace("name: containerd, type: pkg", "name: docker, type: repo");
    let cases = [
        (by_role, only_amd64, "the bundle has nothing for arm64, which w needs"),
        (by_role, evil, "destination `/usr/bin/../../etc` contains `..`"),
        (by_role, nowhere, "`conf` has no destination"),
        (&repo, full(), "but this install is offline\n  `docker` of `install.container` (line 7)"),
        (
            "install: {package-source: {type: bundle}}\npause-image: pause:9\n",
            full(),
            "image `pause:9`, asked for by `pause-image`",
        ),
        (
            "install: {package-source: {type: bundle}}\nservice: {dns: {corednstype: pod}}\n",
            full(),
            "image `coredns:1.8.4`",
        ),
    ];
    for (text, index, reason) in cases {
        let report = refused(&config(text), &index);
        assert!(report.contains(reason), "expected `{reason}`, found\n{report}");
    }
}

#[test]
fn a_delta_alone_will_do_where_nodes_have_the_rest() {
    let config = config("install: {package-source: {type: bundle}}\n");
    let (whole, mut delta) = (full(), full());
    let new = |item: &&Item| item.name == "kubelet";
    delta.carried = delta.items.iter().filter(new).map(|item| item.sha256).collect();
    delta.carried.sort();
    delta.parent = Some(Digest::of(b"parent"));
    let told = refused(&config, &delta);
    let parent = Digest::of(b"parent");
    let error = format!("are only in its parent {parent}\n  amd64 image `docker.io/calico/node:v3.19.1`\n");
    assert!(told.contains(&error), "{told}");
    assert!(told.contains(" more\n") && !told.contains("kubelet"), "{told}");
    assert!(told.ends_with("hint: give the parent with `--base`"), "{told}");

    // What is read on this machine must be at hand here: of all the rest, the manifest alone is missing.
    let content = whole.items.iter().filter(|item| !new(item)).map(|item| item.sha256).collect();
    let known = Known { content, ..Known::default() };
    let known: BTreeMap<String, Known> = ["m", "w"].map(|name| (name.to_string(), known.clone())).into();
    let error = plan(&config, &delta, &known).unwrap_err();
    let items = vec!["amd64/addons/calico.yaml".to_string()];
    assert_eq!(error, PlanError::OnlyInParent { parent, items });
    let manifests = delta.items.iter().filter(|item| item.kind == Kind::Addon).map(|item| item.sha256);
    delta.carried.extend(manifests);
    delta.carried.sort();
    let made = plan(&config, &delta, &known).unwrap();
    let kubelet = whole.items.iter().find(new).unwrap().size;
    assert_eq!(made.node("w").unwrap().bytes_to_send, kubelet);
}
