//! Container runtimes that a node had before the cluster came: they are the user's, and stay so.

use super::{KEPT, settle};

/// Where a node notes them: a line for each, and one for each of their units that was enabled or active.
fn noted() -> String {
    format!("{KEPT}/users-runtimes")
}

/// Shell: makes that note, once. It must come before any package of ours, for these bring runtimes too.
/// Stopped runtimes count as well: their data is the user's all the same.
pub fn note() -> String {
    let noted = noted();
    let settle = settle(&format!("{noted}.new"));
    format!(
        "[ -e {noted} ] || {{ mkdir -p {KEPT}; for r in docker containerd isulad; do\n\
         found=; for u in $r.socket $r.service; do\n\
         case $(systemctl is-enabled $u 2>/dev/null) in enabled*) found=yes; echo \"enabled $u\" ;; esac\n\
         if systemctl -q is-active $u; then found=yes; echo \"active $u\"; fi; done\n\
         if ls -A /var/lib/$r 2>/dev/null | grep -qvx lost+found; then found=yes; fi\n\
         [ -z \"$found\" ] || echo $r; done > {noted}.new\n\
         {settle}; mv -f {noted}.new {noted}; }}"
    )
}

/// Shell: succeeds if the runtime was the user's.
pub fn is_users(name: &str) -> String {
    format!("grep -qsx {name} {}", noted())
}

/// Shell: a runtime of the user's is enabled and runs if it was and did before, and else does not. The socket
/// comes first: systemd refuses to listen for a service that runs.
pub fn as_before(name: &str) -> String {
    let noted = noted();
    format!(
        "for u in {name}.socket {name}.service; do\n\
         if grep -qsx \"enabled $u\" {noted}; then systemctl -q enable $u; fi\n\
         if grep -qsx \"active $u\" {noted}; then systemctl start $u\n\
         elif systemctl -q is-active $u; then systemctl stop $u; fi; done"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// Runs a script on a node with some units enabled and active, and what is below `folder`; what it said.
    fn run(folder: &Path, units: &str, script: &str) -> (bool, String) {
        let at = |name: &str| folder.join(name).display().to_string();
        let script = script.replace(KEPT, &at("kept")).replace("/var/lib/", &at("lib/"));
        let systemctl = format!(
            "units=' {units} '; systemctl() {{ case $1 in -q) shift ;; esac; case $1 in\n\
             is-enabled) case $units in *\" enabled:$2 \"*) echo enabled ;; *) echo disabled; return 1 ;; esac ;;\n\
             is-active) case $units in *\" active:$2 \"*) ;; *) return 3 ;; esac ;;\n\
             *) echo \"$@\" ;; esac; }}"
        );
        let script = format!("set -eu\n{systemctl}\n{script}");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Which runtimes count as the user's on such a node.
    fn users(units: &str, files: &[&str]) -> Vec<&'static str> {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            std::fs::create_dir_all(folder.path().join("lib").join(file)).unwrap();
        }
        assert!(run(folder.path(), units, &note()).0);
        let runtimes = ["docker", "containerd", "isulad"];
        runtimes.into_iter().filter(|name| run(folder.path(), "", &is_users(name)).0).collect()
    }

    #[test]
    fn a_runtime_is_the_users_if_it_runs_or_would_or_has_data() {
        assert!(users("", &["docker", "containerd/lost+found"]).is_empty());
        assert_eq!(users("active:containerd.service", &[]), ["containerd"]);
        assert_eq!(users("active:docker.socket", &[]), ["docker"]);
        assert_eq!(users("enabled:isulad.service", &[]), ["isulad"]);
        assert_eq!(users("", &["docker/volumes"]), ["docker"], "a stopped one has data");
    }

    #[test]
    fn the_first_note_stays() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!run(folder.path(), "", &is_users("docker")).0, "there is no note yet");
        run(folder.path(), "", &note());
        run(folder.path(), "active:docker.service", &note());
        assert!(!run(folder.path(), "", &is_users("docker")).0);
    }

    #[test]
    fn units_go_back_to_what_they_were() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), "enabled:docker.socket active:docker.socket enabled:isulad.service", &note());
        let runs = "active:docker.socket active:docker.service";
        let expected = "enable docker.socket\nstart docker.socket\nstop docker.service\n";
        assert_eq!(run(folder.path(), runs, &as_before("docker")), (true, expected.to_string()));
        assert_eq!(
            run(folder.path(), "", &as_before("isulad")),
            (true, "enable isulad.service\n".to_string())
        );
    }
}
