//! What the lock remembers of repositories. Metadata that has lost its signature since, or that is older than
//! before, may have been stripped or replayed on the way: it is refused, unless the user accepts it.

use crate::lock::{Lock, LockedRepo};
use eggo_bundles::progress::Progress;
use eggo_terminal::Explain;
use std::collections::BTreeSet;

/// What was seen when the lock was made before; by default nothing.
#[derive(Debug, Clone, Default)]
pub struct History {
    before: Vec<LockedRepo>,
    /// Repositories with signed metadata, by name: all that locks of version 0.1 say.
    signed: BTreeSet<String>,
    /// Names of repositories whose change the user accepts.
    accepted: Vec<String>,
}

/// How a repository got worse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Setback {
    #[error("repo `{repo}`: its metadata is no longer signed")]
    Unsigned { repo: String, before: String },
    #[error("repo `{repo}`: its metadata is older than before")]
    Older { repo: String, before: String, now: String },
}

impl Explain for Setback {
    fn notes(&self) -> Vec<String> {
        match self {
            Setback::Unsigned { before, .. } => vec![format!("the lock has a signature by {before}")],
            Setback::Older { before, now, .. } => {
                vec![format!("in the lock: {before}"), format!("found: {now}")]
            }
        }
    }

    fn hint(&self) -> Option<String> {
        let (Setback::Unsigned { repo, .. } | Setback::Older { repo, .. }) = self;
        Some(format!(
            "the mirror is behind, or someone tampers with it: try another mirror; if its publisher did this, accept \
             it with `--accept-repo {repo}`"
        ))
    }
}

impl History {
    pub fn new(before: Option<&Lock>, accepted: &[String]) -> Self {
        let repos = before.map(|lock| lock.repos.clone()).unwrap_or_default();
        let packages = before.filter(|_| repos.is_empty()).map(|lock| lock.packages.as_slice());
        let signed = packages.unwrap_or_default().iter().filter(|package| package.key.is_some());
        Self {
            signed: signed.map(|package| package.repo.clone()).collect(),
            before: repos,
            accepted: accepted.to_vec(),
        }
    }

    /// Whether it was there when the lock was made.
    pub fn knows(&self, now: &LockedRepo) -> bool {
        self.of(now).is_some()
    }

    /// Fails if nobody vouches for `now` although somebody did before.
    pub fn check_signature(&self, now: &LockedRepo, progress: &dyn Progress) -> Result<(), Setback> {
        if now.key.is_some() {
            return Ok(());
        }
        let known = self.of(now).and_then(|before| before.key.as_ref()).map(|key| format!("key {key}"));
        let before = known.or_else(|| self.signed.contains(&now.name).then(|| "a key".to_string()));
        match before {
            Some(before) => self.judge(Setback::Unsigned { repo: now.name.clone(), before }, progress),
            None => Ok(()),
        }
    }

    /// Fails if `now` is older than what was there before.
    pub fn check_age(&self, now: &LockedRepo, progress: &dyn Progress) -> Result<(), Setback> {
        match self.of(now).filter(|before| is_older(now, before)) {
            Some(before) => {
                let [before, found] = [before, now].map(age);
                self.judge(Setback::Older { repo: now.name.clone(), before, now: found }, progress)
            }
            None => Ok(()),
        }
    }

    fn judge(&self, setback: Setback, progress: &dyn Progress) -> Result<(), Setback> {
        let (Setback::Unsigned { repo, .. } | Setback::Older { repo, .. }) = &setback;
        if !self.accepted.contains(repo) {
            return Err(setback);
        }
        progress.note(&format!("warning: {setback}, which you accepted"));
        Ok(())
    }

    /// The same metadata, from the same place: another url or suite in the manifest is another repository.
    fn of(&self, now: &LockedRepo) -> Option<&LockedRepo> {
        let place = |repo: &LockedRepo| (repo.name.clone(), repo.url.clone(), repo.suite.clone(), repo.arch);
        self.before.iter().find(|before| place(before) == place(now))
    }
}

/// Revisions are usually times, and set by the publisher on purpose; where they are not numbers, dates count.
fn is_older(now: &LockedRepo, before: &LockedRepo) -> bool {
    let number = |repo: &LockedRepo| repo.revision.as_ref().and_then(|revision| revision.parse::<u64>().ok());
    match (number(now), number(before)) {
        (Some(now), Some(before)) if now != before => now < before,
        // All dates are written in the same way, so that they sort as text.
        _ => matches!((&now.date, &before.date), (Some(now), Some(before)) if now < before),
    }
}

fn age(repo: &LockedRepo) -> String {
    let date = repo.date.as_ref().map(|date| format!("of {date}"));
    let revision = repo.revision.as_ref().map(|revision| format!("revision {revision}"));
    date.into_iter().chain(revision).collect::<Vec<_>>().join(", ")
}

/// As the lock has it: `2026-11-18T18:42:00Z`.
pub fn date(seconds: i64) -> Option<String> {
    // Without a fraction, and with four digits for the year: it sorts as text.
    let date = jiff::Timestamp::from_second(seconds).ok()?.to_string();
    (date.len() == 20).then_some(date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eggo_bundles::progress::Silent;

    fn repo(key: Option<&str>, date: &str, revision: &str) -> LockedRepo {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_string());
        LockedRepo {
            name: "r".to_string(),
            url: "https://r.test/".to_string(),
            suite: None,
            arch: None,
            key: key.map(str::to_string),
            date: text(date),
            revision: text(revision),
        }
    }

    fn since(before: LockedRepo) -> History {
        History { before: vec![before], ..History::default() }
    }

    #[test]
    fn older_is_what_the_revision_says_or_the_date() {
        let [old, new] = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"];
        for (before, now, refused) in [
            ((old, ""), (new, ""), false),
            ((new, ""), (old, ""), true),
            ((old, ""), (old, ""), false),
            ((new, "7"), (old, "8"), false),
            ((old, "10"), (new, "9"), true),
            ((new, "7"), (old, "7"), true),
            ((new, "b"), (new, "a"), false),
            ((new, "b"), (old, "c"), true),
            ((new, ""), ("", ""), false),
        ] {
            let checked = since(repo(None, before.0, before.1)).check_age(&repo(None, now.0, now.1), &Silent);
            assert_eq!(checked.is_err(), refused, "{before:?} {now:?}");
        }
        assert_eq!(date(1_686_992_013).unwrap(), "2023-06-17T08:53:33Z");
    }

    #[test]
    fn a_signature_is_missed_where_there_was_one() {
        let (signed, plain) = (repo(Some("AB"), "", ""), repo(None, "", ""));
        assert!(since(signed.clone()).check_signature(&plain, &Silent).is_err());
        assert!(since(plain.clone()).check_signature(&plain, &Silent).is_ok());
        assert!(since(signed.clone()).check_signature(&signed, &Silent).is_ok());
        let elsewhere = LockedRepo { url: "https://other.test/".to_string(), ..plain.clone() };
        assert!(since(signed.clone()).check_signature(&elsewhere, &Silent).is_ok());
        let accepted = History { accepted: vec!["r".to_string()], ..since(signed) };
        assert!(accepted.check_signature(&plain, &Silent).is_ok());
        let of_old = History { signed: BTreeSet::from(["r".to_string()]), ..History::default() };
        assert!(of_old.check_signature(&plain, &Silent).is_err());
    }
}
