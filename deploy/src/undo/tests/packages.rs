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

#[test]
fn only_our_own_policy_goes() {
    let sandbox = Sandbox::new();
    sandbox.program("systemctl", ":");
    let release = || sandbox.does(call(&sandbox, &["release_services"]));
    sandbox.write("policy-rc.d", "#!/bin/sh\n# the administrator's\nexit 101\n");
    sandbox.does(call(&sandbox, &["hold_services"]));
    release();
    assert!(sandbox.read("policy-rc.d").contains("administrator"));
    std::fs::remove_file(sandbox.path("policy-rc.d")).unwrap();
    sandbox.does(call(&sandbox, &["hold_services"]));
    assert!(sandbox.read("policy-rc.d").ends_with("\nexit 101\n"));
    release();
    assert!(!sandbox.has("policy-rc.d"));
}
