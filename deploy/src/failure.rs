//! What went wrong: on one node, or altogether.

use crate::stop::is_stopped;
use eggo_errors::{Count, Exit, Explain, Report};

/// What failed on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub node: String,
    pub report: Report,
}

impl Failure {
    /// What happened, the node first.
    pub fn line(&self) -> String {
        let prefix = format!("{}: ", self.node);
        let message = &self.report.message;
        if message.starts_with(&prefix) { message.clone() } else { prefix + message }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PhaseError {
    /// Not the fault of any one node.
    Whole(Report),
    Nodes(Vec<Failure>),
}

impl<E: Explain> From<E> for PhaseError {
    fn from(error: E) -> Self {
        Self::Whole(error.into())
    }
}

impl PhaseError {
    /// One report for all: one line per node, the node first.
    pub fn report(&self, title: &str) -> Report {
        match self {
            Self::Whole(report) => report.clone(),
            Self::Nodes(failures) => {
                // Then it is the bundle that failed, on whichever nodes it showed.
                if let Some(refused) = failures.iter().find(|failure| failure.report.exit == Exit::Untrusted)
                {
                    return refused.report.clone();
                }
                // The others were only asked to stop.
                let failures: Vec<&Failure> = match failures.iter().find(|one| !is_stopped(&one.report)) {
                    Some(_) => failures.iter().filter(|one| !is_stopped(&one.report)).collect(),
                    None => match failures.first() {
                        Some(stopped) => return stopped.report.clone(),
                        None => Vec::new(),
                    },
                };
                let nodes = Count(failures.len(), "node", "nodes");
                let mut report = Report::new(format!("`{title}` failed on {nodes}"))
                    .code("nodes-failed")
                    .exit(Exit::SomeHosts);
                for failure in &failures {
                    report = report.note(failure.line());
                    for note in &failure.report.notes {
                        report = report.note(
                            note.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"),
                        );
                    }
                }
                let disks = failures.iter().find_map(|failure| disk_hint(failure));
                let hint = disks.or_else(|| failures.iter().find_map(|failure| failure.report.hint.clone()));
                report.hinted(hint.unwrap_or_else(|| {
                    "fix what is named above and run the same command again: it goes on where it stopped"
                        .into()
                }))
            }
        }
    }
}

/// What is wrong with a disk, by the words of whatever failed over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    Full,
    ReadOnly,
}

impl Disk {
    /// The kernel's words, and those of package managers that look before they begin.
    const WORDS: [(&str, Self); 6] = [
        ("No space left on device", Self::Full),
        ("ENOSPC", Self::Full),
        ("more space on the", Self::Full),
        ("have enough free space in", Self::Full),
        ("Read-only file system", Self::ReadOnly),
        ("EROFS", Self::ReadOnly),
    ];

    /// What a line says, and the words before and after that.
    fn find(line: &str) -> Option<(Self, &str, &str)> {
        Self::WORDS.iter().find_map(|(words, disk)| {
            let (before, after) = line.split_once(words)?;
            Some((*disk, before, after))
        })
    }

    pub(crate) fn of(line: &str) -> Option<Self> {
        Self::find(line).map(|(disk, ..)| disk)
    }
}

/// Whatever else a full disk or a read-only one lets fail: no other bundle helps against it.
fn disk_hint(failure: &Failure) -> Option<String> {
    let Failure { node, report } = failure;
    let said = [&report.message].into_iter().chain(&report.notes).flat_map(|text| text.lines());
    let (disk, before, after) = said.into_iter().find_map(Disk::find)?;
    // `cannot copy './a' to '/usr/bin/a': No space …`, and `needs 5MB more space on the / filesystem`.
    let path = paths(before).last().map(folder).or_else(|| paths(after).next());
    Some(match (disk, path) {
        (Disk::Full, Some(path)) => format!(
            "free space on the disk of {node} that holds {path} (`df -h {path}` there shows how full it is), then run the \
             same command again: it goes on where it stopped"
        ),
        (Disk::Full, None) => format!(
            "free space on {node} (`df -h` there names the full disk), then run the same command again: it goes on \
             where it stopped"
        ),
        (Disk::ReadOnly, path) => {
            let place = path.map(|path| format!(", with {path} on it,")).unwrap_or_default();
            format!(
                "a disk of {node}{place} is read-only: `dmesg` there says why. When it can be written to, run the same \
                 command again: it goes on where it stopped"
            )
        }
    })
}

/// The absolute paths in a line.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| c.is_whitespace() || "'\"`‘’“”:;,()".contains(c);
    line.split(ends).filter(|word| word.starts_with('/'))
}

fn folder(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((folder, _)) => folder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(notes: &[&str]) -> String {
        let mut report =
            Report::new("w: the package manager refuses the transaction").hinted("build it again");
        report.notes = notes.iter().map(|note| note.to_string()).collect();
        let other = Failure { node: "a".into(), report: Report::new("no").hinted("something else") };
        let failures = vec![other, Failure { node: "w".into(), report }];
        PhaseError::Nodes(failures).report("Install packages").hint.unwrap()
    }

    #[test]
    fn a_full_disk_sends_nobody_back_for_another_bundle() {
        for (said, place) in [
            (
                "dpkg: error processing archive /tmp/a.deb (--unpack):\n cannot copy extracted data for './usr/bin/etcd' \
                 to '/usr/bin/etcd.dpkg-new': failed to write (No space left on device)",
                "/usr/bin",
            ),
            (
                "error: unpacking of archive failed on file /opt/x/etcd;6a: cpio: write failed - No space left on device",
                "/opt/x",
            ),
            ("installing package etcd-3.5 needs 30MB more space on the /var filesystem", "/var"),
            ("mkdir: cannot create directory ‘/var/lib/eggo’: No space left on device", "/var/lib"),
            ("E: You don't have enough free space in /var/cache/apt/archives/.", "/var/cache/apt/archives/."),
        ] {
            let start = format!("free space on the disk of w that holds {place} (");
            assert!(hint(&["before", said]).starts_with(&start), "{}", hint(&[said]));
        }
        assert!(hint(&["tar: write error: ENOSPC"]).starts_with("free space on w (`df -h` there"));
    }

    #[test]
    fn a_read_only_disk_is_called_that() {
        let said = "cp: cannot create regular file '/etc/eggo.conf': Read-only file system";
        let expected = "a disk of w, with /etc on it, is read-only: `dmesg` there says why.";
        assert!(hint(&[said]).starts_with(expected), "{}", hint(&[said]));
        assert!(hint(&["open x: EROFS"]).starts_with("a disk of w is read-only"));
    }

    #[test]
    fn other_failures_keep_their_hint() {
        assert_eq!(hint(&["/usr/bin/etcd is in the way"]), "something else");
    }
}
