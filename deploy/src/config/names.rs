//! Nodes as people call them on a command line.

use super::Config;
use eggo_errors::Explain;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is no node of the cluster `{cluster}`")]
pub struct UnknownNode {
    word: String,
    cluster: String,
    known: Vec<String>,
}

impl Explain for UnknownNode {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new("unknown-node")
    }

    fn hint(&self) -> Option<String> {
        let known = self.known.iter().map(String::as_str);
        Some(match eggo_yaml::nearest(&self.word, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("deploy.yaml has {}", self.known.join(", ")),
        })
    }
}

impl Config {
    /// The names of nodes that are called by name or, as eggo did, by address.
    pub fn named(&self, words: &[String]) -> Result<Vec<String>, UnknownNode> {
        let name = |word: &String| match self.host(word) {
            Some(host) => Ok(host.name.clone()),
            None => Err(UnknownNode {
                word: word.clone(),
                cluster: self.cluster_id.clone(),
                known: self.hosts.iter().map(|host| host.name.clone()).collect(),
            }),
        };
        words.iter().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use eggo_errors::Explain as _;

    #[test]
    fn nodes_are_found_by_name_and_address_and_unknown_ones_are_reported() {
        let text = "masters: [{name: master1, ip: 192.168.7.1, arch: amd64}]\n\
                    workers: [{name: w1, ip: 192.168.7.2, arch: amd64}]\n\
                    install: {package-source: {type: bundle}}\n";
        let config = crate::config::parse("d.yaml", text.as_bytes()).unwrap().config;
        let named =
            |words: &[&str]| config.named(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
        assert_eq!(named(&["192.168.7.2", "master1"]).unwrap(), ["w1", "master1"]);
        let typo = named(&["w1", "mater1"]).unwrap_err();
        assert_eq!(typo.to_string(), "`mater1` is no node of the cluster `k8s-cluster`");
        assert_eq!(typo.hint().unwrap(), "did you mean `master1`?");
        assert_eq!(named(&["zebra"]).unwrap_err().hint().unwrap(), "deploy.yaml has master1, w1");
    }
}
