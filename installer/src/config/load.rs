//! deploy.yaml of any generation → [`Config`], with all that is wrong in it at once.

use super::address::{Cidr, Endpoint, is_subdomain};
use super::hosts::Hosts;
use super::install;
use super::model::*;
use super::warnings::Warnings;
use super::{Secret, defaults, values};
use eggo_bundles::Role;
use eggo_terminal::Explain;
use eggo_yaml::{Fields, Node, Problems, Reader};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A configuration that holds, and what is odd about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Problems,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}", title(.0))]
    Invalid(Problems),
}

impl From<Problems> for LoadError {
    fn from(problems: Problems) -> Self {
        Self::Invalid(problems)
    }
}

/// One problem speaks for itself; several are listed below, each with its place.
fn title(problems: &Problems) -> String {
    match problems.list.as_slice() {
        [one] => format!("{}:{}:{}: {}", problems.file, one.line, one.column, one.message),
        list => format!("{} problems in `{}`", list.len(), problems.file),
    }
}

impl Explain for LoadError {
    fn notes(&self) -> Vec<String> {
        match self {
            Self::Invalid(problems) if problems.list.len() > 1 => vec![problems.to_string()],
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Invalid(problems) if problems.list.len() == 1 => problems.list[0].hint.clone(),
            Self::Invalid(_) => None,
            Self::Read { .. } => Some("write one with `eggo-install template`".into()),
        }
    }
}

pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    let bytes = std::fs::read(path).map_err(|source| LoadError::Read { path: path.to_path_buf(), source })?;
    Ok(parse(&path.display().to_string(), &bytes)?)
}

/// `file` is only for messages.
pub fn parse(file: &str, bytes: &[u8]) -> Result<Loaded, Problems> {
    let root = eggo_yaml::parse(file, bytes)?;
    let slashes = eggo_yaml::slash_comments(&root);
    if !slashes.is_empty() {
        // What else is wrong would only be their consequence.
        return Err(Problems { file: file.to_string(), list: slashes });
    }
    let reader = Reader::new(file);
    let warnings = Warnings::default();
    let top = reader.fields(&root, "");
    let config = read(&top, &warnings);
    top.finish();
    let config = reader.finish(config)?;
    Ok(Loaded { config, warnings: warnings.finish(file) })
}

/// Where something is wrong, a default stands in and the reader knows of it.
fn read<'a>(top: &Fields<'a>, warnings: &'a Warnings) -> Config {
    let external_etcd = external_etcd(top);
    let (hosts, load_balancer_port) = hosts(top, warnings, external_etcd.is_some());
    let roles: Vec<Role> =
        Role::ALL.into_iter().filter(|role| hosts.iter().any(|host| host.has(*role))).collect();
    let install = install::read(top, warnings, &roles);
    let config = Config {
        cluster_id: cluster_id(top),
        login: login(top),
        external_ca: external_ca(top),
        service: service(top),
        dns: dns(top),
        network: network(top, warnings),
        api: api_server(top, &hosts, load_balancer_port),
        etcd: Etcd {
            token: top.text("etcd-token").unwrap_or_else(|| defaults::ETCD_TOKEN.to_string()),
            external: external_etcd,
        },
        runtime: runtime(top, warnings),
        kubelet_serving: top.boolean("enable-kubelet-serving").unwrap_or(false),
        extra_args: extra_args(top),
        open_ports: open_ports(top),
        content: install.content,
        addons: install.addons,
        hooks: install.hooks,
        hosts,
        load_balancer_port,
    };
    check_networks(top, &config);
    warn_about_content(top, warnings, &config);
    config
}

fn cluster_id(top: &Fields<'_>) -> String {
    let id = top.text("cluster-id").unwrap_or_else(|| defaults::CLUSTER_ID.to_string());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = id.chars().all(plain) && id.starts_with(|c: char| c.is_ascii_alphanumeric()) && id.len() <= 63;
    if let (false, Some(node)) = (good, top.node("cluster-id")) {
        let message = format!("`cluster-id` is `{id}`, which cannot name a folder safely");
        top.reader().at_hinted(node, message, "use up to 63 letters, digits, `-`, `_` and `.`");
    }
    id
}

fn login(top: &Fields<'_>) -> Login {
    let user = top.text("username").filter(|user| !user.is_empty());
    let user = user.unwrap_or_else(|| defaults::USER.to_string());
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '\\');
    if let Some(node) = top.node("username")
        && (!user.chars().all(plain) || user.starts_with('-'))
    {
        top.reader().at(node, format!("`username` is `{user}`, which is not a login name"));
    }
    let filled = |key| top.text(key).filter(|text| !text.is_empty());
    Login {
        user,
        password: filled("password").map(Secret::new),
        private_key: filled("private-key-path").map(PathBuf::from),
    }
}

fn hosts<'a>(top: &Fields<'a>, warnings: &Warnings, etcd_is_external: bool) -> (Vec<Host>, Option<u16>) {
    let reader = top.reader();
    let mut hosts = Hosts::new(reader);
    let workers = top.spelled(&["workers", "nodes"]);
    let balancer = top.spelled(&["loadbalance", "loadbalancer"]);
    hosts.list(top, "masters", Role::Master);
    hosts.list(top, workers, Role::Worker);
    hosts.list(top, "etcds", Role::Etcd);
    let bind_port = hosts.load_balancer(top, balancer);
    let mut hosts = hosts.finish();

    for key in ["masters", workers] {
        match top.node(key) {
            None => top.missing(key),
            Some(node) if node.as_sequence().is_some_and(<[_]>::is_empty) => {
                reader.at(node, format!("`{key}` is empty; a cluster needs at least one"));
            }
            Some(_) => {}
        }
    }
    let etcds = top.node("etcds").filter(|node| node.as_sequence().is_some_and(|list| !list.is_empty()));
    match (etcds, etcd_is_external) {
        (Some(node), true) => reader.at(node, "`etcds` cannot be combined with `etcd-external`"),
        (None, false) => {
            for host in hosts.iter_mut().filter(|host| host.has(Role::Master)) {
                host.roles.insert(Role::Etcd);
            }
        }
        _ => {}
    }
    let members = hosts.iter().filter(|host| host.has(Role::Etcd)).count();
    if let Some(node) = etcds.or(top.node("masters")).filter(|_| members > 0) {
        if members % 2 == 0 {
            let message = format!(
                "{members} etcd members survive the loss of {}, no more than {} do",
                (members - 1) / 2,
                members - 1
            );
            warnings.at_hinted(node, message, "use an odd number");
        } else if members > 7 {
            warnings.at(node, format!("{members} etcd members slow every write down; 3 or 5 are usual"));
        }
    }
    if let (Some(port), Some(node)) = (bind_port, top.node(balancer))
        && port == defaults::API_PORT
        && hosts.iter().any(|host| host.has(Role::Loadbalance) && host.has(Role::Master))
    {
        let message = format!("`loadbalance.bind-port` {port} is taken by the API server of the same host");
        reader.at_hinted(node, message, format!("use another port, such as {}", defaults::BIND_PORT));
    }
    (hosts, bind_port)
}

fn external_ca(top: &Fields<'_>) -> Option<PathBuf> {
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

fn service(top: &Fields<'_>) -> Service {
    let fields = top.fields("service");
    let fallback: Cidr = defaults::SERVICE_CIDR.parse().expect("a default");
    let cidr = fields.as_ref().and_then(|fields| network_at(fields, "cidr")).unwrap_or(fallback);
    let address = |n| cidr.nth(n).unwrap_or(cidr.address());
    let given = |key| fields.as_ref().and_then(|fields| fields.parsed::<IpAddr>(key, "an IP address"));
    let gateway = given("gateway").unwrap_or(address(defaults::GATEWAY));
    let dns = given("dnsaddr");
    let vip = top.parsed::<IpAddr>("dns-vip", "an IP address");
    if let (Some(dns), Some(vip), Some(node)) = (dns, vip, top.node("dns-vip"))
        && dns != vip
    {
        top.reader().at_hinted(
            node,
            format!("`dns-vip` is {vip}, but `service.dnsaddr` is {dns}"),
            "both are the address of the DNS service; keep one",
        );
    }
    if let Some(fields) = fields {
        // The loader of `dns` reads it.
        fields.node("dns");
        fields.finish();
    }
    Service { cidr, dns: dns.or(vip).unwrap_or(address(defaults::DNS)), gateway }
}

fn dns(top: &Fields<'_>) -> Dns {
    let service = top.fields("service");
    let fields = service.as_ref().and_then(|service| service.fields("dns"));
    let mut kind = DnsKind::Binary;
    if let Some(fields) = fields {
        let version = fields.text("imageversion");
        let replicas = fields.parsed::<std::num::NonZeroU32>("replicas", "a number above 0");
        match fields.text("corednstype").as_deref() {
            None | Some("" | "binary") => {}
            Some("pod") => {
                kind = DnsKind::Pod {
                    image_version: version.unwrap_or_else(|| defaults::COREDNS_VERSION.to_string()),
                    replicas: replicas.map_or(defaults::COREDNS_REPLICAS, Into::into),
                };
            }
            Some(other) => {
                let message =
                    format!("`{}` is `{other}`, expected `pod` or `binary`", fields.name("corednstype"));
                let node = fields.node("corednstype");
                node.into_iter().for_each(|node| top.reader().at(node, message.clone()));
            }
        }
        fields.finish();
    }
    let domain = top.text("dns-domain").unwrap_or_else(|| defaults::DNS_DOMAIN.to_string());
    if let Some(node) = top.node("dns-domain").filter(|_| !is_subdomain(&domain)) {
        top.reader().at(node, format!("`dns-domain` is `{domain}`, which is not a domain"));
    }
    Dns { domain, kind }
}

fn network(top: &Fields<'_>, warnings: &Warnings) -> Network {
    let mut network = Network {
        pod_cidr: defaults::POD_CIDR.parse().expect("a default"),
        plugin: None,
        plugin_args: BTreeMap::new(),
        cni_bin_dirs: vec![defaults::CNI_BIN_DIR.to_string()],
    };
    if let Some(fields) = top.fields("network") {
        network.pod_cidr = network_at(&fields, "podcidr").unwrap_or(network.pod_cidr);
        network.plugin = fields.text("plugin").filter(|plugin| !plugin.is_empty());
        if let Some(args) = fields.fields(fields.spelled(&["plugin-args", "pluginargs"])) {
            network.plugin_args = texts(&args);
        }
        fields.finish();
    }
    if let (Some(kind), Some(node)) = (top.text("network-plugin"), top.node("network-plugin"))
        && !kind.is_empty()
        && kind != "cni"
    {
        top.reader().at(node, format!("`network-plugin` is `{kind}`, expected `cni`"));
    }
    if let (Some(dirs), Some(node)) = (top.text("cni-bin-dir"), top.node("cni-bin-dir")) {
        network.cni_bin_dirs = dirs.split(',').map(|dir| dir.trim().to_string()).collect();
        network.cni_bin_dirs.retain(|dir| !dir.is_empty());
        for dir in network.cni_bin_dirs.iter().filter(|dir| eggo_bundles::dst::check(dir).is_err()) {
            if !dir.starts_with('/') {
                top.reader().at(node, format!("`cni-bin-dir` names `{dir}`, which is not an absolute path"));
            } else {
                warnings.at(node, format!("`cni-bin-dir` names `{dir}`, where no item can be installed"));
            }
        }
        if network.cni_bin_dirs.is_empty() {
            network.cni_bin_dirs.push(defaults::CNI_BIN_DIR.to_string());
        }
    }
    network
}

fn api_server(top: &Fields<'_>, hosts: &[Host], bind_port: Option<u16>) -> ApiServer {
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

/// `etcd-external: {endpoints, ca, cert, key}`; `false` is eggo's way to say no.
fn external_etcd(top: &Fields<'_>) -> Option<ExternalEtcd> {
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

fn runtime(top: &Fields<'_>, warnings: &Warnings) -> Runtime {
    let kind = top.text("runtime").filter(|text| !text.is_empty()).and_then(|text| {
        let kind = text.parse::<RuntimeKind>().ok();
        if let (None, Some(node)) = (kind, top.node("runtime")) {
            top.reader().at(node, format!("`runtime` is `{text}`, expected docker, iSulad or containerd"));
        }
        kind
    });
    let kind = kind.unwrap_or(RuntimeKind::Docker);
    let endpoint = top.text("runtime-endpoint").filter(|text| !text.is_empty());
    if let (Some(endpoint), Some(node)) = (&endpoint, top.node("runtime-endpoint")) {
        let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        if !path.starts_with('/') {
            let message = format!("`runtime-endpoint` is `{endpoint}`, expected unix:///PATH");
            top.reader().at(node, message);
        }
        let other = RuntimeKind::ALL.into_iter().find(|other| *other != kind && usual_socket(*other, path));
        if let Some(other) = other {
            let message = format!("`runtime-endpoint` is {other}'s socket, but the runtime is {kind}");
            warnings.at(node, message);
        }
    }
    let endpoint = match endpoint {
        Some(endpoint) if endpoint.starts_with('/') => format!("unix://{endpoint}"),
        Some(endpoint) => endpoint,
        None => kind.default_endpoint().to_string(),
    };
    let pause = top.text("pause-image").filter(|text| !text.is_empty());
    Runtime {
        kind,
        endpoint,
        pause_image: pause.unwrap_or_else(|| defaults::PAUSE_IMAGE.to_string()),
        registry_mirrors: top.texts("registry-mirrors"),
        insecure_registries: top.texts("insecure-registries"),
        settings: runtime_settings(top, kind),
    }
}

fn usual_socket(kind: RuntimeKind, path: &str) -> bool {
    let usual = kind.default_endpoint().trim_start_matches("unix://");
    path.trim_start_matches("/var") == usual.trim_start_matches("/var")
}

/// `runtime-settings`: keys of daemon.json for docker and iSulad, a text of TOML for containerd.
fn runtime_settings(top: &Fields<'_>, kind: RuntimeKind) -> Option<RuntimeSettings> {
    let node = top.node("runtime-settings")?;
    match (kind, node.as_mapping(), node.as_str()) {
        (RuntimeKind::Containerd, _, Some(text)) => Some(RuntimeSettings::Toml(text.to_string())),
        (RuntimeKind::Docker | RuntimeKind::Isulad, Some(_), _) => match json(node) {
            serde_json::Value::Object(map) => Some(RuntimeSettings::Json(map)),
            _ => None,
        },
        (RuntimeKind::Containerd, ..) => {
            top.reader().at_hinted(
                node,
                "`runtime-settings` for containerd is a text in TOML",
                "write `runtime-settings: |` and the settings indented below",
            );
            None
        }
        _ => {
            let message = format!("`runtime-settings` for {kind} is a mapping with keys of daemon.json");
            top.reader().at(node, message);
            None
        }
    }
}

/// YAML's core schema: plain words that look like numbers, booleans or null are those.
fn json(node: &Node) -> serde_json::Value {
    use eggo_yaml::Value;
    match &node.value {
        Value::Scalar { .. } if node.is_null() => serde_json::Value::Null,
        Value::Scalar { text, plain: true } => match text.as_str() {
            "true" => true.into(),
            "false" => false.into(),
            number => match serde_json::from_str::<serde_json::Number>(number) {
                Ok(number) => number.into(),
                Err(_) => text.as_str().into(),
            },
        },
        Value::Scalar { text, .. } => text.as_str().into(),
        Value::Sequence(nodes) => nodes.iter().map(json).collect::<Vec<_>>().into(),
        Value::Mapping(entries) => serde_json::Value::Object(
            entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect(),
        ),
    }
}

fn extra_args(top: &Fields<'_>) -> BTreeMap<Component, BTreeMap<String, String>> {
    let reader = top.reader();
    let mut all: BTreeMap<Component, BTreeMap<String, String>> = BTreeMap::new();
    for (i, node) in top.list("config-extra-args").iter().enumerate() {
        let entry = reader.fields(node, format!("config-extra-args[{i}]"));
        let known = Component::ALL.map(Component::as_str).join(", ");
        if entry.node("name").is_none() {
            entry.missing("name");
        }
        let component = entry.parsed::<Component>("name", &format!("one of {known}"));
        if let Some(args) = entry.fields("extra-args") {
            for argument in args.entries() {
                let flag = argument.key.trim_start_matches('-').to_string();
                if flag.is_empty() || flag.contains(['=', ' ', '\n']) {
                    reader.at(&argument.node, format!("`{}` is not a flag", args.name(&argument.key)));
                    continue;
                }
                let value = match argument.node.is_null() {
                    true => String::new(),
                    false => match reader.text(&argument.node, &args.name(&argument.key)) {
                        Some(text) => text,
                        None => continue,
                    },
                };
                if value.contains('\n') {
                    reader.at(&argument.node, format!("`{}` spans lines", args.name(&argument.key)));
                }
                let Some(component) = component else { continue };
                if all.entry(component).or_default().insert(flag, value).is_some() {
                    let message = format!("`{}` is given twice for {component}", argument.key);
                    reader.at(&argument.node, message);
                }
            }
        }
        entry.finish();
    }
    all
}

fn open_ports(top: &Fields<'_>) -> BTreeMap<Role, Vec<Port>> {
    let mut all: BTreeMap<Role, Vec<Port>> = BTreeMap::new();
    let Some(roles) = top.fields("open-ports") else { return all };
    for (keys, role) in install::ROLE_KEYS {
        let key = roles.spelled(keys);
        for (i, node) in roles.list(key).iter().enumerate() {
            let entry = top.reader().fields(node, format!("open-ports.{key}[{i}]"));
            if entry.node("port").is_none() {
                entry.missing("port");
            }
            let port = entry.parsed::<std::num::NonZeroU16>("port", "a port number");
            let protocol = entry.parsed::<Protocol>("protocol", "tcp or udp").unwrap_or(Protocol::Tcp);
            entry.finish();
            if let Some(port) = port {
                all.entry(role).or_default().push(Port { port: port.into(), protocol });
            }
        }
    }
    roles.finish();
    all
}

fn check_networks(top: &Fields<'_>, config: &Config) {
    let reader = top.reader();
    let place = top.node("service").or(top.node("dns-vip"));
    let fail = |message: String| match place {
        Some(node) => reader.at(node, message),
        None => reader.problem(eggo_yaml::Problem::new(1, 1, message)),
    };
    let Service { cidr, dns, gateway } = &config.service;
    let pods = &config.network.pod_cidr;
    if !cidr.contains(*dns) {
        fail(format!("the DNS address {dns} is outside of `service.cidr` {cidr}"));
    }
    if !cidr.contains(*gateway) {
        fail(format!("`service.gateway` {gateway} is outside of `service.cidr` {cidr}"));
    }
    if dns == gateway {
        fail(format!("the DNS address and `service.gateway` are both {dns}"));
    }
    if cidr.overlaps(pods) {
        fail(format!("`service.cidr` {cidr} and `network.podcidr` {pods} overlap"));
    }
    for host in &config.hosts {
        for (network, key) in [(cidr, "service.cidr"), (pods, "network.podcidr")] {
            if network.contains(host.ip) {
                fail(format!("node `{}` ({}) lies inside of `{key}` {network}", host.name, host.ip));
            }
        }
    }
}

fn warn_about_content(top: &Fields<'_>, warnings: &Warnings, config: &Config) {
    let Some(place) = top.node("install").or(top.any(&["packages", "pacakges"])) else { return };
    for item in config.content.items.iter().filter(|item| item.kind == ItemKind::Repo) {
        let names = item.names.join(", ");
        let message = format!("`{names}` of `{}` comes from the node's own repositories", item.section);
        warnings.line(item.line, message);
    }
    let tarballs = &config.content.tarballs;
    for arch in config.archs().into_iter().filter(|arch| !tarballs.is_empty() && !tarballs.contains_key(arch))
    {
        warnings.at(place, format!("no tarball for {arch}, which some nodes need unless a bundle is given"));
    }
    let listed = config.content.items.iter().any(|item| item.section == Section::Dns);
    if listed && matches!(config.dns.kind, DnsKind::Pod { .. }) {
        warnings.at(place, "`install.dns` is not needed when `corednstype` is `pod`");
    }
}

fn network_at(fields: &Fields<'_>, key: &'static str) -> Option<Cidr> {
    let text = fields.text(key).filter(|text| !text.is_empty())?;
    match text.parse::<Cidr>() {
        Ok(cidr) => Some(cidr),
        Err(error) => {
            let message = format!("`{}`: {error}", fields.name(key));
            fields.node(key).into_iter().for_each(|node| fields.reader().at(node, message.clone()));
            None
        }
    }
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

fn texts(fields: &Fields<'_>) -> BTreeMap<String, String> {
    let text = |entry: &eggo_yaml::Entry| fields.reader().text(&entry.node, &fields.name(&entry.key));
    fields.entries().iter().filter_map(|entry| Some((entry.key.clone(), text(entry)?))).collect()
}
