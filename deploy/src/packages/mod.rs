//! Packages through the node's own package manager: offline, in one transaction, dependencies
//! checked, nothing forced. Which ones is decided from facts; the manager has the last word.

mod decide;
mod scripts;
pub mod stub;

pub use decide::{Changes, Transaction, Unmet, Versions, changes, decide, unmet};

use crate::facts::{Facts, Manager};
use crate::remote::{Host, RemoteError};
use crate::run::{Outcome, Run, Step};
use crate::store::Damaged;
use crate::undo::{Undo, package_of};
use bytes::Bytes;
use eggo_bundles::Item;
use eggo_errors::{Count, Explain, Report};
use std::sync::Arc;

#[derive(Debug, Clone, thiserror::Error)]
pub enum PackageError {
    #[error("{node}: no package manager that we know (dpkg with apt-get, or rpm)")]
    NoManager { node: String },
    #[error("{node}: `{package}` is for another package manager than the node's")]
    WrongFormat { node: String, package: String },
    #[error("{node}: the package manager refuses the transaction")]
    Refused { node: String, said: String },
    #[error(transparent)]
    Damaged(#[from] Damaged),
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

impl Explain for PackageError {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new(match self {
            Self::NoManager { .. } => "no-package-manager",
            Self::WrongFormat { .. } => "package-wrong-format",
            Self::Refused { .. } => "packages-refused",
            Self::Damaged(error) => return error.code(),
            Self::Remote(error) => return error.code(),
        })
    }

    fn notes(&self) -> Vec<String> {
        match self {
            Self::Refused { said, .. } => vec![said.clone()],
            Self::Remote(error) => error.notes(),
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoManager { .. } => None,
            Self::WrongFormat { .. } => Some("build the bundle with packages for this node's OS".into()),
            Self::Refused { .. } => Some(
                "capture this node with `eggo-install facts NODE --baseline`, give the file to the bundle's manifest as `baseline`, \
                 and build the bundle again"
                    .into(),
            ),
            Self::Damaged(error) => error.hint(),
            Self::Remote(error) => error.hint(),
        }
    }

    fn exit(&self) -> eggo_errors::Exit {
        eggo_errors::Exit::SomeHosts
    }
}

/// Asks the node's package manager whether it would take the transaction. Changes nothing.
pub async fn simulate(host: &dyn Host, transaction: &Transaction) -> Result<(), PackageError> {
    if transaction.install.is_empty() {
        return Ok(());
    }
    let output = host.run(scripts::simulate(transaction)).await?;
    if output.success() {
        return Ok(());
    }
    Damaged::check(host.name(), &output, transaction.install.iter().map(|item| &**item))?;
    Err(PackageError::Refused { node: host.name().into(), said: scripts::reasons(&output) })
}

/// The same before anything was sent, with stubs in place of the packages; see [`stubs`].
pub async fn rehearse(host: &dyn Host, manager: Manager, stubs: Bytes) -> Result<(), PackageError> {
    let output = host.run(scripts::rehearse(manager, stubs)).await?;
    if output.success() {
        return Ok(());
    }
    Err(PackageError::Refused { node: host.name().into(), said: scripts::reasons(&output) })
}

/// What a rehearsal sends: a [`stub`] of each package, or where there is none a link to it in the node's store.
pub fn stubs<'a>(transaction: &Transaction, stub: impl Fn(&Item) -> Option<&'a [u8]>) -> Bytes {
    scripts::archive(transaction, stub).into()
}

/// Installs what is missing or older.
pub async fn install(run: &Run, host: &dyn Host, transaction: &Transaction) -> Result<Outcome, Report> {
    if transaction.install.is_empty() {
        return Ok(Outcome::Unchanged);
    }
    let title = format!("install {}", Count(transaction.install.len(), "package", "packages"));
    let step = Step::new("packages/install", title)
        .fingerprint_of(transaction.install.iter().map(|item| item.sha256.hex()))
        .undo_all(undo(transaction))
        .always();
    run.step(host.name(), step, async |permit| {
        let output = host.run(scripts::install(permit, transaction)).await?;
        if !output.success() {
            Damaged::check(host.name(), &output, transaction.install.iter().map(|item| &**item))?;
            let said = scripts::reasons(&output);
            return Err(PackageError::Refused { node: host.name().into(), said }.into());
        }
        Ok(Outcome::Changed)
    })
    .await
}

/// What was not there before goes; what was there, in whatever version, stays.
fn undo(transaction: &Transaction) -> Vec<Undo> {
    let mut undo = vec![Undo::ReleaseServices];
    if !transaction.new.is_empty() {
        undo.push(Undo::Packages { manager: transaction.manager, names: transaction.new.clone() });
    }
    undo
}

/// Packages that come from the node's own repositories.
pub async fn install_from_repositories(
    run: &Run,
    host: &dyn Host,
    facts: &Facts,
    names: &[String],
) -> Result<Outcome, Report> {
    let absent: Vec<String> = names.iter().filter(|name| facts.package(name).is_none()).cloned().collect();
    if absent.is_empty() {
        return Ok(Outcome::Unchanged);
    }
    let manager = facts.manager.ok_or_else(|| PackageError::NoManager { node: host.name().into() })?;
    // What else was asked for, a group of packages, is among what they brought along.
    let named = absent.iter().filter_map(|request| package_of(request)).map(str::to_string).collect();
    let step = Step::new("packages/repositories", "install packages from the node's repositories")
        .fingerprint_of(&absent)
        .undo(Undo::Packages { manager, names: named })
        .undo(Undo::BroughtAlong { manager })
        .always();
    run.step(host.name(), step, async |permit| {
        let output = host.run(scripts::from_repositories(permit, manager, facts, &absent)).await?;
        if !output.success() {
            let said = scripts::reasons(&output);
            return Err(PackageError::Refused { node: host.name().into(), said }.into());
        }
        Ok(Outcome::Changed)
    })
    .await
}

/// The file name of a package, as its makers gave it.
fn file_name(item: &Arc<Item>) -> &str {
    item.path.rsplit('/').next().unwrap_or(&item.path)
}

#[cfg(test)]
mod tests;
