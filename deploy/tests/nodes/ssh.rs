//! The way to a node, on a real sshd: host keys, commands, files, and connections that break.

use crate::sshd::{Sshd, keygen};
use bytes::Bytes;
use eggo_deploy::events::{Event, Silent, Sink};
use eggo_deploy::journal::Journal;
use eggo_deploy::remote::{Command, Host, RemoteError, RemoteFile, Script, Written};
use eggo_deploy::run::{Outcome, Run, Step};
use eggo_deploy::ssh::{HostKeys, Login, SshHost, Target};
use eggo_deploy::{config::Secret, facts};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl Sink for Heard {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

#[tokio::test]
async fn host_keys_are_checked() {
    let Some(mut sshd) = Sshd::start("a") else { return };
    let file = sshd.at("known");
    let connect = |keys: HostKeys| {
        let host = SshHost::new(sshd.target(), sshd.login(), Arc::new(keys), Arc::new(Silent));
        async move { host.connect().await }
    };
    let unknown = connect(HostKeys::load(&file, &[]).unwrap()).await.unwrap_err();
    assert!(
        matches!(&unknown, RemoteError::UnknownKey { key, .. } if key.starts_with("ssh-ed25519 SHA256:")),
        "{unknown}"
    );
    assert!(!file.exists());
    connect(HostKeys::load(&file, &[]).unwrap().accept_new()).await.unwrap();
    // ssh's own tools read what was written, and hash it; a hashed name is still known.
    let run = |args: &[&str]| {
        assert!(std::process::Command::new("ssh-keygen").args(args).output().unwrap().status.success())
    };
    run(&["-F", &format!("[127.0.0.1]:{}", sshd.port), "-f", file.to_str().unwrap()]);
    run(&["-H", "-f", file.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("|1|"));
    connect(HostKeys::load(&file, &[]).unwrap()).await.unwrap();
    sshd.change_host_key();
    let keys = HostKeys::load(&file, &[]).unwrap().accept_new();
    let host = SshHost::new(sshd.target(), sshd.login(), Arc::new(keys), Arc::new(Silent));
    let changed = host.connect().await.unwrap_err();
    assert!(matches!(changed, RemoteError::ChangedKey { .. }), "{changed}");
}

#[tokio::test]
async fn a_key_with_a_passphrase_and_a_wrong_key() {
    let Some(sshd) = Sshd::start("a") else { return };
    let key = sshd.at("locked");
    keygen(&key, "open sesame");
    let login =
        |passphrase: &'static str| Login::new("root").load_key(&key, |_| Some(Secret::new(passphrase)));
    assert!(login("wrong").unwrap_err().to_string().starts_with("wrong passphrase"));
    let login = login("open sesame").unwrap();
    let host = SshHost::new(sshd.target(), login.clone(), Arc::new(sshd.keys()), Arc::new(Silent));
    let refused = host.connect().await.unwrap_err();
    assert_eq!(refused.to_string(), "a: root may not log in: its private key was refused");
    let public = std::fs::read_to_string(sshd.at("locked.pub")).unwrap();
    std::fs::write(sshd.at("authorized_keys"), public).unwrap();
    let host = SshHost::new(sshd.target(), login, Arc::new(sshd.keys()), Arc::new(Silent));
    host.connect().await.unwrap();
}

#[tokio::test]
async fn a_server_that_stops_in_its_banner_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut socket, b"S").unwrap();
        socket
    });
    let folder = tempfile::tempdir().unwrap();
    let keys = HostKeys::load(&folder.path().join("known"), &[]).unwrap();
    let target = Target::new("mute", "127.0.0.1", port);
    let host = SshHost::new(target, Login::new("root"), Arc::new(keys), Arc::new(Silent));
    let begin = std::time::Instant::now();
    let error = host.connect().await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(40), "{:?}", begin.elapsed());
    let expected = format!("mute: 127.0.0.1:{port} does not finish the handshake of SSH within 30 s");
    assert_eq!(error.to_string(), expected);
    drop(server.join().unwrap());
}

#[tokio::test]
async fn a_key_that_is_in_no_file() {
    let Some(sshd) = Sshd::start("a") else { return };
    let key = Secret::new(std::fs::read_to_string(sshd.at("user_key")).unwrap());
    let login = Login::new("root").key_from_memory("the vault's key", &key, None).unwrap();
    let host = SshHost::new(sshd.target(), login, Arc::new(sshd.keys()), Arc::new(Silent));
    host.connect().await.unwrap();
    let wrong = Login::new("root").key_from_memory("the vault's key", &Secret::new("no key"), None);
    assert_eq!(wrong.unwrap_err().to_string(), "`the vault's key` is not a private key");
}

#[tokio::test]
async fn commands_of_every_kind() {
    let Some(sshd) = Sshd::start("a") else { return };
    let host = sshd.host(Arc::new(Silent));
    let output = host.run(Command::look("greet", "echo out; echo err >&2; cat").stdin("in")).await.unwrap();
    assert_eq!((output.text().as_str(), &output.stderr[..]), ("out\nin", &b"err\n"[..]));
    let failed = host.run(Command::look("fail", "echo why >&2; exit 7")).await.unwrap_err();
    assert!(
        matches!(&failed, RemoteError::Failed { status: 7, last_words, .. } if last_words == "why"),
        "{failed:?}"
    );
    assert_eq!(host.run(Command::look("die", "kill -9 $$").unchecked()).await.unwrap().status, 137);
    // A failing command ends the script.
    assert_eq!(host.run(Command::look("stop", "false; echo on").unchecked()).await.unwrap().text(), "");
    // Longer than a command line may be.
    let long = format!(": {}\necho long", "x".repeat(300_000));
    assert_eq!(host.run(Command::look("run a long script", shell(long))).await.unwrap().text(), "long");
    // More than a window, both ways.
    let big = Bytes::from(vec![b'x'; 5 << 20]);
    assert_eq!(
        host.run(Command::look("echo", "cat").stdin(big.clone()).at_most(8 << 20)).await.unwrap().stdout,
        big
    );
    // A command that does not read its input ends all the same.
    assert_eq!(host.run(Command::look("ignore", "echo done").stdin(big)).await.unwrap().text(), "done");
    let slow =
        host.run(Command::look("sleep", "sleep 20").timeout(Duration::from_millis(300))).await.unwrap_err();
    assert!(matches!(slow, RemoteError::Timeout { .. }), "{slow}");
    // More at once than sshd has sessions.
    let many = (0..30).map(|n| host.run(Command::look("count", shell(format!("echo {n}")))));
    let answers = futures::future::try_join_all(many).await.unwrap();
    assert!(answers.iter().enumerate().all(|(n, output)| output.text() == n.to_string()));
}

#[tokio::test]
async fn a_lost_connection_is_made_again_and_the_command_goes_on() {
    let Some(sshd) = Sshd::start("a") else { return };
    let heard = Arc::new(Heard::default());
    let host = sshd.host(heard.clone());
    // The first time it kills the sshd that serves it.
    let script =
        "cd /var/lib/eggo; if [ -e tried ]; then echo second; else : > tried; kill -9 $PPID; sleep 9; fi";
    assert_eq!(host.run(Command::look("break", script)).await.unwrap().text(), "second");
    assert!(heard.0.lock().unwrap().iter().any(|event| matches!(event, Event::Reconnecting { .. })));
    let once = host.run(Command::look("break once", "kill -9 $PPID; sleep 9").once()).await.unwrap_err();
    assert!(once.is_lost(), "{once}");
    host.run(Command::look("go on", "true")).await.unwrap();
}

#[tokio::test]
async fn a_cut_leaves_no_scratch_files() {
    let Some(sshd) = Sshd::start("a") else { return };
    let host = sshd.host(Arc::new(Silent));
    let script = "d=$(mktemp -d /var/lib/eggo/scratch.XXXXXX); trap 'rm -rf \"$d\"' EXIT; : > /var/lib/eggo/began\n\
                  kill -9 $PPID; while echo on; do :; done";
    let lost = host.run(Command::look("break", script).once()).await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
    assert!(sshd.own("began").exists());
    let left =
        || std::fs::read_dir(sshd.own("")).unwrap().flatten().filter(|e| e.file_name() != "began").count();
    let begin = std::time::Instant::now();
    while left() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "the script has not cleaned up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A text that is made here, as a script.
pub fn shell(text: String) -> Script {
    Script::new(["eval \"$1\"\n"]).arg(text)
}

/// A script that runs until it is ended, and notes that it has tidied up then.
fn endless(word: &str) -> Command {
    let script = format!(
        "export TEST_ENDING=1; cd /var/lib/eggo; trap ': > tidied.{word}' EXIT; : > began.{word}; (sleep 86399; :) & setsid -w sleep 86399"
    );
    Command::look("never end", shell(script))
}

async fn appears(sshd: &Sshd, name: &str) {
    let begin = std::time::Instant::now();
    while !sshd.own(name).exists() {
        assert!(begin.elapsed() < Duration::from_secs(20), "no {name}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Processes of the test's own that carry a command's mark.
fn marked() -> usize {
    let environment =
        |entry: std::io::Result<std::fs::DirEntry>| std::fs::read(entry.ok()?.path().join("environ")).ok();
    let lists = std::fs::read_dir("/proc").unwrap().filter_map(environment);
    let ours = |list: &Vec<u8>| {
        let has = |part: &[u8]| list.windows(part.len()).any(|window| window == part);
        has(b"EGGO_COMMAND=") && has(b"TEST_ENDING=1")
    };
    lists.filter(ours).count()
}

#[tokio::test]
async fn what_nobody_waits_for_is_ended_on_the_node() {
    let Some(sshd) = Sshd::start("a") else { return };
    let host = sshd.host(Arc::new(Silent));
    // Dropped.
    let dropped = tokio::time::timeout(Duration::from_secs(3), host.run(endless("dropped")));
    assert!(dropped.await.is_err());
    appears(&sshd, "tidied.dropped").await;
    // Too slow.
    let slow = host.run(endless("slow").timeout(Duration::from_secs(3))).await.unwrap_err();
    assert!(matches!(slow, RemoteError::Timeout { .. }), "{slow}");
    appears(&sshd, "tidied.slow").await;
    let begin = std::time::Instant::now();
    while marked() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "processes are left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(host.run(Command::look("go on", "echo on")).await.unwrap().text(), "on");
    // All of them, and awaited.
    let running = [host.run(endless("one")), host.run(endless("two"))];
    let ending = async {
        appears(&sshd, "began.one").await;
        appears(&sshd, "began.two").await;
        host.end_commands().await;
        assert_eq!(marked(), 0);
    };
    let (ended, ()) = tokio::join!(futures::future::join_all(running), ending);
    assert!(ended.iter().all(Result::is_err), "{ended:?}");
    assert!(sshd.own("tidied.one").exists() && sshd.own("tidied.two").exists());
    let refused = host.run(Command::look("go on", "echo on")).await.unwrap_err();
    assert!(refused.to_string().ends_with("it was stopped"), "{refused}");
}

#[tokio::test]
async fn files_are_replaced_whole_kept_and_restored() {
    let Some(sshd) = Sshd::start("a") else { return };
    let host = sshd.host(Arc::new(Silent));
    let folder = sshd.at("there");
    std::fs::create_dir(&folder).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("old"), "before").unwrap();
    let files = || {
        vec![
            RemoteFile::new(path("old"), "after"),
            RemoteFile::new(path("deep/new file"), "fresh").secret(),
            RemoteFile::new(path("big"), vec![7u8; 3 << 20]),
        ]
    };
    use Written::{Changed, Unchanged};
    let journal = tempfile::tempdir().unwrap();
    let run = Run::new(Journal::open(journal.path()).unwrap(), Arc::new(Silent));
    for expected in [Changed, Unchanged] {
        let write = async |permit| Ok((Outcome::Changed, host.write_files(permit, files()).await?));
        let written = run.step_for("a", Step::new("write", "write"), write).await.unwrap();
        assert_eq!(written, [expected; 3]);
    }
    assert_eq!(host.read_file(&path("old")).await.unwrap().unwrap(), "after");
    assert_eq!(host.read_file(&path("nothing")).await.unwrap(), None);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(path("deep/new file")).unwrap().permissions().mode() & 0o777, 0o600);
    let again = async |permit| {
        host.write_file(permit, RemoteFile::new(path("old"), "newest")).await?;
        Ok(Outcome::Changed)
    };
    run.step("a", Step::new("again", "again"), again).await.unwrap();
    for name in ["old", "deep/new file", "big"] {
        let undo = eggo_deploy::undo::Undo::file(path(name));
        let work = async |permit| {
            let undo = Command::change(permit, "undo", eggo_deploy::undo::undoing([vec![&undo]]));
            host.run(undo).await.unwrap();
            (vec!["write".to_string()], None)
        };
        assert_eq!(run.undo("a", work).await, (1, None));
    }
    assert_eq!(std::fs::read_to_string(path("old")).unwrap(), "before");
    assert!(!folder.join("deep/new file").exists() && !folder.join("big").exists());
}

#[tokio::test]
async fn facts_in_one_round_trip() {
    let Some(sshd) = Sshd::start("a") else { return };
    let host = sshd.host(Arc::new(Silent));
    let facts = facts::look(&*host, facts::Look::survey()).await.unwrap();
    assert_eq!(facts.arch.map(|arch| arch.machine().to_string()), Some(facts.machine.clone()));
    assert!(facts.memory > 0 && facts.cpus > 0 && !facts.kernel.is_empty());
    assert!(facts.has("tar") && facts.has("sha256sum"));
    assert!(facts.mount("/var/lib/eggo").is_some());
    assert!(facts.ports.iter().any(|port| port.port == sshd.port));
    assert_eq!(facts.clock_skew, 0);
    if facts.manager == Some(facts::Manager::Dpkg) {
        let dpkg = facts.package("dpkg").unwrap();
        let output = std::process::Command::new("dpkg-query")
            .args(["-W", "-f", "${Version}", "dpkg"])
            .output()
            .unwrap();
        assert_eq!(dpkg.version, String::from_utf8(output.stdout).unwrap());
    }
    // What the bundler takes as a baseline.
    let json = serde_json::to_value(&facts).unwrap();
    assert!(
        json["packages"]
            .as_array()
            .unwrap()
            .iter()
            .all(|p| p["name"].is_string() && p["version"].is_string())
    );
}
