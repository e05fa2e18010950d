//! `eggo-install certs`

use super::access::confirm;
use super::install::{ConsentArgs, SelectionArgs, phases_help};
use super::life::{LifeArgs, done};
use super::{Format, Global, output, runtime, stop};
use clap::Subcommand;
use eggo_deploy::cluster::certs::{Line, Validity, expired};
use eggo_deploy::operation;
use eggo_terminal::{Report, Table};

/// Show or renew the cluster's certificates.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  eggo-install certs status -f deploy.yaml\n  \
    eggo-install certs renew -f deploy.yaml --node master1")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List all certificates with the days they have left; exit 4 if any has expired
    Status {
        #[command(flatten)]
        life: LifeArgs,
    },
    /// Make new certificates and restart what uses them, one node after the other; approve those that
    /// kubelets ask for
    #[command(after_long_help = phases_help(&operation::renew_phases()))]
    Renew {
        #[command(flatten)]
        life: LifeArgs,

        /// Only this node, by name or address; may be repeated [default: all]
        #[arg(long = "node", value_name = "NODE")]
        nodes: Vec<String>,

        #[command(flatten)]
        selection: SelectionArgs,

        #[command(flatten)]
        consent: ConsentArgs,
    },
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    match args.command {
        Command::Status { life } => {
            let lines = runtime()?.block_on(operation::certificates(life.request(global)?))?;
            match global.format {
                Format::Json => output::json(&lines)?,
                Format::Table => output::text_out(&table(&lines).to_string())?,
            }
            expired(&lines).map_or(Ok(()), Err)
        }
        Command::Renew { life, nodes, selection, consent } => {
            let selection = selection.checked(&operation::renew_phases())?;
            let request = life.operation(global)?;
            let names = request.named(&nodes)?;
            let whose = if names.is_empty() { "all nodes".to_string() } else { names.join(", ") };
            let question = format!("renew the certificates of {whose}, and restart what uses them? [y/N] ");
            confirm(consent.yes, "this restarts services", &question)?;
            stop::carry_out(&request.stop.clone(), operation::renew(request, &nodes, &selection))?;
            done("certificates renewed", global)
        }
    }
}

fn table(lines: &[Line]) -> Table {
    let mut table =
        Table::new(["NODE", "CERTIFICATE", "SUBJECT", "ISSUER", "EXPIRES", "DAYS", ""]).right(&[5]);
    for line in lines {
        let node = line.node.clone().unwrap_or_else(|| "-".into());
        let note = match line.state {
            Validity::Good => "",
            Validity::Soon => "soon",
            Validity::Expired => "expired",
        };
        let (name, days) = (line.name.clone(), line.days.to_string());
        let (subject, issuer) = (line.subject.clone(), line.issuer.clone());
        table.row([node, name, subject, issuer, line.expires.clone(), days, note.to_string()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_certificate_is_not_called_one_that_expires_soon() {
        let line = |name: &str, days, state| Line {
            node: None,
            name: name.into(),
            subject: "s".into(),
            issuer: "i".into(),
            expires: "2026-01-01".into(),
            days,
            state,
            authority: false,
        };
        let lines = [line("a", -2, Validity::Expired), line("b", 3, Validity::Soon)];
        let text = table(&lines).to_string();
        let row =
            |name: &str| text.lines().find(|line| line.contains(&format!(" {name} "))).unwrap().trim_end();
        assert!(row("a").ends_with("-2  expired"), "{text}");
        assert!(row("b").ends_with("3  soon"), "{text}");
    }
}
