//! Many files in one round trip: a tar on standard input, and a script that puts each in place.

use super::{COMMON, Command, KEPT, Output, RemoteError, RemoteFile, Script};
use crate::run::Permit;

/// What writing a file came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Unchanged,
    /// Content, mode or owner differ from before.
    Changed,
}

pub(super) fn command(permit: Permit, files: &[RemoteFile]) -> Command {
    let mut script = Script::new([COMMON, include_str!("write.sh")]).set("KEPT", KEPT);
    let mut archive = tar::Builder::new(Vec::new());
    for (index, file) in files.iter().enumerate() {
        let mut header = tar::Header::new_ustar();
        header.set_size(file.content.len() as u64);
        header.set_mode(0o600);
        archive
            .append_data(&mut header, index.to_string(), &*file.content)
            .expect("writing to memory does not fail");
        script = script.args([&index.to_string(), &file.path, &format!("{:o}", file.mode), &file.owner]);
    }
    let archive = archive.into_inner().expect("writing to memory does not fail");
    let title = match files {
        [one] => format!("write {}", one.path),
        [first, ..] => format!("write {} and {} more files", first.path, files.len() - 1),
        [] => "write nothing".into(),
    };
    Command::change(permit, title, script).stdin(archive)
}

pub(super) fn parse(host: &str, files: &[RemoteFile], output: &Output) -> Result<Vec<Written>, RemoteError> {
    let written: Vec<Written> = output
        .text()
        .lines()
        .filter_map(|line| match line {
            "same" => Some(Written::Unchanged),
            "changed" => Some(Written::Changed),
            _ => None,
        })
        .collect();
    if written.len() != files.len() {
        let reason = format!("{} of {} files were written", written.len(), files.len());
        return Err(RemoteError::answer(host, "write files", reason));
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::Stdin;
    use std::io::Write as _;
    use std::process::{Command as Process, Stdio};

    #[test]
    fn what_was_there_is_on_the_disk_before_ours_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let write = |files: &[(&str, &str)]| {
            let files: Vec<RemoteFile> =
                files.iter().map(|(name, text)| RemoteFile::new(at(name), text.to_string())).collect();
            let command = command(Permit::of_a_test(), &files);
            let script = command.script().to_string();
            let Stdin::Bytes(archive) = command.stdin else { panic!() };
            let sync =
                format!("sync() {{ echo \"sync $(cat {} {})\"; }}; chown() {{ :; }}", at("a"), at("b"));
            let script = format!("set -eu; {sync}\n{script}").replace(KEPT, &at("kept"));
            let mut child = Process::new("sh");
            child.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = child.spawn().unwrap();
            child.stdin.take().unwrap().write_all(&archive).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(write(&[("new", "ours")]), "changed\n", "nothing was there");
        std::fs::write(at("a"), "users").unwrap();
        std::fs::write(at("b"), "too").unwrap();
        let ours = [("a", "ours"), ("b", "ours"), ("c", "ours")];
        assert_eq!(write(&ours), "sync userstoo\nchanged\nchanged\nchanged\n", "once for all");
        let kept = std::fs::read_to_string(format!("{}/original{}", at("kept"), at("a"))).unwrap();
        assert_eq!(kept, "users");
        assert_eq!(std::fs::read_to_string(at("a")).unwrap(), "ours");
        assert_eq!(write(&[("a", "newer")]), "changed\n", "of ours none is kept");
    }
}
