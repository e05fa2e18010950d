//! CNI programs, for a runtime that looks for them in but one folder.

use super::{CNI_BIN_DIR, CniFolders, Scope};
use crate::script::Script;

/// The folder with CNI programs, for a runtime that knows but one: where addons put theirs (only once they
/// run), if deploy.yaml names it, else the first one that has any.
pub fn cni_bin_dir<'a>(scope: &Scope<'a>) -> &'a str {
    let usual = scope.cni_bin_dirs.iter().find(|dir| *dir == CNI_BIN_DIR);
    let found = usual.or(scope.cni_found.first()).or(scope.cni_bin_dirs.first());
    found.map_or(CNI_BIN_DIR, String::as_str)
}

/// Links from the one folder to the programs of the others.
#[derive(Debug, Clone)]
pub struct CniLinks {
    pub folder: String,
    /// The folders that have the programs.
    pub others: Vec<String>,
    pub make: Script,
}

/// None: there is one folder only, or the runtime knows them all.
pub fn cni_links(scope: &Scope<'_>) -> Option<CniLinks> {
    let into = cni_bin_dir(scope);
    let others: Vec<String> = scope.cni_bin_dirs.iter().filter(|dir| *dir != into).cloned().collect();
    if (scope.chosen.kind.cni)(scope) == CniFolders::All || others.is_empty() {
        return None;
    }
    let make = Script::new([include_str!("cni_link.sh")]).set("INTO", into).args(&others);
    Some(CniLinks { folder: into.to_string(), others, make })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::{CgroupDriver, Chosen};
    use crate::version::Version;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    fn links(runtime: &str, version: &str, dirs: &[&str], found: &[&str]) -> Option<CniLinks> {
        let chosen = Chosen {
            kind: runtime.parse().unwrap(),
            endpoint: String::new(),
            pause_image: String::new(),
            registry_mirrors: Vec::new(),
            insecure_registries: Vec::new(),
            settings: None,
        };
        let strings = |list: &[&str]| list.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        cni_links(&Scope {
            chosen: &chosen,
            cni_bin_dirs: &strings(dirs),
            cni_found: &strings(found),
            settings: &BTreeMap::new(),
            version: version.parse().ok(),
            kubelet: Version::new(1, 20, 0),
            kubelets_driver: None,
            nodes_driver: CgroupDriver::Systemd,
        })
    }

    #[test]
    fn only_a_containerd_that_knows_one_folder_gets_links() {
        let both = ["/usr/libexec/cni", "/opt/cni/bin"];
        assert_eq!(links("containerd", "2.0.1", &both, &[]).unwrap().folder, "/opt/cni/bin");
        assert!(links("containerd", "2.1.0", &both, &[]).is_none());
        assert!(links("containerd", "2.0.1", &both[..1], &[]).is_none());
        assert!(links("iSulad", "2.0.1", &both, &[]).is_none());
    }

    #[test]
    fn programs_of_the_other_folders_are_linked_and_the_links_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let text = |path: &Path| path.display().to_string();
        let (packaged, usual) = (at("pack'aged"), at("usual/bin"));
        fs::create_dir(&packaged).unwrap();
        fs::create_dir_all(&usual).unwrap();
        for path in ["pack'aged/bridge", "pack'aged/loopback", "usual/bin/bridge"] {
            fs::write(at(path), path).unwrap();
        }
        std::os::unix::fs::symlink("/users/own", usual.join("users")).unwrap();
        let (packaged, usual, absent) = (text(&packaged), text(&usual), text(&at("absent")));
        let links =
            links("containerd", "1.6.20", &[&packaged, &usual, &absent], &[&usual, &packaged]).unwrap();
        assert_eq!(links.folder, usual);
        let shell = |script: &Script| {
            let output = Command::new("sh").args(["-euc", &script.to_string()]).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        };
        for _ in 0..2 {
            shell(&links.make);
        }
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(&usual).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["bridge", "loopback", "users"]);
        assert_eq!(fs::read_to_string(at("usual/bin/bridge")).unwrap(), "usual/bin/bridge", "its own stays");
        assert_eq!(fs::read_link(at("usual/bin/loopback")).unwrap(), at("pack'aged/loopback"));
        let undo = ["remove_links", &links.folder].into_iter().chain(links.others.iter().map(String::as_str));
        shell(&crate::undo::call(undo));
        assert_eq!(names(), ["bridge", "users"]);
        assert!(at("pack'aged/loopback").exists());
    }
}
