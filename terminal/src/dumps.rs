//! Nothing of a process's memory gets into a core dump: it holds keys and passwords.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Keeps the memory of this process to itself. Call it first, before there are secrets. The limit counts for what the
/// kernel writes, and the programs that are started from here; a program that `core_pattern` names gets the dump whatever
/// the limit is, unless the process cannot be dumped. Neither can fail but on a kernel without them: then there are no
/// dumps either.
pub fn keep_memory_inside() {
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const IN_CHILD: &str = "EGGO_TEST_DUMPS_IN_CHILD";

    #[test]
    fn nothing_is_dumped_of_this_process_and_its_children() {
        if std::env::var_os(IN_CHILD).is_some() {
            keep_memory_inside();
            println!("\n{:?}", rustix::process::dumpable_behavior().unwrap());
            assert!(Command::new("cat").arg("/proc/self/limits").status().unwrap().success());
            return;
        }
        let name = "dumps::tests::nothing_is_dumped_of_this_process_and_its_children";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(IN_CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(said.lines().any(|line| line == "NotDumpable"), "{said}");
        let limit = said.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
        let limit: Vec<&str> = limit.split_whitespace().take(2).collect();
        assert_eq!(limit, ["0", "0"], "{said}");
    }
}
