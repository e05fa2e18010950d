//! deploy.yaml of any generation → [`Config`], with all that is wrong in it at once.

use super::model::{Config, DnsKind, Etcd, ItemKind, Login, Section};
use super::warnings::Warnings;
use super::way::{self, KeyPlace};
use super::{KEYS, Secret, control_plane, defaults, extras, hosts, install, networks, runtime};
use eggo_bundles::keys::SYSTEM_FOLDER;
use eggo_bundles::{Arch, Role};
use eggo_errors::Explain;
use eggo_yaml::{Fields, Problem, Problems, Reader};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A configuration that holds, and what is odd about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Problems,
    /// What makes the file useless without a bundle: archs of nodes for which its package source names no tarball.
    pub lacking: Problems,
    /// The private keys that the file names, with their places in it.
    pub private_keys: Vec<KeyPlace>,
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
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new(match self {
            Self::Read { .. } => "config-unreadable",
            Self::Invalid(_) => "config-invalid",
        })
    }

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
            Self::Read { path, source } => unreadable(path, source.kind()),
        }
    }
}

fn unreadable(path: &Path, kind: ErrorKind) -> Option<String> {
    match kind {
        ErrorKind::NotFound => Some("write one with `eggo-install template`".into()),
        ErrorKind::PermissionDenied => Some("run this as a user who may read it".into()),
        ErrorKind::IsADirectory if path.join("deploy.yaml").is_file() => {
            Some(format!("this is a folder; the file in it is `{}`", path.join("deploy.yaml").display()))
        }
        ErrorKind::IsADirectory => Some("this is a folder; name a file".into()),
        _ => None,
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
    // As with eggo: whoever wants the default may write `""`. What is a line of a unit or of daemon.json stays one.
    let reader = Reader::new(file, KEYS).empty_is_absent().one_line();
    let warnings = Warnings::default();
    let top = reader.fields(&root, "");
    let (config, source_at) = read(&top, &warnings);
    top.finish();
    let config = reader.finish(config)?;
    let lacking = Problems { file: file.to_string(), list: lacking(&config, source_at) };
    Ok(Loaded { config, warnings: warnings.finish(file), lacking, private_keys: way::key_places(&root, "") })
}

/// Also gives the place of the package source. Where something is wrong, a default is used and the reader knows of
/// it.
fn read<'a>(top: &Fields<'a>, warnings: &'a Warnings) -> (Config, (usize, usize)) {
    let external_etcd = control_plane::external_etcd(top);
    let cluster_id = cluster_id(top);
    let (hosts, load_balancer_port) = hosts::read(top, warnings, &cluster_id, external_etcd.is_some());
    let roles: Vec<Role> =
        Role::ALL.into_iter().filter(|role| hosts.iter().any(|host| host.has(*role))).collect();
    let install = install::read(top, warnings, &roles);
    let config = Config {
        cluster_id,
        login: login(top),
        external_ca: control_plane::external_ca(top),
        service: networks::service(top, warnings),
        dns: networks::dns(top),
        network: networks::network(top, warnings),
        api: control_plane::api_server(top, &hosts, load_balancer_port),
        etcd: Etcd {
            token: top.text("etcd-token").unwrap_or_else(|| defaults::ETCD_TOKEN.to_string()),
            external: external_etcd,
        },
        runtime: runtime::read(top, warnings),
        kubelet_serving: top.boolean("enable-kubelet-serving").unwrap_or(false),
        extra_args: extras::extra_args(top, warnings),
        open_ports: extras::open_ports(top),
        content: install.content,
        addons: install.addons,
        hooks: install.hooks,
        hosts,
        load_balancer_port,
    };
    networks::check(top, &config, warnings);
    warn_about_content(top, warnings, &config);
    (config, install.source_at)
}

fn cluster_id(top: &Fields<'_>) -> String {
    let id = top.text("cluster-id").unwrap_or_else(|| defaults::CLUSTER_ID.to_string());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // The keys that may sign bundles lie beside the clusters.
    let taken = SYSTEM_FOLDER.ends_with(&format!("/{id}"));
    let well_formed = id.chars().all(plain) && id.starts_with(|c: char| c.is_ascii_alphanumeric());
    let good = well_formed && id.len() <= 63 && !taken;
    if let (false, Some(node)) = (good, top.node("cluster-id")) {
        let message = format!("`cluster-id` is `{id}`, which cannot name a folder safely");
        top.reader().at_hinted(node, message, "use up to 63 letters, digits, `-`, `_` and `.`");
    }
    id
}

fn login(top: &Fields<'_>) -> Login {
    Login {
        user: way::user(top, "username").unwrap_or_else(|| defaults::USER.to_string()),
        password: top.text("password").filter(|text| !text.is_empty()).map(Secret::new),
        private_key: way::private_key(top),
    }
}

fn warn_about_content(top: &Fields<'_>, warnings: &Warnings, config: &Config) {
    let Some(place) = top.node("install").or(top.any(&["packages", "pacakges"])) else { return };
    for item in config.content.items.iter().filter(|item| item.kind == ItemKind::Repo) {
        let names = item.names.join(", ");
        let message = format!("`{names}` of `{}` comes from the node's own repositories", item.section);
        warnings.line(item.line, message);
    }
    let listed = config.content.items.iter().any(|item| item.section == Section::Dns);
    if listed && matches!(config.dns.kind, DnsKind::Pod { .. }) {
        warnings.at(place, "`install.dns` is not needed when `corednstype` is `pod`");
    }
}

/// A file that names a tarball for some of its nodes means to install from these.
fn lacking(config: &Config, (line, column): (usize, usize)) -> Vec<Problem> {
    let tarballs = &config.content.tarballs;
    let lacks = |arch: &Arch| !tarballs.is_empty() && !tarballs.contains_key(arch);
    let problem = |arch: Arch| {
        let nodes = config.hosts.iter().filter(|host| host.arch == arch);
        let nodes: Vec<&str> = nodes.map(|host| host.name.as_str()).collect();
        let verb = if nodes.len() == 1 { "is" } else { "are" };
        let message =
            format!("the package source names no tarball for {arch}: {} {verb} {arch}", nodes.join(", "));
        let hint = "name one for each arch, or leave out the package source and install from a bundle";
        Problem::new(line, column, message).hinted(hint)
    };
    config.archs().into_iter().filter(lacks).map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever becomes part of a file on a node cannot begin another line there.
    #[test]
    fn texts_are_plain() {
        let base = "masters: [{name: m, ip: 192.168.7.1, arch: amd64}]\n\
                    workers: [{name: w, ip: 192.168.7.2, arch: amd64}]\n\
                    install: {package-source: {type: bundle}}\n";
        for (line, key) in [
            (r#"etcd-token: "x\nExecStartPre=/bin/sh""#, "etcd-token"),
            ("etcd-token: |\n  x\n", "etcd-token"),
            (r#"runtime-endpoint: "unix:///run/x\ny""#, "runtime-endpoint"),
            (r#"pause-image: "a:1\r""#, "pause-image"),
            (r#"registry-mirrors: [https://a, "https://b\n"]"#, "registry-mirrors"),
            (r#"insecure-registries: ["a\x1b[2J"]"#, "insecure-registries"),
            (r#"cluster-id: "a\tb""#, "cluster-id"),
            (r#"username: "a\nb""#, "username"),
            (r#"dns-domain: "a\nb""#, "dns-domain"),
            (r#"cni-bin-dir: "/opt/cni/bin\n/x""#, "cni-bin-dir"),
            (r#"apiserver-endpoint: "a:1\n""#, "apiserver-endpoint"),
            (r#"network: {plugin: "a\nb"}"#, "network.plugin"),
            (r#"network: {plugin-args: {x: "a\nb"}}"#, "network.plugin-args.x"),
            (
                r#"config-extra-args: [{name: kubelet, extra-args: {--v: "2\nx"}}]"#,
                "config-extra-args[0].extra-args.--v",
            ),
            (r#"service: {dns: {corednstype: pod, imageversion: "1\nx"}}"#, "service.dns.imageversion"),
        ] {
            let problems = parse("d.yaml", format!("{base}{line}\n").as_bytes()).unwrap_err();
            let [problem] = &problems.list[..] else { panic!("{line}: {problems}") };
            let begin = format!("`{key}` has the control character `");
            assert!(problem.message.starts_with(&begin), "{line}: {problems}");
            assert!(problem.line >= 4 && problem.hint.is_some(), "{line}: {problems}");
        }
        let settings = "runtime: containerd\nruntime-settings: |\n  a = 1\n  b = 2\n";
        parse("d.yaml", format!("{base}{settings}").as_bytes()).unwrap();
    }
}
