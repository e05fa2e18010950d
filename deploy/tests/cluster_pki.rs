//! Certificates against kubeadm's, and against openssl.

use eggo_deploy::components;
use eggo_deploy::pki::folder::Reuse;
use eggo_deploy::pki::table::{Subject, rows};
use eggo_deploy::pki::{AuthorityName, Certificate, Folder, Names, Row};
use jiff::{SignedDuration, Timestamp};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn now() -> Timestamp {
    Timestamp::now()
}

fn api(endpoint: &str) -> Names {
    let extra = Names { dns: vec!["extra.example.com".into()], ips: vec!["10.1.2.3".parse().unwrap()] };
    Names::of_api("cluster.local", "10.32.0.1".parse().unwrap(), endpoint, &extra)
}

fn rows_of_master(endpoint: &str) -> Vec<Row> {
    let api = api(endpoint);
    // Of a master that is an etcd member and a worker; kubelets ask the cluster for theirs.
    let all = components::TABLE.into_iter().flat_map(|component| component.certificates);
    let leaves: Vec<&str> = all.map(|certificate| certificate.leaf).collect();
    let leaves: Vec<&str> =
        leaves.into_iter().filter(|leaf| !["kubelet", "coredns"].contains(leaf)).collect();
    rows(&Subject { name: "master1", ip: "192.168.0.2".parse().unwrap(), leaves: &leaves, api: &api })
}

fn openssl(arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).output().expect("openssl runs");
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn shared() -> Option<PathBuf> {
    let given = std::env::var_os("EGGO_TEST_DATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let found = given.unwrap_or(beside);
    found.join("kubeadm-1.20.2/profile.txt").exists().then_some(found)
}

/// Lays the files of a node out as they are on it.
fn lay_out(folder: &Folder, to: &Path) {
    for row in rows_of_master("192.168.0.5") {
        let leaf = folder.leaf(Some("master1"), &row, Reuse::WhenGood, now()).unwrap();
        let path = to.join(format!("{}.crt", row.path));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, leaf.certificate).unwrap();
    }
    for name in AuthorityName::ALL {
        std::fs::write(to.join(format!("{name}.crt")), &folder.authority(name).pem).unwrap();
    }
}

#[test]
fn profiles_are_kubeadm_s() {
    let Some(data) = shared() else {
        println!("skipped: no test data");
        return;
    };
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::prepare(&temporary.path().join("pki"), None, now()).unwrap();
    let node = temporary.path().join("node");
    lay_out(&folder, &node);
    let script = data.join("../oracles/pkiprofile.sh");
    let output = Command::new("bash").arg(script).arg(&node).output().unwrap();
    let ours = String::from_utf8(output.stdout).unwrap();
    let kubeadm = std::fs::read_to_string(data.join("kubeadm-1.20.2/profile.txt")).unwrap();
    // All but the kind of the key: ours are ECDSA. The script takes a byte CA of a key identifier, with
    // what follows it, for a basic constraint: anything but its two words is decided by our own reading.
    let is_authority =
        |path: &str| Certificate::parse(path, &std::fs::read(node.join(path)).unwrap()).unwrap().is_authority;
    let profile = |line: &str| {
        let mut columns: Vec<String> = line.split(" | ").take(8).map(str::to_string).collect();
        if !["CA:TRUE", "CA:FALSE", "-"].contains(&columns[3].as_str()) {
            columns[3] = if is_authority(&columns[0]) { "CA:TRUE".into() } else { "-".into() };
        }
        columns
    };
    for line in kubeadm.lines() {
        let wanted = profile(line);
        let found = ours.lines().map(profile).find(|found| found[0] == wanted[0]);
        assert_eq!(found, Some(wanted), "{ours}");
    }
}

#[test]
fn openssl_believes_the_leaves_and_the_modes_are_tight() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().join("pki");
    let folder = Folder::prepare(&root, None, now()).unwrap();
    for row in rows_of_master("api.example.com") {
        folder.leaf(Some("master1"), &row, Reuse::WhenGood, now()).unwrap();
        let authority = root.join(format!("{}.crt", row.authority));
        let leaf = root.join(format!("nodes/master1/{}.crt", row.path));
        openssl(&["verify", "-CAfile", authority.to_str().unwrap(), leaf.to_str().unwrap()]);
    }
    let text = openssl(&[
        "x509",
        "-noout",
        "-text",
        "-in",
        root.join("nodes/master1/apiserver.crt").to_str().unwrap(),
    ]);
    assert!(text.contains("DNS:api.example.com"), "a domain as endpoint is a DNS name: {text}");
    openssl(&["pkey", "-in", root.join("sa.key").to_str().unwrap(), "-noout"]);
    let mut files = 0;
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            files += 1;
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
        }
    }
    assert!(files > 20, "{files}");
}

#[test]
fn what_is_good_is_used_again_and_what_is_not_is_made_anew() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().join("pki");
    let folder = Folder::prepare(&root, None, now()).unwrap();
    let row = |endpoint: &str| rows_of_master(endpoint).remove(0);
    let leaf = |folder: &Folder, endpoint: &str, reuse, at| {
        folder.leaf(Some("m"), &row(endpoint), reuse, at).unwrap().certificate
    };
    let first = leaf(&folder, "a.example.com", Reuse::WhenGood, now());
    let again = Folder::prepare(&root, None, now()).unwrap();
    assert_eq!(leaf(&again, "a.example.com", Reuse::WhenGood, now()), first);
    assert_ne!(leaf(&again, "b.example.com", Reuse::WhenGood, now()), first, "other names");
    let second = leaf(&again, "b.example.com", Reuse::WhenGood, now());
    assert_ne!(leaf(&again, "b.example.com", Reuse::Never, now()), second, "renewed");
    let next_year = now() + SignedDuration::from_hours(24 * 366);
    let third = leaf(&again, "b.example.com", Reuse::WhenGood, now());
    assert_ne!(leaf(&again, "b.example.com", Reuse::WhenGood, next_year), third, "expired");
    let listed: Vec<String> = again.certificates().unwrap().into_iter().map(|(path, _)| path).collect();
    assert_eq!(listed, ["ca", "etcd/ca", "front-proxy-ca", "nodes/m/apiserver"]);
}

#[test]
fn of_a_cluster_that_is_there_nothing_is_made_anew() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().join("pki");
    Folder::prepare(&root, None, now()).unwrap();
    Folder::open(&root, now()).unwrap();
    for file in
        ["ca.key", "ca.crt", "etcd/ca.key", "front-proxy-ca.crt", "sa.key", "sa.pub", "encryption.key"]
    {
        let (path, aside) = (root.join(file), temporary.path().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        let refusal = Folder::open(&root, now()).err().expect("refused").to_string();
        assert_eq!(refusal, format!("`{}` is missing, and the cluster depends on it", path.display()));
        assert!(!path.exists());
        std::fs::rename(&aside, &path).unwrap();
    }
}

#[test]
fn leaves_never_outlive_their_authority() {
    let temporary = tempfile::tempdir().unwrap();
    let begin = now();
    let folder = Folder::prepare(&temporary.path().join("pki"), None, begin).unwrap();
    let late = begin + SignedDuration::from_hours(24 * 3500);
    let row = rows_of_master("x").remove(0);
    let leaf = folder.leaf(Some("m"), &row, Reuse::WhenGood, late).unwrap();
    let leaf = Certificate::parse("leaf", leaf.certificate.as_bytes()).unwrap();
    assert_eq!(leaf.not_after, folder.authority(AuthorityName::Cluster).certificate.not_after);
}

/// A given authority: an RSA root in the old key format, or an EC intermediate below a root.
#[test]
fn an_external_authority_signs() {
    let temporary = tempfile::tempdir().unwrap();
    let at = |name: &str| temporary.path().join(name).display().to_string();
    std::fs::create_dir(at("given")).unwrap();
    let usage = "keyUsage=critical,keyCertSign,digitalSignature";
    let (key, crt) = (at("root.key"), at("root.crt"));
    openssl(&["genrsa", "-traditional", "-out", &key, "2048"]);
    let make = [
        "req",
        "-x509",
        "-key",
        &key,
        "-subj",
        "/O=Example Ltd/CN=Example Root",
        "-days",
        "2000",
        "-out",
        &crt,
    ];
    openssl(&[&make[..], &["-addext", usage]].concat());

    // The root itself.
    std::fs::copy(&key, at("given/ca.key")).unwrap();
    std::fs::copy(&crt, at("given/ca.crt")).unwrap();
    let given = temporary.path().join("given");
    let row = rows_of_master("x").remove(0);
    let folder = Folder::prepare(&temporary.path().join("a"), Some(&given), now()).unwrap();
    folder.leaf(Some("m"), &row, Reuse::WhenGood, now()).unwrap();
    openssl(&["verify", "-CAfile", &crt, &at("a/nodes/m/apiserver.crt")]);

    // An intermediate with an EC key in SEC 1 form; the chain follows it in the file.
    openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", &at("given/ca.key")]);
    openssl(&[
        "req",
        "-new",
        "-key",
        &at("given/ca.key"),
        "-subj",
        "/CN=Example Intermediate",
        "-out",
        &at("i.csr"),
    ]);
    std::fs::write(
        at("i.ext"),
        format!("basicConstraints=critical,CA:TRUE,pathlen:0\n{usage}\nsubjectKeyIdentifier=hash\n"),
    )
    .unwrap();
    openssl(&[
        "x509",
        "-req",
        "-in",
        &at("i.csr"),
        "-CA",
        &crt,
        "-CAkey",
        &key,
        "-CAcreateserial",
        "-days",
        "100",
        "-extfile",
        &at("i.ext"),
        "-out",
        &at("i.crt"),
    ]);
    let chain = std::fs::read_to_string(at("i.crt")).unwrap() + &std::fs::read_to_string(&crt).unwrap();
    std::fs::write(at("given/ca.crt"), chain).unwrap();
    let folder = Folder::prepare(&temporary.path().join("b"), Some(&given), now()).unwrap();
    let leaf = folder.leaf(Some("m"), &row, Reuse::WhenGood, now()).unwrap();
    openssl(&[
        "verify",
        "-CAfile",
        &crt,
        "-untrusted",
        &at("b/nodes/m/apiserver.crt"),
        &at("b/nodes/m/apiserver.crt"),
    ]);
    let parsed = Certificate::parse_all("leaf", leaf.certificate.as_bytes()).unwrap();
    assert_eq!(parsed.len(), 2, "the leaf brings its intermediate along");
    assert!(parsed[0].not_after <= folder.authority(AuthorityName::Cluster).certificate.not_after);
}

#[test]
fn what_cannot_be_an_authority_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let at = |name: &str| temporary.path().join(name).display().to_string();
    let given = temporary.path().join("given");
    std::fs::create_dir(&given).unwrap();
    let refused = || {
        let pki = tempfile::tempdir().unwrap();
        Folder::prepare(pki.path(), Some(&given), now()).err().expect("refused").to_string()
    };
    assert!(refused().contains("is missing in the folder"));
    let request = |extra: &[&str]| {
        let (key, crt) = (at("given/ca.key"), at("given/ca.crt"));
        let base = [
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", &key, "-subj", "/CN=x", "-out", &crt,
        ];
        openssl(&[&base[..], extra].concat());
    };
    request(&["-addext", "basicConstraints=critical,CA:FALSE"]);
    assert!(refused().contains("CA:TRUE"), "{}", refused());
    request(&["-addext", "keyUsage=digitalSignature"]);
    assert!(refused().contains("key usage"), "{}", refused());
    request(&[]);
    let other = at("other.key");
    openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", &other]);
    std::fs::copy(&other, at("given/ca.key")).unwrap();
    assert!(refused().contains("is not the key of"), "{}", refused());
    openssl(&["pkcs8", "-topk8", "-in", &other, "-passout", "pass:x", "-out", &at("given/ca.key")]);
    assert!(refused().contains("encrypted"), "{}", refused());
}
