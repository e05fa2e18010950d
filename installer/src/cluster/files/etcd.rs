//! How an etcd member finds the others for the first time.

use crate::cluster::flags::peer_url;
use crate::config::{Config, Host};

/// Whether a member founds the cluster or comes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    New,
    Existing,
}

/// The environment file. It counts only until the member has data, and is not touched afterwards.
pub fn environment(config: &Config, members: &[&Host], beginning: Beginning) -> String {
    let cluster: Vec<String> =
        members.iter().map(|member| format!("{}={}", member.name, peer_url(member))).collect();
    let state = match beginning {
        Beginning::New => "new",
        Beginning::Existing => "existing",
    };
    format!(
        "ETCD_INITIAL_CLUSTER={}\nETCD_INITIAL_CLUSTER_STATE={state}\nETCD_INITIAL_CLUSTER_TOKEN={}\n",
        cluster.join(","),
        config.etcd.token
    )
}
