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
    let title = match files {
        [one] => format!("write {}", one.path),
        [first, ..] => format!("write {} and {} more files", first.path, files.len() - 1),
        [] => "write nothing".into(),
    };
    Command::change(permit, title, script(files)).stdin(archive(files))
}

fn script(files: &[RemoteFile]) -> Script {
    let script = Script::new([COMMON, include_str!("write.sh")]).set("KEPT", KEPT);
    files.iter().enumerate().fold(script, |script, (index, file)| {
        script.args([&index.to_string(), &file.path, &format!("{:o}", file.mode), &file.owner])
    })
}

fn archive(files: &[RemoteFile]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (index, file) in files.iter().enumerate() {
        let mut header = tar::Header::new_ustar();
        header.set_size(file.content.len() as u64);
        header.set_mode(0o600);
        archive
            .append_data(&mut header, index.to_string(), &*file.content)
            .expect("writing to memory does not fail");
    }
    archive.into_inner().expect("writing to memory does not fail")
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
    use crate::remote::sandbox::Sandbox;

    #[test]
    fn what_was_there_is_on_the_disk_before_ours_takes_its_place() {
        let sandbox = Sandbox::new();
        sandbox.program("sync", "echo \"sync $(cat a b)\"");
        sandbox.program("chown", ":");
        let write = |files: &[(&str, &str)]| {
            let files: Vec<RemoteFile> = files
                .iter()
                .map(|(name, text)| RemoteFile::new(sandbox.at(name), text.to_string()))
                .collect();
            let said = sandbox.feed(script(&files).set("KEPT", sandbox.at("kept")), &archive(&files));
            assert!(said.done, "{said:?}");
            said.out
        };
        assert_eq!(write(&[("new", "ours")]), "changed\n", "nothing was there");
        sandbox.write("a", "users");
        sandbox.write("b", "too");
        let ours = [("a", "ours"), ("b", "ours"), ("c", "ours")];
        assert_eq!(write(&ours), "sync userstoo\nchanged\nchanged\nchanged\n", "once for all");
        assert_eq!(sandbox.read(&format!("kept/original{}", sandbox.at("a"))), "users");
        assert_eq!(sandbox.read("a"), "ours");
        assert_eq!(write(&[("a", "newer")]), "changed\n", "of ours none is kept");
    }
}
