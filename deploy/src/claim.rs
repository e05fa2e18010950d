//! Whose a node is: one state folder on one control machine has claimed it, as a file on the node says.

use eggo_errors::{Code, Count, Explain};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The claim: its mark, then one line each for the cluster, who holds it, and since when.
pub const MARK: &str = "/var/lib/eggo/mark";
/// The cluster, where an earlier version has claimed the node: its mark has one line.
pub const CLUSTER: &str = "/var/lib/eggo/cluster";

/// The code of an error about a node that another holds.
pub(crate) const HELD: Code = Code::new("node-claimed");
/// What to do about a node that another holds.
pub(crate) const TAKE_OVER: &str = "make sure that nobody else installs on these nodes, or cleans them up, then take them over \
                                    with `--take-over`";

/// More than any path and name of a person.
const LONGEST: usize = 300;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// A random word. The journal that knows it is the holder's; another machine that later answers under the same
    /// name does not have it.
    pub mark: String,
    pub cluster: Option<String>,
    /// `USER@HOST:FOLDER` of the control machine. None: an earlier version wrote it.
    pub holder: Option<String>,
    pub since: Option<String>,
}

impl Claim {
    /// From the lines of the file.
    pub(crate) fn parse<S: AsRef<str>>(lines: &[S]) -> Option<Self> {
        let lines: Vec<&str> = lines.iter().map(|line| line.as_ref().trim()).collect();
        let mark = lines.first().filter(|mark| !mark.is_empty())?;
        let named = |name: &str| {
            let line = lines.iter().skip(1).find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.map(one_line)
        };
        let (cluster, holder, since) = (named("cluster"), named("holder"), named("since"));
        Some(Self { mark: mark.to_string(), cluster, holder, since })
    }
}

/// Who holds it, since when, and for which cluster.
impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            Some(holder) => write!(f, "held by {holder}")?,
            None => f.write_str("held by another state folder (claimed by an earlier version)")?,
        }
        if let Some(since) = &self.since {
            write!(f, " since {since}")?;
        }
        match &self.cluster {
            Some(cluster) => write!(f, ", for the cluster `{cluster}`"),
            None => Ok(()),
        }
    }
}

/// Nodes that another state folder or control machine holds, with their claims.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} by another control machine or state folder", Count(.0.len(), "node is held", "nodes are held"))]
pub struct Held(pub Vec<(String, Claim)>);

impl Explain for Held {
    fn code(&self) -> Code {
        HELD
    }

    fn notes(&self) -> Vec<String> {
        self.0.iter().map(|(node, claim)| format!("{node}: {claim}")).collect()
    }

    fn hint(&self) -> Option<String> {
        Some(TAKE_OVER.into())
    }
}

/// As one line of the file may have it.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_says_whose_the_node_is() {
        let claim = Claim::parse(&["0a", "cluster one", "holder ops@desk:/etc/eggo/one", "since now"]);
        let claim = claim.unwrap();
        assert_eq!(claim.mark, "0a");
        assert_eq!(claim.to_string(), "held by ops@desk:/etc/eggo/one since now, for the cluster `one`");
    }

    #[test]
    fn one_of_an_earlier_version_counts_too() {
        let claim = Claim::parse(&["0a"]).unwrap();
        assert_eq!(claim.to_string(), "held by another state folder (claimed by an earlier version)");
        assert_eq!(Claim::parse::<&str>(&[]), None);
        assert_eq!(Claim::parse(&[""]), None);
    }
}
