//! A node: what deploy.yaml says of it, the way onto it, and what is known of it. The one type for whoever works on
//! nodes; what a plan brings to it is beside it.

use crate::config::{self, Config};
use crate::facts::{Facts, Look, look};
use crate::plan::{NodePlan, Plan};
use crate::remote::Host;
use crate::run::Named;
use eggo_errors::Report;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// How much is known of it is a type: nothing yet, its facts ([`Surveyed`]), or facts that are asked for when they are
/// first needed ([`OnceCell`]).
#[derive(Clone)]
pub struct Node<F = ()> {
    pub host: config::Host,
    pub remote: Arc<dyn Host>,
    pub facts: F,
}

/// A node as it was found before anything is done.
pub type Surveyed = Node<Facts>;

impl<F: Default> Node<F> {
    /// Nothing is asked of it.
    pub fn new(host: config::Host, remote: Arc<dyn Host>) -> Self {
        Self { host, remote, facts: F::default() }
    }
}

impl Node<OnceCell<Facts>> {
    /// What the node has. Asked once: after its content is installed.
    pub async fn facts(&self, config: &Config) -> Result<&Facts, Report> {
        let asked = Look::installed(&config.network.cni_bin_dirs);
        Ok(self.facts.get_or_try_init(|| look(&*self.remote, asked)).await?)
    }
}

impl<F> Named for Node<F> {
    fn name(&self) -> &str {
        &self.host.name
    }
}

/// A node that was found, and what it is to get.
#[derive(Clone, Copy)]
pub struct Planned<'a> {
    pub node: &'a Surveyed,
    pub plan: &'a NodePlan,
}

impl<'a> Planned<'a> {
    /// Every node that the plan has something for.
    pub fn all(nodes: &'a [Surveyed], plan: &'a Plan) -> Vec<Self> {
        let plans: BTreeMap<&str, &NodePlan> =
            plan.nodes.iter().map(|plan| (plan.name.as_str(), plan)).collect();
        let planned = nodes.iter().filter_map(|node| {
            let plan = plans.get(node.host.name.as_str())?;
            Some(Self { node, plan })
        });
        planned.collect()
    }
}

impl Deref for Planned<'_> {
    type Target = Surveyed;

    fn deref(&self) -> &Surveyed {
        self.node
    }
}

impl Named for Planned<'_> {
    fn name(&self) -> &str {
        self.node.name()
    }
}
