//! What is asked of a cluster that was installed: what all such operations begin with, and those that only look.

use super::Access;
use crate::blocking::blocking;
use crate::cluster::certs::{self, Line};
use crate::cluster::context::Bare;
use crate::cluster::status::{self, Status};
use crate::cluster::{Cluster, ClusterView, Node};
use crate::config::Config;
use crate::events::Sink;
use crate::journal::Journal;
use crate::run::Run;
use crate::state;
use crate::stop::Stop;
use eggo_errors::Report;
use std::path::PathBuf;
use std::sync::Arc;

/// A cluster that was installed from this machine.
pub struct LifeRequest {
    pub config: Arc<Config>,
    pub access: Access,
    /// The cluster's folder on this machine.
    pub state: PathBuf,
    pub events: Arc<dyn Sink>,
    pub stop: Stop,
}

impl LifeRequest {
    /// An install that has not come to the cluster itself has none to ask about.
    pub fn is_installed(&self) -> Result<(), Report> {
        if state::load(&self.state)?.is_some() {
            return Ok(());
        }
        Err(state::none(&self.config, &self.state))
    }

    /// Nodes by their names. Told without asking any: there is no such cluster, or no such node in it.
    pub fn named(&self, words: &[String]) -> Result<Vec<String>, Report> {
        self.is_installed()?;
        Ok(self.config.named(words)?)
    }

    /// The cluster without any content to install. Nodes are connected to when they are first needed,
    /// so that one that is gone does not hide the others.
    pub(super) async fn cluster(self) -> Result<Cluster, Report> {
        self.is_installed()?;
        let folder = self.state.clone();
        let journal = blocking(move || Journal::open(&folder)).await?;
        let nodes = self.nodes()?;
        let LifeRequest { config, access, state, events, stop } = self;
        let run = Arc::new(Run::new(journal, events).stopped_by(stop).limited(access.limits().clone()));
        Ok(Cluster::new(config, nodes, run, Arc::new(Bare), state))
    }

    /// The same for those who only look: an install may be running meanwhile.
    fn view(&self) -> Result<ClusterView, Report> {
        self.is_installed()?;
        let limits = self.access.limits().clone();
        Ok(ClusterView::new(self.config.clone(), self.nodes()?, self.state.clone(), limits))
    }

    fn nodes(&self) -> Result<Vec<Node>, Report> {
        let hosts = self.config.hosts.iter();
        hosts.map(|host| Ok(Node::new(host.clone(), self.access.host(host, &self.events)?))).collect()
    }
}

pub async fn status(request: LifeRequest) -> Result<Status, Report> {
    status::gather(&request.view()?).await
}

pub async fn certificates(request: LifeRequest) -> Result<Vec<Line>, Report> {
    let view = request.view()?;
    certs::status(&view, &view.nodes.iter().collect::<Vec<_>>()).await
}
