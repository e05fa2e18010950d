use super::*;
use crate::facts::Manager;
use crate::remote::fake::{Call, Fake};
use crate::remote::sandbox::Sandbox;
use eggo_bundles::{Arch, Digest, Kind};

fn package(name: &str, version: &str, arch: &str) -> crate::facts::Package {
    crate::facts::Package { name: name.into(), version: version.into(), arch: arch.into() }
}

fn item(name: &str, version: &str, extension: &str, requires: &[&str]) -> Arc<Item> {
    Arc::new(Item {
        name: name.into(),
        version: version.into(),
        requires: requires.iter().map(|name| name.to_string()).collect(),
        ..Item::new(
            Arch::Amd64,
            Kind::Pkg,
            &format!("{name}_{version}{extension}"),
            Digest::of(name.as_bytes()),
            1,
        )
    })
}

fn debian(packages: &[(&str, &str, &str)]) -> Facts {
    let packages = packages.iter().map(|(name, version, arch)| package(name, version, arch)).collect();
    Facts { node: "n".into(), manager: Some(Manager::Dpkg), packages, ..Facts::default() }
}

#[test]
fn equal_and_newer_stay_older_go_up_missing_come() {
    let facts = debian(&[
        ("equal", "1.0-1", "amd64"),
        ("newer", "1:0.1", "all"),
        ("older", "1.9-1", "amd64"),
        ("foreign", "9", "arm64"),
    ]);
    let items = [
        item("equal", "1.0-1", ".deb", &[]),
        item("newer", "9.0", ".deb", &[]),
        item("older", "1.10-1", ".deb", &[]),
        item("foreign", "1", ".deb", &[]),
        item("missing", "1", ".deb", &[]),
    ];
    let transaction = decide(&facts, &items).unwrap();
    let names: Vec<&str> = transaction.install.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["older", "foreign", "missing"]);
    assert_eq!(transaction.new, ["foreign", "missing"]);
    let changes = changes(&facts, &items).unwrap();
    let versions = |name: &str, installed: Option<&str>, bundled: &str| Versions {
        name: name.into(),
        installed: installed.map(String::from),
        bundled: bundled.into(),
    };
    assert_eq!(changes.new, [versions("foreign", None, "1"), versions("missing", None, "1")]);
    assert_eq!(changes.upgraded, [versions("older", Some("1.9-1"), "1.10-1")]);
    let kept = [versions("equal", Some("1.0-1"), "1.0-1"), versions("newer", Some("1:0.1"), "9.0")];
    assert_eq!(changes.kept, kept);
    let text = serde_json::to_string(&changes).unwrap();
    assert_eq!(serde_json::from_str::<Changes>(&text).unwrap(), changes);
}

#[test]
fn a_package_of_the_other_kind_is_refused() {
    let error = decide(&debian(&[]), &[item("a", "1", ".rpm", &[])]).unwrap_err();
    assert_eq!(error.to_string(), "n: `a` is for another package manager than the node's");
    let nothing = Facts { node: "n".into(), ..Facts::default() };
    assert!(matches!(decide(&nothing, &[]), Err(PackageError::NoManager { .. })));
}

#[test]
fn what_nobody_provides_is_named() {
    let facts = debian(&[("libc6", "2", "amd64")]);
    let items = [item("a", "1", ".deb", &["libc6", "b", "c"]), item("b", "1", ".deb", &[])];
    assert_eq!(unmet(&facts, &items), [Unmet { package: "a".into(), requires: "c".into() }]);
}

#[tokio::test]
async fn a_transaction_is_journaled_with_what_was_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let journal = crate::journal::Journal::open(folder.path()).unwrap();
    let run = Run::new(journal, Arc::new(crate::events::Silent));
    let facts = debian(&[("old", "1", "amd64")]);
    let transaction =
        decide(&facts, &[item("old", "2", ".deb", &[]), item("new", "1", ".deb", &[])]).unwrap();
    let host = Fake::new("n");
    assert_eq!(install(&run, &host, &transaction).await.unwrap(), Outcome::Changed);
    let entry = run.journal().newest("n", "packages/install").unwrap();
    assert!(entry.done);
    assert!(entry.undo.contains(&Undo::Packages { manager: Manager::Dpkg, names: vec!["new".into()] }));
    let calls = host.calls();
    let Call::Run { script, stdin, .. } = &calls[0] else { panic!() };
    assert!(!script.contains("--force-depends") && !script.contains("--nodeps"));
    assert!(script.contains("--no-remove"));
    let mut archive = tar::Archive::new(&stdin[..]);
    let names: Vec<_> =
        archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string()).collect();
    assert_eq!(names, ["old_2.deb", "new_1.deb"]);
}

#[tokio::test]
async fn the_managers_reason_is_the_message() {
    let host = Fake::new("n").fails(
        "try the package transaction",
        100,
        "Reading package lists...\nThe following packages have unmet dependencies:\n a : Depends: b (>= 2) but it is not installable\nE: Unable to correct problems\n",
    );
    let transaction = decide(&debian(&[]), &[item("a", "1", ".deb", &[])]).unwrap();
    let error = simulate(&host, &transaction).await.unwrap_err();
    assert_eq!(
        error.notes(),
        [" a : Depends: b (>= 2) but it is not installable\nE: Unable to correct problems"]
    );
}

#[test]
fn a_stub_says_of_itself_what_the_package_says() {
    use eggo_bundles::content::deb;
    let control = b"Package: a\nVersion: 1\nArchitecture: all\nInstalled-Size: 3\nDepends: b (>= 2)\n";
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(control.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, "./control", &control[..]).unwrap();
    let mut archive = b"!<arch>\n".to_vec();
    for (name, mut bytes) in [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar", tar.into_inner().unwrap()),
        ("data.tar", vec![7; 9999]),
    ] {
        archive.extend(
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100644, bytes.len()).bytes(),
        );
        archive.append(&mut bytes);
    }
    let mut seen = stub::Seen::new(&archive[..]);
    let whole = deb::read(&mut seen).unwrap();
    let stub = stub::deb(seen.bytes);
    assert!(stub.len() < archive.len() - 8000, "without its data: {}", stub.len());
    assert_eq!(deb::read(&mut &stub[..]).unwrap(), whole);
    assert!(stub.ends_with(&[0; 1024]) && stub.len().is_multiple_of(2));
}

#[tokio::test]
async fn a_rehearsal_sends_stubs_and_links_and_tells_the_refusal() {
    let transaction = Transaction {
        install: vec![item("a", "1", ".rpm", &[]), item("b", "1", ".rpm", &[])],
        ..Transaction::nothing(Manager::Rpm)
    };
    let stubs = stubs(&transaction, |item| (item.name == "a").then_some(&b"stub"[..]));
    let mut archive = tar::Archive::new(&stubs[..]);
    let entries: Vec<(String, tar::EntryType)> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.path().unwrap().display().to_string(), entry.header().entry_type()))
        .collect();
    let expected = [("a_1.rpm", tar::EntryType::Regular), ("b_1.rpm", tar::EntryType::Symlink)];
    assert_eq!(entries, expected.map(|(name, kind)| (name.to_string(), kind)));
    rehearse(&Fake::new("n"), Manager::Rpm, stubs.clone()).await.unwrap();
    let fake = Fake::new("n").fails("--nodigest", 2, "error: Failed dependencies:\n\tx is needed by a-1");
    match rehearse(&fake, Manager::Rpm, stubs).await {
        Err(PackageError::Refused { said, .. }) => assert!(said.contains("x is needed by a-1"), "{said}"),
        other => panic!("{other:?}"),
    }
}

/// A connection is lost in the middle, and the command runs again while the transaction goes on.
#[test]
fn a_second_run_waits_for_the_first_and_holds_services_back_until_its_own_end() {
    let sandbox = Sandbox::new();
    ["dpkg", "systemctl"].iter().for_each(|name| sandbox.program(name, ":"));
    let here = sandbox.at("");
    let look = format!("[ -e {here}policy-rc.d ] || echo unprotected; [ ! -e /proc/$$/fd/9 ] || echo kept");
    sandbox.program("apt-get", &format!("(echo begin; {look}; sleep 0.3; {look}; echo end) >> {here}log"));
    let rpm = format!(
        "case $1 in -qp) echo a ;; -q) [ -e {here}rpms ] ;; *) [ \"$2\" = --test ] || \
         (echo begin; sleep 0.3; touch {here}rpms; [ ! -e /proc/$$/fd/9 ] || echo kept; echo end) >> {here}log ;; esac"
    );
    sandbox.program("rpm", &rpm);
    for (manager, extension, expected) in [
        (Manager::Dpkg, ".deb", "begin\nend\nbegin\nend\n"),
        // rpm refuses what is installed already, so that the second run must see it.
        (Manager::Rpm, ".rpm", "begin\nend\n"),
    ] {
        let install = vec![item("a", "1", extension, &[])];
        let transaction = Transaction { install, ..Transaction::nothing(manager) };
        let links = scripts::archive(&transaction, |_| Some(b"package"));
        let script = scripts::script("install", manager, &[]).set("ROOT", sandbox.at("root"));
        let script = script.set("POLICY", sandbox.at("policy-rc.d")).set("KEPT", sandbox.at("kept"));
        let script = script.to_string();
        std::fs::create_dir_all(sandbox.path("root")).unwrap();
        std::fs::write(sandbox.path("links"), links).unwrap();
        let run = || sandbox.run(format!("exec < links\n{script}"));
        std::thread::scope(|both| {
            for run in [both.spawn(run), both.spawn(run)] {
                let said = run.join().unwrap();
                assert!(said.done, "{said:?}");
            }
        });
        assert_eq!(sandbox.read("log"), expected);
        assert!(!sandbox.has("policy-rc.d"));
        assert!(
            std::fs::read_dir(sandbox.path("root")).unwrap().all(|entry| entry.unwrap().path().is_file())
        );
        std::fs::remove_file(sandbox.path("log")).unwrap();
    }
}

#[test]
fn what_is_damaged_in_the_store_is_not_installed() {
    let sandbox = Sandbox::new();
    ["dpkg", "systemctl"].iter().for_each(|name| sandbox.program(name, ":"));
    sandbox.program("apt-get", "echo used >> ../../../used");
    sandbox.program("rpm", "case $1 in -q) exit 1 ;; -qp) echo a ;; *) echo used >> ../../../used ;; esac");
    std::fs::create_dir_all(sandbox.path("root")).unwrap();
    let digest = Digest::of(b"package");
    for (manager, extension) in [(Manager::Dpkg, "deb"), (Manager::Rpm, "rpm")] {
        sandbox.does(format!("mkdir links; ln -s {} links/a.{extension}", sandbox.at(&digest.hex())));
        sandbox.does("tar -c -C links -f links.tar .; rm -r links");
        let links = std::fs::read(sandbox.path("links.tar")).unwrap();
        for function in ["try", "install"] {
            for (content, intact) in [("package", true), ("pAckage", false), ("", false)] {
                sandbox.write(&digest.hex(), content);
                let words = [sandbox.at("root")];
                let script = scripts::script(function, manager, &words).set("ROOT", sandbox.at("root"));
                let script = script.set("POLICY", sandbox.at("policy-rc.d")).set("KEPT", sandbox.at("kept"));
                let said = sandbox.feed(script, &links);
                assert_eq!(said.done, intact, "{function} {said:?}");
                assert_eq!(said.out.contains(&format!("damaged {digest}")), !intact, "{said:?}");
                assert_eq!(sandbox.has("root/../used"), intact);
                let _ = std::fs::remove_file(sandbox.path("used"));
            }
        }
    }
}

/// A list that is empty would say that all packages of the node were brought along.
#[test]
fn only_what_came_since_counts_as_brought_along() {
    let sandbox = Sandbox::new();
    sandbox.write("there", "a\nb\n");
    sandbox.program("rpm", "cat there");
    sandbox.program("systemctl", ":");
    sandbox.program("dnf", "echo new >> there");
    let script = |root: &str| {
        let script = scripts::script("from", Manager::Rpm, &["dnf".into(), "new".into()]);
        script.set("ROOT", sandbox.at(root)).set("KEPT", sandbox.at("kept"))
    };
    std::fs::create_dir_all(sandbox.path("root")).unwrap();
    sandbox.does(script("root"));
    assert_eq!(sandbox.read("kept/brought"), "new\n");
    sandbox.write("there", "");
    let said = sandbox.run(script("root"));
    assert!(!said.done && said.err.contains("lists no packages"), "{said:?}");
    assert_eq!(sandbox.read("kept/brought"), "new\n");
}
