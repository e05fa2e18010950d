//! Certificates after the deploy: how long they last, and new ones without a pause.

mod renew;

pub use renew::Renewal;

use super::context::{ClusterView, Node};
use crate::paths;
use crate::pki::Certificate;
use crate::remote::{Command, Script};
use eggo_bundles::Role;
use eggo_errors::{Count, Exit, Report};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// From here on `status` warns.
pub const WARN_DAYS: i64 = 30;

/// One line of `certs status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Where it is: a node's name, or nothing for the control machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub name: String,
    pub subject: String,
    pub issuer: String,
    pub expires: String,
    /// Negative once it has expired.
    pub days: i64,
    #[serde(default)]
    pub state: Validity,
    pub authority: bool,
}

/// Whether a certificate still counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Validity {
    #[default]
    Good,
    /// It expires within [`WARN_DAYS`].
    Soon,
    Expired,
}

impl Validity {
    fn of(certificate: &Certificate, now: Timestamp) -> Self {
        match certificate.days_left(now) {
            _ if certificate.not_after <= now => Self::Expired,
            ..=WARN_DAYS => Self::Soon,
            _ => Self::Good,
        }
    }
}

impl Line {
    fn new(node: Option<String>, name: String, certificate: &Certificate, now: Timestamp) -> Self {
        Self {
            node,
            name,
            subject: certificate.common_name.clone(),
            issuer: certificate.issuer.clone(),
            expires: certificate.not_after.strftime("%Y-%m-%d").to_string(),
            days: certificate.days_left(now),
            state: Validity::of(certificate, now),
            authority: certificate.is_authority,
        }
    }

    /// What needs attention, if anything does.
    pub fn finding(&self) -> Option<String> {
        let place = self.node.as_deref().map(|node| format!("{node}: ")).unwrap_or_default();
        match self.state {
            Validity::Good => None,
            Validity::Soon => {
                Some(format!("{place}certificate `{}` expires in {}", self.name, days(self.days)))
            }
            Validity::Expired => {
                Some(format!("{place}certificate `{}` expired on {}", self.name, self.expires))
            }
        }
    }
}

fn days(count: i64) -> Count<'static> {
    Count(usize::try_from(count).unwrap_or_default(), "day", "days")
}

/// What to do about certificates that have expired or soon will; `None` if there are none.
pub fn advice(lines: &[Line]) -> Option<String> {
    let mut due = lines.iter().filter(|line| line.state != Validity::Good).peekable();
    due.peek()?;
    Some(match due.any(|line| line.authority) {
        true => "no command renews an authority: move to a new cluster before it expires".into(),
        false => "`eggo-install certs renew -f deploy.yaml` makes new ones".into(),
    })
}

/// An error that names every certificate that has expired; `None` if there are none.
pub fn expired(lines: &[Line]) -> Option<Report> {
    let expired: Vec<&Line> = lines.iter().filter(|line| line.state == Validity::Expired).collect();
    if expired.is_empty() {
        return None;
    }
    let verb = if expired.len() == 1 { "has" } else { "have" };
    let count = Count(expired.len(), "certificate", "certificates");
    let mut report =
        Report::new(format!("{count} {verb} expired")).code("certificates-expired").exit(Exit::SomeHosts);
    report.notes.extend(expired.iter().filter_map(|line| line.finding()));
    report.hint = advice(lines);
    Some(report)
}

/// All certificates: those that were made here, and those that the kubelets got from the cluster.
/// Only `asked` nodes are asked; those that cannot be reached are left out.
pub async fn status(cluster: &ClusterView, asked: &[&Node]) -> Result<Vec<Line>, Report> {
    let now = Timestamp::now();
    let mut lines = Vec::new();
    for (path, certificate) in cluster.certificates().await? {
        let (node, name) = match path.strip_prefix("nodes/").and_then(|rest| rest.split_once('/')) {
            Some((node, name)) => (Some(node.to_string()), name.to_string()),
            None => (None, path),
        };
        lines.push(Line::new(node, name, &certificate, now));
    }
    let workers = asked.iter().filter(|node| node.host.has(Role::Worker));
    let asked = workers.map(|node| async {
        let script = Script::new([include_str!("certs/kubelets.sh")]).set("FOLDER", paths::KUBELET_PKI);
        let output = node.remote.run(Command::look("read the kubelet's certificates", script)).await.ok()?;
        Some((node.host.name.clone(), output.text()))
    });
    for (node, text) in cluster.limits.each(asked.collect()).await.into_iter().flatten() {
        for part in text.split("file ").filter(|part| !part.trim().is_empty()) {
            let (name, pem) = part.split_once('\n').unwrap_or((part, ""));
            if let Ok(certificate) = Certificate::parse(name, pem.as_bytes()) {
                lines.push(Line::new(Some(node.clone()), name.to_string(), &certificate, now));
            }
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, days: i64, authority: bool) -> Line {
        let folder = tempfile::tempdir().unwrap();
        let then = Timestamp::now() - jiff::SignedDuration::from_hours(24 * (3650 - days));
        let pki = crate::pki::Folder::prepare(folder.path(), None, then).unwrap();
        let (_, certificate) = pki.certificates().unwrap().remove(0);
        Line { authority, ..Line::new(Some("m".into()), name.into(), &certificate, Timestamp::now()) }
    }

    #[test]
    fn what_has_expired_is_called_so() {
        let lines = [line("good", 100, false), line("soon", 20, false), line("gone", -2, false)];
        assert_eq!(
            lines.each_ref().map(|line| line.state),
            [Validity::Good, Validity::Soon, Validity::Expired]
        );
        assert!(lines[2].days < 0);
        assert_eq!(expired(&lines[..2]), None);
        assert_eq!(advice(&lines[..1]), None);
        let report = expired(&lines).unwrap();
        assert_eq!((report.code.as_str(), report.exit), ("certificates-expired", Exit::SomeHosts));
        assert_eq!(report.message, "1 certificate has expired");
        assert_eq!(report.notes, [format!("m: certificate `gone` expired on {}", lines[2].expires)]);
        assert!(report.hint.unwrap().contains("certs renew"));
        assert!(advice(&[line("ca", 3, true)]).unwrap().contains("no command renews an authority"));
    }
}
