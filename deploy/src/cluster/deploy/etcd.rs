//! etcd: members one by one, each healthy before the next.

use super::failed_on;
use crate::cluster::context::{Node, require};
use crate::cluster::files::{etcd as files, unit};
use crate::cluster::flags::{self, Scope, client_url, peer_url};
use crate::cluster::kubectl::REPEAT;
use crate::cluster::service::Service;
use crate::cluster::{Cluster, paths};
use crate::config::{self, Component};
use crate::phases::PhaseError;
use crate::pki::AuthorityName;
use crate::remote::{CALL, Command, RemoteError, RemoteFile, Script, Written};
use crate::run::{Outcome, Permit, Step};
use crate::undo::{self, Undo};
use eggo_bundles::Role;
use eggo_errors::Report;
use serde_json::Value;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
/// The member on the same node.
pub const LOCAL: &str = "https://127.0.0.1:2379";
/// etcdctl as the health checker: the function `ask`.
pub const ETCDCTL: &str = include_str!("etcdctl.sh");

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    let members = in_order(cluster).await.map_err(PhaseError::Whole)?;
    wake(cluster, &members).await?;
    let mut with_data = 0;
    for node in &members {
        with_data += usize::from(node.facts(&cluster.config).await.map_err(PhaseError::Whole)?.etcd_data);
    }
    if with_data > 0 && with_data < members.len() {
        // Members are about to be added to a cluster that holds something.
        crate::cluster::etcd_data::backup_before(cluster, "join").await.map_err(PhaseError::Whole)?;
    }
    for (index, node) in members.iter().enumerate() {
        let before = &members[..index];
        start(cluster, node, before)
            .await
            .map_err(|report| failed_on(&cluster.run, &node.host.name, report))?;
    }
    Ok(())
}

/// Members that have data come first, whatever place deploy.yaml gives to the new ones.
async fn in_order(cluster: &Cluster) -> Result<Vec<&Node>, Report> {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for node in cluster.with_role(Role::Etcd) {
        let list = if node.facts(&cluster.config).await?.etcd_data { &mut old } else { &mut new };
        list.push(node);
    }
    old.extend(new);
    Ok(old)
}

/// Members that have data need each other to start: after a power cut none comes up alone. Neither does any whose
/// certificate has expired: where none answers, all get theirs first.
async fn wake(cluster: &Cluster, members: &[&Node]) -> Result<(), PhaseError> {
    let mut old = Vec::new();
    for node in members {
        if node.facts(&cluster.config).await.map_err(PhaseError::Whole)?.etcd_data {
            old.push(*node);
        }
    }
    if !old.is_empty() && !any_answers(&old).await {
        give_certificates(cluster, &old).await?;
    }
    super::on_each(&cluster.run, &old, |node| Box::pin(wake_one(cluster, node))).await
}

async fn wake_one(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    let work = async |permit| Ok(Outcome::changed_if(begin(permit, node).await?));
    cluster.run.step(&node.host.name, Step::new("etcd/wake", "wake etcd").always(), work).await?;
    Ok(())
}

/// Starts etcd without waiting for it; says whether it did not run.
async fn begin(permit: Permit, node: &Node) -> Result<bool, Report> {
    let script = Script::new([include_str!("etcd_wake.sh")]);
    Ok(!node.remote.run(Command::change(permit, "wake etcd", script)).await?.text().is_empty())
}

/// Whether any member answers: that takes more than half of all.
pub async fn any_answers(members: &[&Node]) -> bool {
    let asked = members.iter().map(|node| is_healthy(node, LOCAL));
    futures::future::join_all(asked).await.contains(&Some(true))
}

/// Gives all members their certificates at the same time, and starts those that do not run. A member reads them again
/// for each connection, so that more than half of them find each other without a restart.
pub async fn give_certificates(cluster: &Cluster, members: &[&Node]) -> Result<(), PhaseError> {
    super::on_each(&cluster.run, members, |node| {
        Box::pin(async {
            account(cluster, node).await?;
            let mut files = certificates(cluster, &node.host)?;
            // Where one that still runs as root reads them; they go when it has become the other.
            files.extend(files_for(cluster, &node.host, FORMER)?);
            let step = Step::new("etcd/certificates", "give etcd its certificates")
                .fingerprint_of(files.iter().map(|file| &file.content))
                .undo_all(files.iter().map(|file| Undo::file(&file.path)))
                .always();
            let work = async |permit| {
                let written = node.remote.write_files(permit, files).await?;
                let begun = begin(permit, node).await?;
                Ok(Outcome::changed_if(begun || written.contains(&Written::Changed)))
            };
            cluster.run.step(&node.host.name, step, work).await?;
            Ok(())
        })
    })
    .await
}

/// Starts one member. `before` are the members that are there already.
pub async fn start(cluster: &Cluster, node: &Node, before: &[&Node]) -> Result<(), Report> {
    let facts = node.facts(&cluster.config).await?;
    let program = require(node, facts, "etcd", Role::Etcd)?;
    require(node, facts, "etcdctl", Role::Etcd)?;
    account(cluster, node).await?;
    if !facts.etcd_data {
        introduce(cluster, node, before).await?;
    }
    let scope = Scope {
        config: &cluster.config,
        host: &node.host,
        version: facts.version("etcd").unwrap_or(crate::version::Version::new(0, 0, 0)),
        facts,
    };
    Service {
        unit: Some(unit::write(Component::Etcd, program, &scope)),
        files: certificates(cluster, &node.host)?,
        depends: scope.version.to_string(),
        before: Some(folders(&scope)),
        works: Some(etcdctl(LOCAL, &["endpoint", "health"])),
        limit: LIMIT,
        undo: undoes(),
        ..Service::new("etcd")
    }
    .ensure(&cluster.run, node)
    .await?;
    forget_roots(cluster, node).await
}

/// Undone last first.
fn undoes() -> Vec<Undo> {
    let folders = [paths::ETCD, paths::ETCD_PKI].map(Undo::folder);
    let data = ["", ".before-restore", ".new", ".restoring", ".abandoned"]
        .map(|beside| Undo::tree(format!("{}{beside}", paths::ETCD_DATA)));
    folders.into_iter().chain(data).collect()
}

/// The user that etcd runs as, unless its package has brought it. It goes with the node's mark, when nothing runs as it.
async fn account(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    let step = Step::new("etcd/account", "make the user of etcd").always();
    let work = async |permit| {
        let script = undo::call(["make_account", paths::ETCD_USER]);
        let output = node.remote.run(Command::change(permit, "make the user of etcd", script)).await?;
        Ok(Outcome::changed_if(!output.text().is_empty()))
    };
    cluster.run.step(&node.host.name, step, work).await?;
    Ok(())
}

/// Gives etcd the folders that it writes to.
fn folders(scope: &Scope<'_>) -> Script {
    let flags = flags::of(Component::Etcd, scope);
    let folders = flags.into_iter().filter(|(name, _)| ["data-dir", "wal-dir"].contains(&name.as_str()));
    Script::new([include_str!("etcd_folders.sh")])
        .set("ACCOUNT", paths::ETCD_USER)
        .args(folders.map(|(_, folder)| folder))
}

/// The certificates that it read as root are of no use any more.
async fn forget_roots(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    let step =
        Step::new("etcd/former-certificates", "remove the certificates that etcd had as root").always();
    let work = async |permit| {
        let paths = FORMER.iter().flat_map(|(_, path, _)| [format!("{path}.crt"), format!("{path}.key")]);
        let script = Script::new([include_str!("remove_files.sh")]).args(paths);
        let title = "remove former certificates";
        let output = node.remote.run(Command::change(permit, title, script)).await?;
        Ok(Outcome::changed_if(!output.text().is_empty()))
    };
    cluster.run.step(&node.host.name, step, work).await?;
    Ok(())
}

/// Starts a member that is there already, in its present form. One without its data would begin a cluster
/// of its own.
pub async fn again(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    if !node.facts(&cluster.config).await?.etcd_data {
        return Err(Report::new(format!("{}: its etcd has no data", node.host.name))
            .hinted("install or `join` once more with the bundle: that makes it a member again"));
    }
    start(cluster, node, &[]).await
}

/// Tells a member without data how to begin, and the others that it comes.
async fn introduce(cluster: &Cluster, node: &Node, before: &[&Node]) -> Result<(), Report> {
    let step = Step::new("etcd/member", "introduce the etcd member")
        // Undone last first.
        .undo(Undo::Folder { path: paths::ETCD.into() })
        .undo(Undo::file(paths::ETCD_CONFIG))
        .always();
    let work = async |permit| {
        let own = format!("{}={}", node.host.name, peer_url(&node.host));
        let text = match before.first() {
            None => files::environment(&cluster.config, &[own], files::Beginning::New),
            Some(first) => {
                let mut cluster_urls = add(permit, first, node).await?;
                cluster_urls.push(own);
                files::environment(&cluster.config, &cluster_urls, files::Beginning::Existing)
            }
        };
        node.remote.write_file(permit, RemoteFile::new(paths::ETCD_CONFIG, text)).await?;
        Ok(Outcome::Changed)
    };
    cluster.run.step(&node.host.name, step, work).await?;
    Ok(())
}

/// Makes `node` a member, by way of `first`; returns `NAME=URL` of the others.
async fn add(permit: Permit, first: &Node, node: &Node) -> Result<Vec<String>, Report> {
    let url = peer_url(&node.host);
    let known = members(first).await?;
    let listed = known.iter().find(|member| member.peer_urls.contains(&url));
    // It was a member once and has lost its data: it comes back as a new one.
    if let Some(lost) = listed.filter(|member| member.started()) {
        remove(permit, first, lost).await?;
    }
    if listed.is_none_or(Member::started) {
        let peer = format!("--peer-urls={url}");
        let add = patiently(&["member", "add", &node.host.name, &peer]);
        first.remote.run(Command::change(permit, "add the etcd member", add).once()).await?;
    }
    let others = known.iter().filter(|member| !member.peer_urls.contains(&url));
    Ok(others
        .flat_map(|member| member.peer_urls.iter().map(|url| format!("{}={url}", member.name)))
        .collect())
}

/// A member as etcd lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    /// Empty until it has started for the first time.
    pub name: String,
    pub peer_urls: Vec<String>,
}

impl Member {
    fn started(&self) -> bool {
        !self.name.is_empty()
    }

    /// Whether it can be one of `NAME=URL,NAME=URL`, which is a line of a unit.
    fn is_plain(&self) -> bool {
        let plain = |text: &str| {
            !text.contains(|c: char| c.is_control() || c.is_whitespace() || ",=\"'\\".contains(c))
        };
        plain(&self.name) && self.peer_urls.iter().all(|url| plain(url))
    }
}

/// The members, as the one on `node` knows them.
pub async fn members(node: &Node) -> Result<Vec<Member>, Report> {
    let script = patiently(&["member", "list", "-w", "json"]);
    const TITLE: &str = "list the etcd members";
    let output = node.remote.run(Command::look(TITLE, script)).await?;
    let name = &node.host.name;
    let members = parse_members(&output.text())
        .ok_or_else(|| Report::new(format!("{name}: etcd does not list its members")))?;
    match members.iter().find(|member| !member.is_plain()) {
        Some(member) => {
            let reason = format!(
                "a member has the name `{}` and the addresses {:?}",
                member.name.escape_debug(),
                member.peer_urls
            );
            Err(RemoteError::answer(name, TITLE, reason).into())
        }
        None => Ok(members),
    }
}

fn parse_members(text: &str) -> Option<Vec<Member>> {
    // Warnings may come before the list, and they are JSON too.
    let values = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let list = values.filter_map(|value| value["members"].as_array().cloned()).next()?;
    let members = list
        .iter()
        .filter_map(|member| {
            let urls = member["peerURLs"].as_array().into_iter().flatten();
            Some(Member {
                id: member["ID"].as_u64()?,
                name: member["name"].as_str().unwrap_or_default().to_string(),
                peer_urls: urls.filter_map(Value::as_str).map(str::to_string).collect(),
            })
        })
        .collect();
    Some(members)
}

/// Takes a member out, by way of the one on `node`.
pub async fn remove(permit: Permit, node: &Node, member: &Member) -> Result<(), Report> {
    let script = etcdctl(LOCAL, &["member", "remove", &format!("{:x}", member.id)]);
    node.remote.run(Command::change(permit, "remove the etcd member", script).once()).await?;
    Ok(())
}

/// Whether the member on `node` is well, asked there by `endpoint`; none if the node was not reached.
pub async fn is_healthy(node: &Node, endpoint: &str) -> Option<bool> {
    let script = etcdctl(endpoint, &["endpoint", "health"]);
    let command = Command::look("ask etcd for its health", script).unchecked();
    node.remote.run(command).await.ok().map(|output| output.success())
}

/// etcdctl with these arguments.
pub fn etcdctl(endpoints: &str, arguments: &[&str]) -> Script {
    asking(Script::new([ETCDCTL, CALL]), endpoints, "5s").arg("ask").args(arguments.iter().copied())
}

/// The same of the member on the same node, again and again until it answers.
fn patiently(arguments: &[&str]) -> Script {
    asking(Script::new([ETCDCTL, REPEAT, CALL]), LOCAL, "5s")
        .args(["repeat", &LIMIT.as_secs().to_string(), "ask"])
        .args(arguments.iter().copied())
}

/// A script with the function `ask` of [`ETCDCTL`] gets what that needs.
pub fn asking(script: Script, endpoints: &str, timeout: &str) -> Script {
    script.set("ENDPOINTS", endpoints).set("TIMEOUT", timeout).set("PKI", paths::pki("etcd"))
}

/// All members' addresses for clients.
pub fn endpoints(cluster: &Cluster) -> String {
    let members = cluster.with_role(Role::Etcd);
    members.iter().map(|node| client_url(&node.host)).collect::<Vec<_>>().join(",")
}

/// A leaf as files: its name in our table, where it goes without `.crt` and `.key`, and whose the key is.
type Placed = (&'static str, &'static str, &'static str);

/// What etcd reads belongs to its user; what others ask it with, to root.
const PLACED: [Placed; 3] = [
    ("etcd/server", "/etc/etcd/pki/server", paths::ETCD_OWNER),
    ("etcd/peer", "/etc/etcd/pki/peer", paths::ETCD_OWNER),
    ("etcd/healthcheck-client", "/etc/kubernetes/pki/etcd/healthcheck-client", "root:root"),
];
/// As an earlier version of ours had them, when etcd ran as root.
const FORMER: [Placed; 2] = [
    ("etcd/server", "/etc/kubernetes/pki/etcd/server", "root:root"),
    ("etcd/peer", "/etc/kubernetes/pki/etcd/peer", "root:root"),
];

fn certificates(cluster: &Cluster, host: &config::Host) -> Result<Vec<RemoteFile>, Report> {
    let authority = &cluster.pki()?.authority(AuthorityName::Etcd).pem;
    let paths = [paths::pki("etcd/ca.crt"), paths::etcd_pki("ca.crt")];
    let mut files = paths.map(|path| RemoteFile::new(path, authority.clone())).to_vec();
    files.extend(files_for(cluster, host, PLACED)?);
    Ok(files)
}

fn files_for<const N: usize>(
    cluster: &Cluster,
    host: &config::Host,
    placed: [Placed; N],
) -> Result<Vec<RemoteFile>, Report> {
    let mut files = Vec::new();
    for (name, path, owner) in placed {
        let leaf = cluster.leaf(host, name)?;
        files.push(RemoteFile::new(format!("{path}.crt"), leaf.certificate));
        files.push(RemoteFile::new(format!("{path}.key"), leaf.key.to_string()).secret().owner(owner));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_member_list() {
        let warning = r#"{"level":"warn","msg":"retrying of unary invoker failed"}"#;
        assert_eq!(parse_members(warning), None);
        let list = r#"{"header":{"cluster_id":1},"members":[{"ID":10276657743932975437,"name":"a","peerURLs":["https://10.0.0.1:2380"],"clientURLs":["https://10.0.0.1:2379"]},{"ID":5,"peerURLs":["https://10.0.0.2:2380"]}]}"#;
        let found = parse_members(&format!("{warning}\n{list}\n")).unwrap();
        assert_eq!(found[0].id, 10276657743932975437);
        assert!(found[0].started() && !found[1].started());
    }

    #[test]
    fn a_member_that_would_be_more_than_a_name_and_addresses_is_not_plain() {
        let member = |name: &str, url: &str| Member { id: 1, name: name.into(), peer_urls: vec![url.into()] };
        let url = "https://[fd00::1]:2380";
        assert!(member("m-1.a", url).is_plain() && member("", url).is_plain());
        for bad in ["a\nExecStartPre=/bin/x", "a b", "a,b", "a=b", "a\"", "a\\", "a\r", "a\u{85}"] {
            assert!(!member(bad, url).is_plain() && !member("a", bad).is_plain(), "{bad:?}");
        }
    }
}
