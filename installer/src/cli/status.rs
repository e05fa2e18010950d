//! `eggo-install status`

use super::life::LifeArgs;
use super::{Format, Global, output, runtime};
use eggo_deploy::cluster::certs::{Line, Validity};
use eggo_deploy::cluster::status::{Member, Status};
use eggo_deploy::operation;
use eggo_terminal::{Count, Exit, Report, Table};

/// Show how the cluster is: nodes, components, etcd, certificates, what differs from deploy.yaml.
///
/// Exit 4 if anything needs attention.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  eggo-install status -f deploy.yaml")]
pub struct Args {
    #[command(flatten)]
    life: LifeArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let status = runtime()?.block_on(operation::status(args.life.request(global)?))?;
    match global.format {
        Format::Json => output::json(&status)?,
        Format::Table => output::text_out(&render(&status))?,
    }
    if status.is_well() {
        return Ok(());
    }
    let mut report =
        Report::new(format!("cluster `{}` needs attention", status.cluster)).exit(Exit::SomeHosts);
    if global.format == Format::Table {
        report.notes = status.findings;
        report.hint = status.hint;
    }
    Err(report)
}

/// Of those members that could be asked.
fn health(members: &[Member]) -> String {
    let asked = members.iter().filter_map(|member| member.healthy);
    let (asked, healthy) =
        asked.fold((0, 0), |(asked, well), healthy| (asked + 1, well + usize::from(healthy)));
    match members.len() - asked {
        0 => format!("{healthy} of {} healthy", Count(asked, "member", "members")),
        _ if asked == 0 => "no member was reached".into(),
        not_reached => format!("{healthy} of {asked} members healthy, {not_reached} not reached"),
    }
}

/// What is wrong with a node is in the findings below the table, which has to fit the terminal.
fn render(status: &Status) -> String {
    let mut table = Table::new(["NODE", "ADDRESS", "ARCH", "ROLES", "SSH", "READY", "KUBELET"]);
    for node in &status.nodes {
        let ready = node.ready.map(|ready| if ready { "yes" } else { "no" }).unwrap_or("-");
        table.row([
            node.name.clone(),
            node.ip.clone(),
            node.arch.clone(),
            node.roles.join(","),
            if node.reachable { "yes" } else { "no" }.to_string(),
            ready.to_string(),
            node.kubelet.clone().unwrap_or_else(|| "-".into()),
        ]);
    }
    let mut text = format!("cluster `{}` at {}\n\n{table}\n", status.cluster, status.endpoint);
    if !status.etcd.is_empty() {
        text.push_str(&format!("etcd: {}\n", health(&status.etcd)));
    }
    text.push_str(&certificates(&status.certificates));
    text
}

/// The one that expires first, or how many have expired.
fn certificates(lines: &[Line]) -> String {
    let Some(first) = lines.iter().min_by_key(|line| line.days) else { return String::new() };
    let expired = lines.iter().filter(|line| line.state == Validity::Expired).count();
    if expired > 0 {
        return format!("certificates: {expired} of {} have expired\n", lines.len());
    }
    let place = first.node.as_ref().map(|node| format!(" of {node}")).unwrap_or_default();
    format!("certificates: {}{place} expires first, in {} days\n", first.name, first.days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_could_not_be_asked_are_not_called_unhealthy() {
        let told = |healthy: &[Option<bool>]| {
            let member = |healthy: &Option<bool>| Member { node: String::new(), healthy: *healthy };
            health(&healthy.iter().map(member).collect::<Vec<_>>())
        };
        assert_eq!(told(&[Some(true)]), "1 of 1 member healthy");
        assert_eq!(told(&[Some(true), Some(false)]), "1 of 2 members healthy");
        assert_eq!(told(&[Some(true), None, None]), "1 of 1 members healthy, 2 not reached");
        assert_eq!(told(&[None, None]), "no member was reached");
    }
}
