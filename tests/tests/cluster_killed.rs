//! One machine that is everything, with containerd: deployed, cleaned up, and deployed again by an installer
//! that is killed ten times on its way. Both end in the same state. Then all of its certificates expire.

use eggo_tests::expired::{expire, old_authorities};
use eggo_tests::lab::{Kind, Lab};
use eggo_tests::site::{Place, Release, Site, succeed};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const KILLS: u32 = 10;

/// Files with mode and owner, programs with their digest, and what runs. (Debian's own alias of etcd comes only
/// when its package is new to the host.)
const STATE: &str = "\
find /etc/kubernetes /etc/etcd /etc/containerd /etc/cni /etc/systemd/system /usr/local/bin /var/lib/eggo \
  -not -path '*/pods/*' -not -name '*bak*' -not -name etcd2.service -printf '%y %m %u %p\\n' 2>/dev/null \
  | sed -E 's/kubelet-(client|server)-[0-9-]+\\.pem/kubelet-\\1-TIME.pem/' | sort -u; \
sha256sum /usr/bin/kube* /usr/bin/coredns /usr/bin/etcd; \
dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'; \
systemctl is-active etcd kube-apiserver kube-controller-manager kube-scheduler containerd kubelet kube-proxy coredns";

#[test]
fn a_killed_deploy_ends_like_one_that_was_not() {
    let Some(lab) = Lab::take(&[("m", Kind::DebAmd64)]) else { return };
    let Some(site) = Site::new(lab, "killed", Release::wanted(), "debian") else { return };
    let bundle = site.build();
    site.describe(
        "one-node",
        &[Place { host: "m", lists: &["masters", "workers"] }],
        &old_authorities(&site),
    );

    let begin = Instant::now();
    succeed(site.deploy(&bundle));
    let whole = begin.elapsed();
    assert!(site.kubectl("m", "get nodes --no-headers").contains(" Ready "));
    let wanted = site.host("m").exec(STATE);
    let mut cleanup = site.install(&["cleanup"]);
    cleanup.args(["--yes", "--images"]);
    succeed(cleanup);

    let mut moments = Moments::new();
    for kill in 0..KILLS {
        // The runs together get through the whole deploy, each some part further.
        let after = whole.mul_f64(moments.next() * 2.0 / f64::from(KILLS));
        let ended = killed(site.deploy(&bundle), after);
        println!(
            "killed {kill}: after {:.1} s{}",
            after.as_secs_f64(),
            if ended { ", had ended" } else { "" }
        );
    }
    succeed(site.deploy(&bundle));
    assert!(site.kubectl("m", "get nodes --no-headers").contains(" Ready "));
    assert_eq!(site.host("m").exec(STATE), wanted);
    let again = succeed(site.deploy(&bundle));
    assert!(again.contains("nothing to do"), "{again}");

    site.kubectl("m", "create secret generic kept --from-literal=word=kept");
    expire(&site, &["m"]);
    succeed(site.install(&["certs", "renew", "--yes"]));
    assert!(site.kubectl("m", "get nodes --no-headers").contains(" Ready "));
    let word = site.kubectl("m", "get secret kept -o jsonpath='{.data.word}'");
    assert_eq!(word.trim(), "a2VwdA==");
    succeed(site.install(&["status"]));
}

/// Runs it and kills it after that time. True if it had ended by itself.
fn killed(mut command: Command, after: Duration) -> bool {
    let mut child = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let end = Instant::now() + after;
    while Instant::now() < end {
        if child.try_wait().expect("it can be asked").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    false
}

/// Numbers between 0 and 1 that differ from run to run.
struct Moments(u64);

impl Moments {
    fn new() -> Self {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").subsec_nanos();
        println!("seed {seed}");
        Self(u64::from(seed) | 1)
    }

    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}
