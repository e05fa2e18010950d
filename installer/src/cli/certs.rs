//! `eggo-install certs`

use super::access::confirm;
use super::install::ConsentArgs;
use super::life::{LifeArgs, done};
use super::{Format, Global, output, runtime, stop};
use clap::Subcommand;
use eggo_deploy::cluster::certs::WARN_DAYS;
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
    /// List all certificates with the days they have left
    Status {
        #[command(flatten)]
        life: LifeArgs,
    },
    /// Make new certificates and restart what uses them, one node after the other; approve those that
    /// kubelets ask for
    Renew {
        #[command(flatten)]
        life: LifeArgs,

        /// Only this node, by name or address; may be repeated [default: all]
        #[arg(long = "node", value_name = "NODE")]
        nodes: Vec<String>,

        #[command(flatten)]
        consent: ConsentArgs,
    },
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    match args.command {
        Command::Status { life } => {
            let lines = runtime()?.block_on(operation::certificates(life.request(global)?))?;
            if global.format == Format::Json {
                return output::json(&lines);
            }
            let mut table =
                Table::new(["NODE", "CERTIFICATE", "SUBJECT", "ISSUER", "EXPIRES", "DAYS", ""]).right(&[5]);
            for line in &lines {
                let node = line.node.clone().unwrap_or_else(|| "-".into());
                let note = if line.days <= WARN_DAYS { "soon" } else { "" };
                let (name, days) = (line.name.clone(), line.days.to_string());
                let (subject, issuer) = (line.subject.clone(), line.issuer.clone());
                table.row([node, name, subject, issuer, line.expires.clone(), days, note.to_string()]);
            }
            output::text_out(&table.to_string())
        }
        Command::Renew { life, nodes, consent } => {
            let request = life.operation(global)?;
            let names = request.named(&nodes)?;
            let whose = if names.is_empty() { "all nodes".to_string() } else { names.join(", ") };
            let question = format!("renew the certificates of {whose}, and restart what uses them? [y/N] ");
            confirm(consent.yes, "this restarts services", &question)?;
            stop::carry_out(&request.stop.clone(), operation::renew(request, &nodes))?;
            done("certificates renewed", global)
        }
    }
}
