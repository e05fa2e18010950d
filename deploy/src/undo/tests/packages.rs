use super::*;

/// A package manager: `b` needs `a`, and someone else's package needs `c`.
fn rpm(sandbox: &Sandbox, there: &str) {
    sandbox.write("there", there);
    sandbox.program(
        "rpm",
        r#"case $1 in
-q) grep -qx "$3" there; exit ;;
-e) shift; [ "$1" = --test ] && { test=yes; shift; }
  case " $* " in *" c "*) exit 1 ;; *" a "*) case " $* " in *" b "*) ;; *) ! grep -qx b there || exit 1 ;; esac ;; esac
  [ -n "$test" ] || for n in "$@"; do grep -vx "$n" there > there.new || :; mv there.new there; done ;;
esac"#,
    );
}

#[test]
fn packages_that_others_need_stay() {
    let sandbox = Sandbox::new();
    for (before, after) in [("a\nb\n", ""), ("a\nb\nc\nother\n", "c\nother\n"), ("other\n", "other\n")] {
        rpm(&sandbox, before);
        sandbox.does(call(&sandbox, &["remove_packages", "rpm", "a", "b", "c", "gone"]));
        assert_eq!(sandbox.read("there"), after);
    }
}

#[test]
fn what_was_brought_along_goes_by_its_list() {
    let sandbox = Sandbox::new();
    rpm(&sandbox, "a\nb\nother\n");
    sandbox.does(call(&sandbox, &["remove_brought", "rpm"]));
    assert_eq!(sandbox.read("there"), "a\nb\nother\n", "there is no list");
    sandbox.write("kept/brought", "a\n--nodeps other\nb\n-e\n");
    sandbox.does(call(&sandbox, &["remove_brought", "rpm"]));
    assert_eq!(sandbox.read("there"), "other\n");
    assert!(!sandbox.has("kept/brought"));
}

#[test]
fn debs_that_are_configured_or_half_removed_go() {
    let sandbox = Sandbox::new();
    sandbox.program("dpkg-query", r"printf 'ii  a\nrc  b:amd64\nun  c\npn  d\n'; exit 1");
    sandbox.program("dpkg", "echo \"$@\"");
    let said = sandbox.does(call(&sandbox, &["remove_packages", "dpkg", "a", "b", "c", "d", "e"]));
    assert_eq!(said, "--purge a b:amd64\n");
}

/// As the real one, which lists everything where it is asked for nothing.
#[test]
fn an_empty_list_removes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.program("dpkg-query", r"echo 'ii  everything'");
    sandbox.program("dpkg", "echo \"$@\"");
    assert_eq!(sandbox.does(call(&sandbox, &["remove_packages", "dpkg"])), "");
    sandbox.write("kept/brought", "--nothing that is a name\n");
    assert_eq!(sandbox.does(call(&sandbox, &["remove_brought", "dpkg"])), "");
}

const THEIRS: &str = "#!/bin/sh\n# the administrator's\nexit 104\n";

/// The policy of a node, after a function.
fn policy(sandbox: &Sandbox, function: &str) -> Option<String> {
    sandbox.program("systemctl", ":");
    sandbox.does(call(sandbox, &[function]));
    sandbox.has("policy-rc.d").then(|| sandbox.read("policy-rc.d"))
}

#[test]
fn services_are_held_for_a_while_whatever_was_there() {
    use std::os::unix::fs::PermissionsExt;
    for before in [None, Some(THEIRS), Some("")] {
        let sandbox = Sandbox::new();
        if let Some(text) = before {
            sandbox.write("policy-rc.d", text);
        }
        // The second time as after an interruption.
        for _ in 0..2 {
            assert!(policy(&sandbox, "hold_services").unwrap().ends_with("\nexit 101\n"));
            let mode = std::fs::metadata(sandbox.path("policy-rc.d")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755);
        }
        for _ in 0..2 {
            // An empty one is none.
            let after = policy(&sandbox, "release_services");
            assert_eq!(after.as_deref(), before.filter(|text| !text.is_empty()));
        }
        assert_eq!(std::fs::read_dir(sandbox.path("kept")).unwrap().count(), 0);
    }
}

/// The script ends, or the node does, in front of each program that changes anything.
#[test]
fn killed_anywhere_neither_policy_is_lost() {
    for before in [None, Some(THEIRS)] {
        for position in 1.. {
            let sandbox = Sandbox::new();
            if let Some(text) = before {
                sandbox.write("policy-rc.d", text);
            }
            sandbox.program("systemctl", ":");
            for name in ["mkdir", "rm", "cp", "sync", "mv", "chmod"] {
                let real = format!("/bin/{name}");
                let die = format!(
                    "echo >> steps; [ $(grep -c '' steps) != {position} ] || {{ kill -9 $PPID; exit 1; }}"
                );
                sandbox.program(name, &format!("cd {}; {die}; exec {real} \"$@\"", sandbox.at("")));
            }
            let script = call(&sandbox, &["hold_services"]).then(["release_services"]);
            let done = sandbox.run(&script).done;
            let now = sandbox.has("policy-rc.d").then(|| sandbox.read("policy-rc.d"));
            let ours = now.as_ref().is_some_and(|text| text.ends_with("exit 101\n"));
            assert!(ours || now.as_deref() == before, "at {position}: {now:?}");
            if done {
                assert!(position > 6 && now.as_deref() == before, "the test itself works");
                break;
            }
            // Of what was interrupted nothing is left, be it run again or cleaned up.
            let again = if position % 2 == 0 { "hold_services" } else { ":" };
            sandbox.does(call(&sandbox, &[again]).then(["release_services"]));
            let left = sandbox.has("policy-rc.d").then(|| sandbox.read("policy-rc.d"));
            assert_eq!(left.as_deref(), before, "at {position}");
            assert!(!sandbox.has("policy-rc.d.eggo-new") && !sandbox.has("kept/policy-rc.d"));
        }
    }
}

/// A fault of the disk leaves an empty program.
#[test]
fn an_empty_policy_goes_with_a_cleanup_and_with_another_run() {
    for functions in [&["release_services"][..], &["hold_services", "release_services"]] {
        let sandbox = Sandbox::new();
        sandbox.write("policy-rc.d", "");
        let last = functions.iter().fold(None, |_, function| policy(&sandbox, function));
        assert_eq!(last, None);
        sandbox.write("policy-rc.d", THEIRS);
        policy(&sandbox, "hold_services");
        sandbox.write("policy-rc.d", "");
        let last = functions.iter().fold(None, |_, function| policy(&sandbox, function));
        assert_eq!(last.as_deref(), Some(THEIRS));
    }
}
