//! What every phase of the cluster works on.

use super::kubectl::Kubectl;
use crate::blocking::blocking;
use crate::components::{self, Component};
use crate::config::{self, Config};
use crate::facts::Facts;
use crate::limits::Limits;
use crate::phases::Scene;
use crate::pki::folder::{Reuse, certificates};
use crate::pki::table::Subject;
use crate::pki::{AuthorityName, Certificate, Folder, Leaf, Names, Row, table};
use crate::remote::RemoteFile;
use crate::run::Run;
use eggo_bundles::{Arch, Role};
use eggo_errors::Report;
use jiff::Timestamp;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tokio::sync::OnceCell;
use zeroize::Zeroizing;

/// What the bundle has for the cluster itself: manifests, scripts, the names of images.
pub trait Shelf: Send + Sync {
    /// The manifest `name` of the addons.
    fn addon(&self, name: &str) -> Result<Option<String>, Report>;
    /// The file `name`, as a node of this arch gets it.
    fn file(&self, name: &str, arch: Arch) -> Result<Option<Vec<u8>>, Report>;
    /// The references of all images.
    fn images(&self) -> Vec<String>;
}

/// No bundle is at hand.
pub struct Bare;

impl Shelf for Bare {
    fn addon(&self, _name: &str) -> Result<Option<String>, Report> {
        Ok(None)
    }

    fn file(&self, _name: &str, _arch: Arch) -> Result<Option<Vec<u8>>, Report> {
        Ok(None)
    }

    fn images(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A node of the cluster. Its facts are asked for when they are first needed.
pub type Node = crate::node::Node<OnceCell<Facts>>;

/// A cluster as those see it who only look: nothing is written by it, on this machine or on nodes, and no lock is
/// needed.
pub struct ClusterView {
    pub config: Arc<Config>,
    pub nodes: Vec<Node>,
    /// The cluster's folder on the control machine.
    pub state: PathBuf,
    pub limits: Limits,
    pki: OnceLock<Folder>,
}

/// A cluster that is worked on.
pub struct Cluster {
    pub view: ClusterView,
    pub run: Arc<Run>,
    pub shelf: Arc<dyn Shelf>,
}

impl Deref for Cluster {
    type Target = ClusterView;

    fn deref(&self) -> &ClusterView {
        &self.view
    }
}

impl ClusterView {
    pub fn new(config: Arc<Config>, nodes: Vec<Node>, state: PathBuf, limits: Limits) -> Self {
        Self { config, nodes, state, limits, pki: OnceLock::new() }
    }

    /// The certificates of a cluster that is installed.
    pub fn pki(&self) -> Result<&Folder, Report> {
        if let Some(folder) = self.pki.get() {
            return Ok(folder);
        }
        let root = crate::state::Folder::new(&self.state).pki();
        let folder = Folder::open(&root, Timestamp::now())?;
        Ok(self.pki.get_or_init(|| folder))
    }

    /// Every certificate on this machine with its path, authorities first; those that have expired, too.
    pub async fn certificates(&self) -> Result<Vec<(String, Certificate)>, Report> {
        let root = crate::state::Folder::new(&self.state).pki();
        Ok(blocking(move || certificates(&root)).await?)
    }

    /// The nodes with a role, in the order of deploy.yaml.
    pub fn with_role(&self, role: Role) -> Vec<&Node> {
        self.nodes.iter().filter(|node| node.host.has(role)).collect()
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.host.name == name)
    }

    pub async fn kubectl_on<'a>(&'a self, master: &'a Node) -> Result<Kubectl<'a>, Report> {
        let facts = master.facts(&self.config).await?;
        let program = require(master, facts, "kubectl", Role::Master)?;
        let server = super::flags::api_url(&master.host);
        Ok(Kubectl::new(&*master.remote, program, self.admin_kubeconfig(&server)?))
    }

    /// The administrator's kubeconfig for one server. It is never on a node. Where the certificate on this machine is
    /// not good any more, another one is made for this once.
    pub fn admin_kubeconfig(&self, server: &str) -> Result<Zeroizing<String>, Report> {
        let leaf = self.pki()?.leaf_for_now(None, &self.admin_row(), Timestamp::now())?;
        self.kubeconfig(server, "kubernetes-admin", &leaf)
    }

    fn admin_row(&self) -> Row {
        let api = self.api_names();
        let ip = self.config.service.gateway;
        table::rows(&Subject { name: "admin", ip, leaves: &[table::ADMIN], api: &api }).remove(0)
    }

    pub fn kubeconfig(&self, server: &str, user: &str, leaf: &Leaf) -> Result<Zeroizing<String>, Report> {
        use super::files::kubeconfig::{Credentials, Kubeconfig};
        let kubeconfig = Kubeconfig {
            cluster: &self.config.cluster_id,
            server,
            authority: &self.pki()?.authority(AuthorityName::Cluster).pem,
            user,
            credentials: Credentials::Certificate(leaf),
        };
        Ok(kubeconfig.write())
    }

    /// `https://HOST:PORT` of the whole API, as the nodes and the administrator know it.
    pub fn endpoint(&self) -> String {
        format!("https://{}", self.config.api.endpoint)
    }

    pub fn api_names(&self) -> Names {
        let config = &self.config;
        let mut extra = Names { dns: config.api.sans.dns_names.clone(), ips: config.api.sans.ips.clone() };
        if let Some(balancer) = config.load_balancer() {
            extra.add(&balancer.ip.to_string());
        }
        // Pods reach the API there, whatever deploy.yaml calls the gateway.
        extra.add(&config.service.api().to_string());
        Names::of_api(&config.dns.domain, config.service.gateway, &config.api.endpoint.host, &extra)
    }

    /// By which the kubelet of a host talks to the API.
    pub fn kubelet_client_row(&self, host: &config::Host) -> Row {
        let (api, leaves) = (Names::default(), [table::KUBELET_CLIENT]);
        table::rows(&Subject { name: &host.name, ip: host.ip, leaves: &leaves, api: &api }).remove(0)
    }

    /// The leaves that a node holds.
    pub fn rows(&self, host: &config::Host) -> Vec<Row> {
        let (leaves, api) = (components::leaves(&self.config, host), self.api_names());
        table::rows(&Subject { name: &host.name, ip: host.ip, leaves: &leaves, api: &api })
    }
}

impl Cluster {
    pub fn new(
        config: Arc<Config>,
        nodes: Vec<Node>,
        run: Arc<Run>,
        shelf: Arc<dyn Shelf>,
        state: PathBuf,
    ) -> Self {
        let limits = run.limits().clone();
        Self { view: ClusterView::new(config, nodes, state, limits), run, shelf }
    }

    /// An operation that is about all of it.
    pub fn scene(&self) -> Scene<'_> {
        Scene { run: &self.run, config: &self.config, hosts: &self.config.hosts, plan: None }
    }

    /// The same cluster with another config: nodes that it does not have are left out.
    pub fn with_config(&self, config: Arc<Config>) -> Self {
        let nodes = self.nodes.iter().filter_map(|node| {
            let host = config.hosts.iter().find(|host| host.name == node.host.name)?;
            Some(Node::new(host.clone(), node.remote.clone()))
        });
        let nodes = nodes.collect();
        Self::new(config.clone(), nodes, self.run.clone(), self.shelf.clone(), self.state.clone())
    }

    /// The same cluster, whose nodes are looked at again: their programs have changed.
    pub fn afresh(&self) -> Self {
        self.with_config(self.config.clone())
    }

    /// Does what takes a while on this machine's disk (many keys, each of them synced), with a cluster of its own: off
    /// the threads that serve connections.
    pub async fn on_disk<T: Send + 'static>(&self, work: impl FnOnce(&Cluster) -> T + Send + 'static) -> T {
        let own = self.afresh();
        blocking(move || work(&own)).await
    }

    /// Reads from the bundle, off the threads that serve connections.
    pub async fn from_shelf<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Shelf) -> T + Send + 'static,
    ) -> T {
        let shelf = self.shelf.clone();
        blocking(move || read(&*shelf)).await
    }

    /// The certificates; made on first use as long as no node can have any of them.
    pub fn pki(&self) -> Result<&Folder, Report> {
        if self.view.pki.get().is_none() && !crate::state::was_made(&self.state) {
            let root = crate::state::Folder::new(&self.state).pki();
            let folder = Folder::prepare(&root, self.config.external_ca.as_deref(), Timestamp::now())?;
            return Ok(self.view.pki.get_or_init(|| folder));
        }
        self.view.pki()
    }

    /// The administrator's certificate on this machine: as it is if it is good, or a new one.
    pub fn keep_admin(&self, reuse: Reuse) -> Result<(), Report> {
        self.pki()?.leaf(None, &self.admin_row(), reuse, Timestamp::now())?;
        Ok(())
    }

    /// As [`ClusterView::with_role`], without those that have failed in this run.
    pub fn standing(&self, role: Role) -> impl Iterator<Item = &Node> {
        let nodes = self.nodes.iter().filter(move |node| node.host.has(role));
        nodes.filter(|node| !self.run.has_failed(&node.host.name))
    }

    /// kubectl on the first master that has not failed.
    pub async fn kubectl(&self) -> Result<Kubectl<'_>, Report> {
        let master = self.standing(Role::Master).next();
        let master = master.ok_or_else(|| Report::new("no master is left to talk to the API"))?;
        self.kubectl_on(master).await
    }

    /// The kubeconfig of a component, as a file of the host's.
    pub fn kubeconfig_of(
        &self,
        component: &Component,
        host: &config::Host,
        server: &str,
    ) -> Result<RemoteFile, Report> {
        let known = component.kubeconfig.ok_or_else(|| {
            Report::new("a component without a kubeconfig is to get one").exit(eggo_errors::Exit::Bug)
        })?;
        let text = self.kubeconfig(server, known.user, &self.leaf(host, known.leaf)?)?;
        Ok(RemoteFile::new(known.path, text.to_string()).secret())
    }

    /// A new client certificate for the kubelet of a host. It is kept nowhere but on the node.
    pub fn kubelet_client(&self, host: &config::Host) -> Result<Leaf, Report> {
        Ok(self.pki()?.sign(&self.kubelet_client_row(host), Timestamp::now())?)
    }

    /// One leaf of a node, made if need be.
    pub fn leaf(&self, host: &config::Host, path: &str) -> Result<Leaf, Report> {
        let row = self.rows(host).into_iter().find(|row| row.path == path);
        let row = row.ok_or_else(|| {
            Report::new(format!("{host}: no certificate `{path}` for its roles")).exit(eggo_errors::Exit::Bug)
        })?;
        Ok(self.pki()?.leaf(Some(&host.name), &row, Reuse::WhenGood, Timestamp::now())?)
    }
}

/// Where a program is on a node, or an error that says what the bundle lacks.
pub fn require<'a>(node: &Node, facts: &'a Facts, program: &str, role: Role) -> Result<&'a str, Report> {
    facts.path(program).ok_or_else(|| {
        Report::new(format!("{}: `{program}` is not installed", node.host.name))
            .hinted(format!("add a package or binary with `{program}` for the role `{role}` to the bundle"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Silent;
    use crate::journal::Journal;

    #[test]
    fn the_api_s_certificate_holds_for_the_first_address_of_services() {
        let names = |service: &str| {
            let text = format!(
                "masters: [{{name: m, ip: 192.168.7.1, arch: amd64}}]\n\
                 workers: [{{name: w, ip: 192.168.7.2, arch: amd64}}]\n\
                 install: {{package-source: {{type: bundle}}}}\n{service}"
            );
            let config = Arc::new(config::parse("d.yaml", text.as_bytes()).unwrap().config);
            let folder = tempfile::tempdir().unwrap();
            let run = Arc::new(Run::new(Journal::open(folder.path()).unwrap(), Arc::new(Silent)));
            let cluster = Cluster::new(config, Vec::new(), run, Arc::new(Bare), folder.path().to_path_buf());
            cluster.api_names().ips.iter().map(|ip| ip.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(""), "10.32.0.1 192.168.7.1");
        assert_eq!(names("service: {gateway: 10.32.0.254}\n"), "10.32.0.254 192.168.7.1 10.32.0.1");
        assert_eq!(names("service: {cidr: 10.96.0.0/12}\n"), "10.96.0.1 192.168.7.1");
    }

    #[test]
    fn those_who_only_look_write_no_certificate() {
        let text = "masters: [{name: m, ip: 192.168.7.1, arch: amd64}]\n\
                    workers: [{name: m, ip: 192.168.7.1, arch: amd64}]\n\
                    install: {package-source: {type: bundle}}\n";
        let config = Arc::new(config::parse("d.yaml", text.as_bytes()).unwrap().config);
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().to_path_buf();
        let view = ClusterView::new(config.clone(), Vec::new(), state.clone(), Limits::default());
        assert!(view.admin_kubeconfig("https://m:6443").is_err(), "and no authority");
        let run = Arc::new(Run::new(Journal::open(&state).unwrap(), Arc::new(Silent)));
        let cluster = Cluster::new(config, Vec::new(), run, Arc::new(Bare), state.clone());
        cluster.pki().unwrap();
        let files = || crate::state::State::list(&crate::state::Folder::new(&state)).unwrap();
        let before = files();
        let text = view.admin_kubeconfig("https://m:6443").unwrap();
        assert!(text.contains("https://m:6443"));
        assert_eq!(files(), before, "its certificate does not exist, and none is left");
        cluster.keep_admin(Reuse::WhenGood).unwrap();
        assert_eq!(files().len(), before.len() + 2);
        assert_eq!(view.admin_kubeconfig("s").unwrap(), view.admin_kubeconfig("s").unwrap());
    }
}
