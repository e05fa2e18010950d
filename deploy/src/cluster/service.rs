//! A component as a systemd service: its files, its unit, and running.
//!
//! A stamp on the node says with which files and which program the service was last started, so
//! that a run that was interrupted between writing and restarting is made good by the next one, and a
//! service that runs as it should is left alone.

use super::context::Node;
use super::paths;
use crate::remote::{Command, RemoteFile, Script, Written};
use crate::run::{Outcome, Run, Step};
use crate::undo::Undo;
use eggo_bundles::digest::Hasher;
use eggo_errors::Report;
use std::time::Duration;

const STAMPS: &str = "/var/lib/eggo/started";
/// A service that ended by itself so often will not work by waiting.
const ENDS: u32 = 4;

/// Where the node notes how it last started.
fn stamp(name: &str) -> String {
    format!("{STAMPS}/{name}")
}

pub struct Service {
    pub name: &'static str,
    /// None: the package's own unit is used.
    pub unit: Option<String>,
    pub files: Vec<RemoteFile>,
    /// What else a restart depends on: the program's version.
    pub depends: String,
    /// It reloads its files without stopping.
    pub reloads: bool,
    /// Runs before the start.
    pub before: Option<Script>,
    /// Succeeds once the service works; it is repeated until then.
    pub works: Option<Script>,
    pub limit: Duration,
    /// Taken back on cleanup, besides the files and the unit.
    pub undo: Vec<Undo>,
}

impl Service {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            unit: None,
            files: Vec::new(),
            depends: String::new(),
            reloads: false,
            before: None,
            works: None,
            limit: Duration::from_secs(120),
            undo: Vec::new(),
        }
    }

    /// Brings the service to this form and running.
    pub async fn ensure(self, run: &Run, node: &Node) -> Result<Outcome, Report> {
        let Self { name, unit, mut files, depends, reloads, before, works, limit, mut undo } = self;
        if let Some(text) = unit {
            files.push(RemoteFile::new(paths::unit(name), text));
        }
        let fingerprint = fingerprint(&files, &depends);
        // Undone last first: the folders go at the very end, if they are empty by then.
        let folders = [paths::KUBERNETES, paths::PKI, "/etc/kubernetes/pki/etcd"];
        undo.splice(0..0, folders.map(|path| Undo::Folder { path: path.into() }));
        undo.extend(files.iter().map(|file| Undo::file(&file.path)));
        undo.push(Undo::tree(stamp(name)));
        undo.push(Undo::unit(name));
        let step = Step::new(format!("service/{name}"), format!("start {name}"))
            .fingerprint(&fingerprint)
            .undo_all(undo)
            .always();
        let work = async |permit| {
            let written = node.remote.write_files(permit, files).await?;
            let optional = |script: Option<Script>| script.map_or(String::new(), String::from);
            let script = start(&stamp(name), name, &fingerprint, reloads)
                .set("BEFORE", optional(before))
                .set("WORKS", optional(works))
                .set("LIMIT", limit.as_secs().to_string());
            let command = Command::change(permit, format!("start {name}"), script)
                .timeout(limit + Duration::from_secs(240));
            let output = node.remote.run(command).await?;
            let started = output.text().lines().any(|line| line == "started");
            Ok(Outcome::changed_if(started || written.contains(&Written::Changed)))
        };
        run.step(&node.host.name, step, work).await
    }
}

/// Still without its limit, and the scripts before and after.
fn start(stamp: &str, name: &str, fingerprint: &str, reloads: bool) -> Script {
    Script::new([include_str!("service.sh")])
        .set("NAME", name)
        .set("FINGERPRINT", fingerprint)
        .set("STAMP", stamp)
        .set("RELOADS", if reloads { "yes" } else { "no" })
        .set("ENDS", ENDS.to_string())
}

/// A folder that only root may read, made before a start.
pub fn make_folder(path: &str) -> Script {
    Script::new([include_str!("make_folder.sh")]).arg(path)
}

fn fingerprint(files: &[RemoteFile], depends: &str) -> String {
    let mut hasher = Hasher::new();
    for file in files {
        hasher.update(file.path.as_bytes());
        hasher.update(&(file.content.len() as u64).to_le_bytes());
        hasher.update(&file.content);
    }
    hasher.update(depends.as_bytes());
    hasher.finish().hex()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::sandbox::Sandbox;
    use std::path::Path;
    use std::process::{Child, Command};

    /// The script with a systemd that runs `process` and says `reload` of its unit; what it was told to do.
    fn told(sandbox: &Sandbox, process: &Child, reload: &str) -> String {
        let script = start(&sandbox.at("nginx"), "nginx", "f", true)
            .set("BEFORE", "")
            .set("WORKS", "")
            .set("LIMIT", "1");
        let systemctl = format!(
            "case \"$*\" in *MainPID*) echo {} ;; *NeedDaemonReload*) echo {reload} ;; \
             restart* | reload*) echo \"$1\" ;; esac",
            process.id()
        );
        sandbox.program("systemctl", &systemctl);
        let said = sandbox.run(script);
        assert!(said.done, "{said:?}");
        said.out
    }

    #[test]
    fn a_process_whose_program_was_replaced_is_started_anew() {
        let sandbox = Sandbox::new();
        let (program, new) = (sandbox.path("sleep"), sandbox.path("new"));
        // Not by this process: another test's child could still hold the file open for writing.
        let copy =
            |to: &Path| assert!(Command::new("cp").arg("/bin/sleep").arg(to).status().unwrap().success());
        copy(&program);
        let mut process = Command::new(&program).arg("60").spawn().unwrap();
        let told = |reload| told(&sandbox, &process, reload);
        assert_eq!(told("no"), "reload\nstarted\n", "there is no stamp yet");
        assert_eq!(told("no"), "", "nothing to do");
        assert_eq!(told("yes"), "restart\nstarted\n", "the unit has changed");
        copy(&new);
        std::fs::rename(&new, &program).unwrap();
        assert_eq!(told("no"), "restart\nstarted\n", "a reload would keep the old program");
        std::fs::remove_file(&program).unwrap();
        assert_eq!(told("no"), "", "the node has no such program: an emulator's");
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
