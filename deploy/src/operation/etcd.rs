//! etcd's data: onto this machine, and back.

use super::life::LifeRequest;
use super::whole::whole;
use crate::cluster::Cluster;
use crate::cluster::etcd_data::{self, Backup, Restoration};
use crate::events::Operation;
use crate::phases::{Applies, Context, OnFailure, Phase, PhaseError, Scene, Selection, run_list};
use eggo_errors::{Exit, Report};
use std::path::Path;
use std::sync::OnceLock;

/// What the one phase of a backup works on.
pub struct BackingUp {
    cluster: Cluster,
    backup: OnceLock<Backup>,
}

/// A backup.
pub fn backup_phases() -> Vec<Phase<BackingUp>> {
    vec![Phase {
        name: "backup",
        title: "Back up etcd",
        help: "keep a snapshot of etcd on this machine",
        applies: Applies::ALWAYS,
        needs: &[],
        run: |context| Box::pin(async { context.back_up().await.map_err(PhaseError::Whole) }),
        on_failure: OnFailure::Stop,
    }]
}

/// A restore.
pub fn restore_phases() -> Vec<Phase<Restoration>> {
    vec![
        Phase {
            name: "unpack",
            title: "Unpack the snapshot",
            help: "check the snapshot on every member of etcd, and unpack it beside the data; nothing stops for this",
            applies: Applies::ALWAYS,
            needs: &[],
            run: |context| Box::pin(context.unpack()),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "swap",
            title: "Put the snapshot in place",
            help: "stop the API and etcd, put the snapshot in place of the data, and start both again",
            applies: Applies::ALWAYS,
            needs: &["unpack"],
            run: |context| Box::pin(context.put_in_place()),
            on_failure: OnFailure::Stop,
        },
    ]
}

pub async fn backup(request: LifeRequest) -> Result<Backup, Report> {
    let work = async |request: LifeRequest| {
        let context = BackingUp { cluster: request.cluster().await?, backup: OnceLock::new() };
        run_list(&backup_phases(), &Selection::default(), &context).await?;
        let backup = context.backup.into_inner();
        backup.ok_or_else(|| Report::new("a backup was not made").exit(Exit::Bug))
    };
    whole(Operation::Backup, request, work).await
}

/// Puts a snapshot in place of the data of all members.
pub async fn restore(request: LifeRequest, snapshot: &Path, selection: &Selection) -> Result<(), Report> {
    let work = async |request: LifeRequest| {
        selection.check(&restore_phases())?;
        let restoration = Restoration::new(request.cluster().await?, snapshot).await?;
        run_list(&restore_phases(), selection, &restoration).await
    };
    whole(Operation::Restore, request, work).await
}

impl BackingUp {
    async fn back_up(&self) -> Result<(), Report> {
        let backup = etcd_data::backup(&self.cluster, "asked").await?;
        self.backup.get_or_init(|| backup);
        Ok(())
    }
}

impl Context for BackingUp {
    fn scene(&self) -> Scene<'_> {
        self.cluster.scene()
    }
}

impl Context for Restoration {
    fn scene(&self) -> Scene<'_> {
        self.cluster.scene()
    }
}
