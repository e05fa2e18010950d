//! The phases around undoing. They slot into the list of any operation whose context has a [`Cleaning`].

use super::Cleaning;
use crate::config::{Config, Schedule};
use crate::phases::{Applies, OnFailure, Phase};

/// A context with a cleanup in it.
pub trait HasCleaning: Send + Sync + 'static {
    fn cleaning(&self) -> &Cleaning;
}

/// A node on which a hook fails is left as it is.
pub fn precleanup<C: HasCleaning>() -> Phase<C> {
    Phase {
        name: "precleanup",
        title: "Run precleanup hooks",
        help: "run the scripts with the schedule precleanup, which the install kept on this machine",
        applies: Applies::Cluster(|config| has_hook(config, Schedule::Precleanup)),
        needs: &[],
        run: |context| Box::pin(context.cleaning().precleanup()),
        on_failure: OnFailure::GoOn,
    }
}

pub fn undo<C: HasCleaning>() -> Phase<C> {
    Phase {
        name: "undo",
        title: "Undo changes",
        help: "undo what the journal says was done on the nodes, the last change first",
        applies: Applies::ALWAYS,
        needs: &[],
        run: |context| Box::pin(context.cleaning().undo()),
        on_failure: OnFailure::GoOn,
    }
}

pub fn postcleanup<C: HasCleaning>() -> Phase<C> {
    Phase {
        name: "postcleanup",
        title: "Run postcleanup hooks",
        help: "run the scripts with the schedule postcleanup where nothing else is left",
        applies: Applies::Cluster(|config| has_hook(config, Schedule::Postcleanup)),
        needs: &["undo"],
        run: |context| Box::pin(context.cleaning().postcleanup()),
        on_failure: OnFailure::GoOn,
    }
}

fn has_hook(config: &Config, schedule: Schedule) -> bool {
    config.hooks.iter().any(|hook| hook.schedule == schedule)
}
