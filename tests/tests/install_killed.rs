//! The program itself, killed at random moments: the same command goes on, and ends where an install
//! that nobody disturbed ends.

use eggo_tests::lab::{Host, Kind, Lab};
use eggo_tests::parcel::Parcel;
use eggo_tests::site::{run, succeed};
use eggo_tests::user::User;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Instant;

const PHASES: &str = "distribute,simulate,system,packages,files,prune";
const KILLS: u32 = 20;

/// Numbers from 0 to 1 in no order, the same in every run.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % 1000) as f64 / 1000.0
    }
}

/// Every file that an install may touch with its digest, and what else it changes. Of the settings that were noted,
/// hosts have one in common, and the other may have changed it.
fn picture(host: &Host) -> String {
    host.exec(
        "find /etc /usr/local /var/lib/eggo -xdev -type f ! -path /var/lib/eggo/mark ! -name '*-' \
         ! -path '/etc/ld.so.cache' ! -path '/etc/.pwd.lock' ! -path /var/lib/eggo/kept/sysctl -print0 | sort -z | xargs -0 sha256sum\n\
         grep -v '^vm.swappiness' /var/lib/eggo/kept/sysctl || :\n\
         hostname; if command -v dpkg-query >/dev/null; then dpkg-query -W; else rpm -qa | sort; fi\n\
         sysctl net.ipv4.ip_forward; systemctl is-active eggo-demo.service || :",
    )
}

#[test]
fn killed_at_random_moments_it_ends_where_an_undisturbed_install_ends() {
    let Some(lab) = Lab::take(&[("d", Kind::DebAmd64), ("r", Kind::RpmAmd64)]) else { return };
    let (parcel, user) = (Parcel::new(48 << 20), User::new(&lab));
    let hosts: Vec<&Host> = lab.hosts().iter().collect();
    user.describe(&hosts, "root", "");
    let install = || user.phases(&parcel.at("bundle.tar.gz"), &parcel.at("key.pub"), PHASES);
    let pictures = || hosts.iter().map(|host| picture(host)).collect::<Vec<String>>();

    let begin = Instant::now();
    succeed(install());
    let whole = begin.elapsed();
    let wanted = pictures();
    succeed(user.install(&["cleanup", "--yes"]));
    let mut moments = Moments(0x2545_F491_4F6C_DD1D);
    for number in 0..KILLS {
        let mut limit = whole;
        loop {
            let wait = limit.mul_f64(moments.next());
            let mut child = install().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
            // The moment is what the test is about.
            std::thread::sleep(wait);
            let _ = child.kill();
            let status = child.wait().expect("it ends");
            println!("kill {number}: after {wait:?}, {status}");
            if status.signal().is_some() {
                break;
            }
            // It was faster than before: an earlier moment, on nodes as they were.
            limit = wait;
            succeed(user.install(&["cleanup", "--yes"]));
        }
        succeed(install());
        assert_eq!(pictures(), wanted, "kill {number}");
        succeed(user.install(&["cleanup", "--yes"]));
    }

    succeed(install());
    let again = succeed(install());
    assert!(again.contains("nothing to do"), "{again}");

    // Two at once: the second is refused. The first is held where it is, or it might end before the second asks.
    succeed(user.install(&["cleanup", "--yes"]));
    let mut first = install().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    while !std::fs::read_to_string(user.path("state/demo/lock"))
        .is_ok_and(|pid| pid.trim() == first.id().to_string())
    {
        assert!(first.try_wait().expect("it can be asked").is_none(), "it ended before it had locked");
    }
    let pid = first.id().to_string();
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    signal("-STOP");
    let second = run(install());
    signal("-CONT");
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another run of this cluster is under way"));
    assert!(first.wait().expect("it ends").success());
}
