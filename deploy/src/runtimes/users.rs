//! Container runtimes that a node had before the cluster came: they are the user's, and stay so.

use super::RuntimeKind;
use crate::script::{CALL, COMMON, KEPT, Script};

/// The functions `note_users`, `is_users` and `as_before`.
pub(crate) const USERS: &str = include_str!("users.sh");

/// A script with those functions learns where a node notes such runtimes.
pub(crate) fn noted(script: Script) -> Script {
    script.set("NOTED", format!("{KEPT}/users-runtimes"))
}

/// Makes that note, once. It must come before any package of ours, for these bring runtimes too.
pub fn note() -> Script {
    let all = RuntimeKind::all().flat_map(|kind| [kind.service, kind.data]);
    noted(Script::new([COMMON, USERS, CALL])).arg("note_users").args(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::sandbox::Sandbox;

    /// Runs a function on a node with some units enabled and active, and data below `lib`; what it said.
    fn run(node: &Sandbox, units: &str, function: &str, arguments: &[&str]) -> (bool, String) {
        let systemctl = format!(
            "units=' {units} '; case $1 in -q) shift ;; esac; case $1 in\n\
             is-enabled) case $units in *\" enabled:$2 \"*) echo enabled ;; *) echo disabled; exit 1 ;; esac ;;\n\
             is-active) case $units in *\" active:$2 \"*) ;; *) exit 3 ;; esac ;;\n\
             *) echo \"$@\" ;; esac"
        );
        node.program("systemctl", &systemctl);
        let script = Script::new([COMMON, USERS, CALL]).arg(function).args(arguments.iter().copied());
        let said = node.run(script.set("NOTED", node.at("kept/users")));
        assert!(said.err.is_empty(), "{said:?}");
        (said.done, said.out)
    }

    fn note(node: &Sandbox, units: &str) {
        let data = |name: &str| node.at(&format!("lib/{name}"));
        let all = RuntimeKind::all().flat_map(|kind| [kind.service.to_string(), data(kind.service)]);
        let all: Vec<String> = all.collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(run(node, units, "note_users", &all), (true, String::new()));
    }

    fn is_users(node: &Sandbox, name: &str) -> bool {
        run(node, "", "is_users", &[name]).0
    }

    /// Which runtimes count as the user's on such a node.
    fn users(units: &str, files: &[&str]) -> Vec<&'static str> {
        let node = Sandbox::new();
        for file in files {
            std::fs::create_dir_all(node.path("lib").join(file)).unwrap();
        }
        note(&node, units);
        let names = RuntimeKind::all().map(|kind| kind.service);
        names.filter(|name| is_users(&node, name)).collect()
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
        let node = Sandbox::new();
        assert!(!is_users(&node, "docker"), "there is no note yet");
        note(&node, "");
        note(&node, "active:docker.service");
        assert!(!is_users(&node, "docker"));
    }

    #[test]
    fn units_go_back_to_what_they_were() {
        let node = Sandbox::new();
        note(&node, "enabled:docker.socket active:docker.socket enabled:isulad.service");
        let runs = "active:docker.socket active:docker.service active:containerd.service";
        let as_before = |name| run(&node, runs, "as_before", &[name]);
        let expected = "enable docker.socket\nstart docker.socket\nstop docker.service\n";
        assert_eq!(as_before("docker"), (true, expected.to_string()));
        assert_eq!(as_before("isulad"), (true, "enable isulad.service\n".to_string()));
        assert_eq!(as_before("containerd"), (true, String::new()), "it is not the user's");
    }
}
