//! How the servers that a manifest names are reached: by which way, and with which certificates.

use crate::http::{Options, Trust};
use crate::manifest::{Manifest, RepoSource, Tls};
use crate::packages;
use std::path::PathBuf;
use url::Url;

/// Adds what the manifest says to the options of a run.
pub fn reach(manifest: &Manifest, options: Options) -> Result<Options, packages::Error> {
    let mut trusts = Vec::new();
    for registry in &manifest.registries {
        let mirrors = registry.mirrors.iter().map(|mirror| {
            let host = mirror.split_once("://").map_or(mirror.as_str(), |(_, rest)| rest);
            host.split('/').next().unwrap_or(host).to_string()
        });
        let hosts = std::iter::once(registry.name.clone()).chain(mirrors);
        trusts.extend(hosts.filter_map(|host| trust(manifest, &registry.tls, host)));
    }
    for repo in &manifest.repos {
        let lists: Vec<&String> = match &repo.source {
            RepoSource::Deb { urls, .. } => urls.iter().collect(),
            RepoSource::Rpm { urls, mirrorlist, metalink, .. } => {
                urls.iter().chain(mirrorlist).chain(metalink).collect()
            }
            RepoSource::DebSystem | RepoSource::RpmFile { .. } => Vec::new(),
        };
        let hosts = lists.into_iter().filter_map(|text| host(text));
        trusts.extend(hosts.filter_map(|host| trust(manifest, &repo.tls, host)));
    }
    Ok(Options { routes: packages::routes(manifest)?, trusts, ..options })
}

/// `host:port`; urls of rpm repositories may hold variables, which are no part of it.
fn host(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))
}

fn trust(manifest: &Manifest, tls: &Tls, host: String) -> Option<Trust> {
    let file = |name: &String| -> PathBuf { manifest.resolve(name) };
    (*tls != Tls::default()).then(|| Trust {
        host,
        ca_files: tls.ca.iter().map(file).collect(),
        client: tls.client.as_ref().map(|(certificate, key)| (file(certificate), file(key))),
        insecure: tls.insecure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_count_for_the_servers_that_they_are_named_for() {
        let yaml = "name: a\nversion: 1\n\
            registries:\n\
            - {name: 'r.lan:5000', mirrors: ['https://m.lan/x'], ca: r.pem}\n\
            - {name: docker.io, mirrors: [hub.lan]}\n\
            repos:\n\
            - {name: d, type: deb, url: 'https://d.lan/debian', suites: [./], client-cert: c.pem, client-key: c.key}\n\
            - {name: r, type: rpm, url: 'https://e.lan:8443/$basearch/os', gpgkey: k, insecure-skip-verify: true}\n";
        let manifest = Manifest::parse("/m/m.yaml".as_ref(), yaml.as_bytes()).unwrap();
        let trusts = reach(&manifest, Options::default()).unwrap().trusts;
        let hosts: Vec<&str> = trusts.iter().map(|trust| trust.host.as_str()).collect();
        assert_eq!(hosts, ["r.lan:5000", "m.lan", "d.lan:443", "e.lan:8443"]);
        assert_eq!(trusts[1].ca_files, [PathBuf::from("/m/r.pem")]);
        assert_eq!(trusts[2].client, Some(("/m/c.pem".into(), "/m/c.key".into())));
        assert!(trusts[3].insecure && !trusts[2].insecure);
        let half = yaml.replace(", client-key: c.key", "");
        let problems = Manifest::parse("m.yaml".as_ref(), half.as_bytes()).unwrap_err().to_string();
        assert!(problems.contains("client-key"), "{problems}");
    }
}
