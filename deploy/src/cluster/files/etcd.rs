//! How an etcd member finds the others for the first time.

use crate::config::Config;

/// Whether a member founds the cluster or comes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    New,
    Existing,
}

/// The environment file. It counts only until the member has data, and is not touched afterwards.
/// `members` are all of them, itself included, as `NAME=URL`.
pub fn environment(config: &Config, members: &[String], beginning: Beginning) -> String {
    let state = match beginning {
        Beginning::New => "new",
        Beginning::Existing => "existing",
    };
    format!(
        "ETCD_INITIAL_CLUSTER={}\nETCD_INITIAL_CLUSTER_STATE={state}\nETCD_INITIAL_CLUSTER_TOKEN={}\n",
        members.join(","),
        config.etcd.token
    )
}
