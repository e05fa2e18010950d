//! `eggo-install etcd`

use super::access::confirm;
use super::install::{SelectionArgs, phases_help};
use super::life::{LifeArgs, done};
use super::{Format, Global, output, stop};
use clap::Subcommand;
use eggo_deploy::operation;
use eggo_terminal::{Report, Size};
use serde_json::json;
use std::path::PathBuf;

/// Back up or restore etcd's data.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  eggo-install etcd backup -f deploy.yaml\n  \
    eggo-install etcd restore SNAPSHOT -f deploy.yaml")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take a snapshot into the cluster's state folder on this machine
    Backup {
        #[command(flatten)]
        life: LifeArgs,
    },
    /// Put a snapshot in place of all members' data; the API is down meanwhile
    #[command(after_long_help = phases_help(&operation::restore_phases()))]
    Restore {
        /// A snapshot that `etcd backup` or etcdctl made
        snapshot: PathBuf,

        /// Do not ask; needed where there is no terminal
        #[arg(short, long)]
        yes: bool,

        #[command(flatten)]
        selection: SelectionArgs,

        #[command(flatten)]
        life: LifeArgs,
    },
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    match args.command {
        Command::Backup { life } => {
            let request = life.request(global)?;
            let backup = stop::carry_out(&request.stop.clone(), operation::backup(request))?;
            let path = backup.path.display().to_string();
            match global.format {
                Format::Json => output::json(&json!({
                    "path": path, "size": backup.size, "sha256": backup.sha256, "member": backup.member,
                })),
                Format::Table => {
                    output::text_out(&format!("{path}: {} from {}\n", Size(backup.size), backup.member))
                }
            }
        }
        Command::Restore { snapshot, yes: sure, selection, life } => {
            let selection = selection.checked(&operation::restore_phases())?;
            let request = life.operation(global)?;
            request.is_installed()?;
            let question = "replace the data of all etcd members? [y/N] ";
            confirm(sure, "a restore replaces all data", question)?;
            stop::carry_out(&request.stop.clone(), operation::restore(request, &snapshot, &selection))?;
            done("etcd has the snapshot's data", global)
        }
    }
}
