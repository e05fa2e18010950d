//! The install up to installed content, on real hosts of three kinds at once: root and a user with sudo,
//! a network without an outside, and everything that can break on the way.

use eggo_bundles::{Bundle, TrustedKeys};
use eggo_deploy::config::{self, Config, Secret};
use eggo_deploy::content::Content;
use eggo_deploy::events::{Event, Sink};
use eggo_deploy::home::Surroundings;
use eggo_deploy::operation::{
    self, Access, CleanupRequest, InstallRequest, Installed, Options, Passwords, Prompts,
};
use eggo_deploy::phases::Selection;
use eggo_deploy::preflight::Check;
use eggo_deploy::ssh::HostKeys;
use eggo_deploy::stop::Stop;
use eggo_terminal::{Exit, Report};
use eggo_tests::lab::{Host, Kind, Lab};
use eggo_tests::parcel::Parcel;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PHASES: [&str; 5] = ["distribute", "simulate", "system", "packages", "files"];

/// The hosts of most tests: one of each kind.
const HOSTS: [(&str, Kind); 3] = [("m", Kind::DebAmd64), ("w", Kind::DebArm64), ("r", Kind::RpmAmd64)];

struct Yes;

/// Prepares and runs, without asking anybody.
async fn carry_out(request: InstallRequest) -> Result<Installed, Report> {
    operation::prepare(request).await?.run().await
}

impl Prompts for Yes {
    fn passphrase(&self, _key: &Path) -> Option<Secret> {
        None
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl Sink for Heard {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

/// A lab, a bundle and a state folder: what a person has.
struct Site {
    lab: Lab,
    parcel: Parcel,
    state: tempfile::TempDir,
    user: &'static str,
}

impl Site {
    fn new(lab: Lab, large: usize, user: &'static str) -> Self {
        Self { lab, parcel: Parcel::new(large), state: tempfile::tempdir().unwrap(), user }
    }

    fn config(&self) -> Arc<Config> {
        self.cluster("demo", self.lab.hosts())
    }

    /// The first host is the master.
    fn cluster(&self, name: &str, hosts: &[Host]) -> Arc<Config> {
        let entry = |host: &Host| {
            format!("- {{name: {}, ip: {}, port: 22, arch: {}}}\n", host.name(), host.address(), host.arch())
        };
        let workers: String = hosts.iter().skip(1).map(entry).collect();
        let workers = if workers.is_empty() { entry(&hosts[0]) } else { workers };
        let text = format!(
            "cluster-id: {name}\nusername: {}\nprivate-key-path: {}\nmasters:\n{}workers:\n{workers}runtime: containerd\ninstall: {{package-source: {{type: bundle}}}}\n",
            self.user,
            self.lab.key().display(),
            entry(&hosts[0])
        );
        let loaded = config::parse("deploy.yaml", text.as_bytes());
        Arc::new(loaded.unwrap_or_else(|problems| panic!("{problems:?}\n{text}")).config)
    }

    fn access(&self, config: &Config) -> Access {
        let keys = HostKeys::load(self.lab.known_hosts(), &[]).unwrap();
        Access::new(config, Passwords::default(), keys, &Surroundings::default(), &Yes).unwrap()
    }

    fn request(&self, events: Arc<dyn Sink>) -> InstallRequest {
        self.request_for(self.config(), events)
    }

    fn request_for(&self, config: Arc<Config>, events: Arc<dyn Sink>) -> InstallRequest {
        let trusted = TrustedKeys::from_files(&[self.parcel.at("key.pub")]).unwrap();
        let bundle = Bundle::open(&self.parcel.at("bundle.tar.gz")).unwrap().verify(&trusted).unwrap();
        let content = Content::Bundle(bundle);
        let ignore = ["memory", "swap", "modules", "ports"];
        InstallRequest {
            access: self.access(&config),
            state: self.state.path().join(&config.cluster_id),
            config,
            operator: "ops@desk".into(),
            index: Arc::new(content.index().clone()),
            source: Arc::new(content),
            options: Options {
                ignore: eggo_deploy::preflight::parse_checks(ignore).unwrap(),
                selection: Selection { only: PHASES.map(String::from).into(), ..Selection::default() },
                ..Options::default()
            },
            rolling: Default::default(),
            events,
            stop: Stop::default(),
        }
    }

    async fn install(&self) -> Result<usize, Report> {
        let heard = Arc::new(Heard::default());
        let result = carry_out(self.request(heard.clone())).await;
        if result.is_err() {
            for event in
                heard.0.lock().unwrap().iter().filter(|event| !matches!(event, Event::Progress { .. }))
            {
                eprintln!("{event:?}");
            }
        }
        result.map(|installed| installed.changed)
    }

    async fn clean(&self) -> Result<usize, Report> {
        let config = self.config();
        let request = CleanupRequest {
            access: self.access(&config),
            config,
            state: self.state.path().join("demo"),
            options: eggo_deploy::cleanup::Options::default(),
            selection: eggo_deploy::phases::Selection::default(),
            afterwards: operation::Afterwards::default(),
            events: Arc::new(Heard::default()),
            stop: Stop::default(),
        };
        operation::cleanup(request).await.map(|cleaned| cleaned.undone)
    }

    /// Everything is installed, and the service of the package waits for its phase.
    fn assert_installed(&self) {
        for host in self.lab.hosts() {
            assert_eq!(host.exec("eggo-tool").trim(), host.arch());
            assert_eq!(
                host.exec("systemctl is-active eggo-demo.service || :").trim(),
                "inactive",
                "{}",
                host.name()
            );
            let seen = host.exec("sha256sum < /etc/kubernetes/large; stat -c %a /usr/local/bin/eggo-tool; hostname; ls -A /var/lib/eggo/store/in | wc -l");
            let lines: Vec<&str> = seen.lines().collect();
            assert_eq!(&lines[1..], ["755", host.name(), "0"]);
            let package = if host.exec("command -v rpm || :").is_empty() {
                "dpkg-query -W eggo-demo"
            } else {
                "rpm -q eggo-demo"
            };
            host.exec(package);
        }
    }
}

/// What of a host must be as before after a cleanup.
fn picture(host: &Host) -> String {
    host.exec(
        "find /etc /usr/local /usr/bin /usr/sbin /usr/lib/systemd /opt -xdev \\( -type f -o -type l \\) -printf '%p %s %m %U\\n' -o \
         -type d -printf '%p %m %U\\n' | \
         grep -vE '^/etc/(ld.so.cache|machine-id|.pwd.lock|resolv.conf|mtab|.updated)|-$|^/etc/systemd/system/.*wants' | sort\n\
         cat /etc/hosts; if command -v dpkg-query >/dev/null; then dpkg-query -W; else rpm -qa | sort; fi\n\
         ls -d /var/lib/eggo /usr/sbin/policy-rc.d 2>/dev/null || :",
    )
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn three_kinds_of_hosts_twice_then_cleaned_up() {
    let Some(lab) = Lab::take(&HOSTS) else { return };
    let site = Site::new(lab, 8 << 20, "ops");
    let before: Vec<String> = site.lab.hosts().iter().map(picture).collect();
    let runtime = runtime();
    let changed = runtime.block_on(site.install()).unwrap_or_else(|report| panic!("{report}"));
    assert!(changed > 0);
    site.assert_installed();
    let begin = std::time::Instant::now();
    let again = runtime.block_on(site.install()).unwrap_or_else(|report| panic!("{report}"));
    println!("the second run took {:?}", begin.elapsed());
    assert_eq!(again, 0, "a second run changes nothing");
    let undone = runtime.block_on(site.clean()).unwrap_or_else(|report| panic!("{report}"));
    assert!(undone > 0);
    for (host, before) in site.lab.hosts().iter().zip(before) {
        let after = picture(host);
        let lines = |text: &str| text.lines().map(String::from).collect::<std::collections::BTreeSet<_>>();
        let changed: Vec<String> = lines(&before).symmetric_difference(&lines(&after)).cloned().collect();
        assert!(changed.is_empty(), "{}: {changed:#?}", host.name());
    }
    assert!(!site.state.path().join("demo/journal.jsonl").exists());
}

#[test]
fn two_clusters_at_once_in_one_process() {
    let Some(lab) = Lab::take(&HOSTS) else { return };
    let site = Site::new(lab, 8 << 20, "ops");
    let (one, two) = site.lab.hosts().split_at(1);
    let requests = [site.cluster("one", one), site.cluster("two", two)]
        .map(|config| site.request_for(config, Arc::new(Heard::default())));
    let states = requests.each_ref().map(|request| request.state.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // Each may move between threads.
    let tasks = requests.map(|request| runtime.spawn(carry_out(request)));
    for task in tasks {
        let installed = runtime.block_on(task).unwrap().unwrap_or_else(|report| panic!("{report}"));
        assert!(installed.changed > 0);
    }
    site.assert_installed();
    for (state, hosts) in states.iter().zip([one, two]) {
        let entries = eggo_deploy::journal::Journal::read(state).unwrap().entries();
        let named: std::collections::BTreeSet<String> = entries.into_iter().map(|entry| entry.node).collect();
        assert_eq!(named, hosts.iter().map(|host| host.name().to_string()).collect());
    }
    another_state_folder_is_refused_until_it_takes_over(&site, one);
}

/// Two users, that is, two state folders, against the same hosts.
fn another_state_folder_is_refused_until_it_takes_over(site: &Site, hosts: &[Host]) {
    let elsewhere = tempfile::tempdir().unwrap();
    let first = || site.request_for(site.cluster("one", hosts), Arc::new(Heard::default()));
    let second = |take_over| {
        let mut request = first();
        (request.state, request.options.take_over) = (elsewhere.path().join("one"), take_over);
        request
    };
    let seen = || picture(&hosts[0]) + &hosts[0].exec("cat /var/lib/eggo/mark");
    let before = seen();
    let refused = |request, holder: &Path| {
        let report = runtime().block_on(carry_out(request)).unwrap_err();
        assert_eq!((report.code.as_str(), report.exit), ("preflight-failed", Exit::User), "{report}");
        let held = format!("m: claim: held by ops@desk:{}/one since 20", holder.display());
        assert!(report.notes.iter().any(|note| note.starts_with(&held)), "{report}");
        assert!(report.hint.unwrap().contains("--take-over"));
    };
    refused(second(false), site.state.path());
    assert_eq!(seen(), before, "nothing is changed");
    let taken = runtime().block_on(carry_out(second(true))).unwrap_or_else(|report| panic!("{report}"));
    assert!(taken.changed > 0);
    refused(first(), elsewhere.path());
    let again = runtime().block_on(carry_out(second(false))).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(again.changed, 0, "the claim is its own now");
}

#[test]
fn killed_at_random_moments_the_same_command_converges() {
    let Some(lab) = Lab::take(&HOSTS[..1]) else { return };
    let site = Site::new(lab, 24 << 20, "root");
    let mut moment = 0x2545F4914F6CDD1Du64;
    for _ in 0..20 {
        moment ^= moment << 13;
        moment ^= moment >> 7;
        moment ^= moment << 17;
        // The runtime and every connection go with the run, as in a kill.
        let wait = Duration::from_millis(moment % 4000);
        let _ = runtime().block_on(async { tokio::time::timeout(wait, site.install()).await });
    }
    runtime().block_on(site.install()).unwrap_or_else(|report| panic!("{report}"));
    site.assert_installed();
    assert_eq!(runtime().block_on(site.install()).unwrap_or_else(|report| panic!("{report}")), 0);
}

#[test]
fn a_cut_link_a_full_disk_a_read_only_disk_and_a_dead_host() {
    let Some(lab) = Lab::take(&HOSTS[..1]) else { return };
    let site = Site::new(lab, 64 << 20, "root");
    let host = &site.lab.hosts()[0];

    // Full: preflight says so, with numbers, and nothing is touched.
    host.fill(20);
    let report = runtime().block_on(site.install()).unwrap_err();
    assert!(report.notes.iter().any(|note| note.contains("disk") && note.contains("free")), "{report}");
    assert_eq!(host.exec("ls -d /var/lib/eggo 2>/dev/null || :"), "");
    // Who does not want to know gets to know: nothing is installed of what did not arrive.
    let mut request = site.request(Arc::new(Heard::default()));
    request.options.ignore.insert(Check::named("disk").unwrap());
    let report = runtime().block_on(carry_out(request)).unwrap_err();
    assert_eq!(report.message, "`Distribute content` failed on 1 node", "{report}");
    assert!(report.to_string().contains("No space left on device"), "{report}");
    assert_eq!(host.exec("ls /var/lib/eggo/store/sha256 /usr/local/bin | grep eggo-tool || :"), "");
    host.heal();

    // The plug is pulled during distribution and put back in.
    let events = Arc::new(Heard::default());
    std::thread::scope(|scope| {
        let (request, heard) = (site.request(events.clone()), events.clone());
        let running = scope.spawn(move || runtime().block_on(carry_out(request)));
        while !heard.0.lock().unwrap().iter().any(|event| matches!(event, Event::PhaseStarted { .. }))
            && !running.is_finished()
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        host.cut();
        std::thread::sleep(Duration::from_secs(3));
        host.heal();
        running.join().unwrap().unwrap_or_else(|report| panic!("{report}"));
    });
    site.assert_installed();

    // A host that is gone is named, and does not hang the run.
    host.crash();
    let report = runtime().block_on(site.install()).unwrap_err();
    assert!(report.notes.iter().any(|note| note.starts_with("m: cannot connect to")), "{report}");
    host.boot();
    runtime().block_on(site.install()).unwrap_or_else(|report| panic!("{report}"));
    site.assert_installed();

    host.break_disk();
    let report = runtime().block_on(site.install()).unwrap_err();
    assert!(report.to_string().contains("read-only"), "{report}");
}
