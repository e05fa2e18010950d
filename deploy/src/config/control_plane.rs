//! How the API is reached, whose authority it has, and where its data is.

use super::address::{Endpoint, is_subdomain};
use super::model::{ApiServer, ExternalEtcd, Host, Sans};
use super::{defaults, values};
use eggo_bundles::Role;
use eggo_yaml::Fields;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

pub(super) fn api_server(top: &Fields<'_>, hosts: &[Host], bind_port: Option<u16>) -> ApiServer {
    let mut sans = Sans::default();
    if let Some(fields) = top.fields("apiserver-cert-sans") {
        for node in fields.list("dnsnames") {
            let Some(name) = top.reader().text(node, &fields.name("dnsnames")) else { continue };
            if is_subdomain(name.strip_prefix("*.").unwrap_or(&name)) && name.parse::<IpAddr>().is_err() {
                sans.dns_names.push(name);
            } else {
                top.reader().at(node, format!("`{}`: `{name}` is not a domain", fields.name("dnsnames")));
            }
        }
        for node in fields.list("ips") {
            let Some(text) = top.reader().text(node, &fields.name("ips")) else { continue };
            match text.parse() {
                Ok(ip) => sans.ips.push(ip),
                Err(_) => {
                    top.reader().at(node, format!("`{}`: `{text}` is not an IP address", fields.name("ips")));
                }
            }
        }
        fields.finish();
    }
    let given = top.text("apiserver-endpoint").filter(|text| !text.is_empty()).and_then(|text| {
        let endpoint = text.parse::<Endpoint>().ok();
        if let (None, Some(node)) = (&endpoint, top.node("apiserver-endpoint")) {
            let message = format!("`apiserver-endpoint` is `{text}`, expected HOST:PORT");
            top.reader().at(node, message);
        }
        endpoint
    });
    let first = |role| hosts.iter().find(move |host| host.has(role));
    let endpoint = given
        .or_else(|| Some(Endpoint::new(first(Role::Loadbalance)?.ip, bind_port?)))
        .or_else(|| Some(Endpoint::new(first(Role::Master)?.ip, defaults::API_PORT)))
        .unwrap_or_else(|| Endpoint::new("", 0));
    ApiServer {
        endpoint,
        sans,
        timeout: duration_at(top, "apiserver-timeout").unwrap_or(defaults::API_TIMEOUT),
    }
}

pub(super) fn external_ca(top: &Fields<'_>) -> Option<PathBuf> {
    let path = top.text("external-ca-path").filter(|path| !path.is_empty());
    let wanted = top.boolean("external-ca").unwrap_or(false);
    if let (true, None, Some(node)) = (wanted, &path, top.node("external-ca")) {
        top.reader().at_hinted(
            node,
            "`external-ca` is true, but `external-ca-path` is missing",
            "name the folder that holds ca.crt and ca.key",
        );
    }
    path.filter(|_| wanted).map(PathBuf::from)
}

/// `etcd-external: {endpoints, ca, cert, key}`; `false` is eggo's way to say no.
pub(super) fn external_etcd(top: &Fields<'_>) -> Option<ExternalEtcd> {
    let node = top.node("etcd-external")?;
    if node.as_mapping().is_none() {
        if top.boolean("etcd-external") == Some(true) {
            top.reader().at_hinted(
                node,
                "`etcd-external` says that there is an etcd, but not where",
                "write `etcd-external: {endpoints: [https://HOST:2379], ca: FILE, cert: FILE, key: FILE}`",
            );
        }
        return None;
    }
    let fields = top.fields("etcd-external")?;
    let mut endpoints = Vec::new();
    for node in fields.list("endpoints") {
        let Some(text) = top.reader().text(node, &fields.name("endpoints")) else { continue };
        match text.strip_prefix("https://").and_then(|rest| rest.parse::<Endpoint>().ok()) {
            Some(endpoint) => endpoints.push(endpoint.url()),
            None => top
                .reader()
                .at(node, format!("`{}`: `{text}` is not like https://HOST:2379", fields.name("endpoints"))),
        }
    }
    if fields.list("endpoints").is_empty() {
        fields.missing("endpoints");
    }
    let path = |key| fields.required(key).map(PathBuf::from);
    let (ca, cert, key) = (path("ca"), path("cert"), path("key"));
    fields.finish();
    Some(ExternalEtcd { endpoints, ca: ca?, cert: cert?, key: key? })
}

fn duration_at(fields: &Fields<'_>, key: &'static str) -> Option<Duration> {
    let text = fields.text(key).filter(|text| !text.is_empty())?;
    let duration = values::duration(&text);
    if let (None, Some(node)) = (duration, fields.node(key)) {
        let message = format!("`{}` is `{text}`, expected a time such as 120s or 2m", fields.name(key));
        fields.reader().at(node, message);
    }
    duration
}
