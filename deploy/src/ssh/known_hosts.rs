//! Which host keys are known: OpenSSH's known_hosts, with hashed names, patterns, ports and
//! revoked keys. A host with a key of another type than the known ones counts as changed: the
//! known types are asked for first, so an honest host would have shown one of them.

use super::Target;
use crate::blocking::blocking;
use futures::future::BoxFuture;
use ring::hmac;
use russh::keys::ssh_key::known_hosts::{Entry, HostPatterns, Marker};
use russh::keys::{Algorithm, HashAlg, PublicKey};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// What known_hosts says about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Known,
    Unknown,
    /// Other keys are known for the host; each as `FILE line N: FINGERPRINT`.
    Changed(Vec<String>),
    Revoked,
}

/// The entries of one or more known_hosts files.
#[derive(Debug, Default)]
pub struct KnownHosts {
    entries: Vec<(String, Entry)>,
}

impl KnownHosts {
    /// Reads what is there; a missing file holds no keys. Lines that nobody understands are skipped,
    /// as OpenSSH does.
    pub fn load(paths: &[PathBuf]) -> io::Result<Self> {
        let mut known = Self::default();
        for path in paths {
            match std::fs::read(path) {
                Ok(bytes) => known.add(&path.display().to_string(), &String::from_utf8_lossy(&bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(known)
    }

    /// Reads anything, and asks for a host. For fuzzing.
    pub(crate) fn foreign(text: &str) {
        let mut known = Self::default();
        known.add("file", text);
        for (host, port) in [("10.0.0.1", 22), ("host.example", 2222)] {
            known.algorithms(host, port);
            for (_, entry) in known.entries.iter().take(4) {
                known.check(host, port, entry.public_key());
            }
        }
    }

    fn add(&mut self, file: &str, text: &str) {
        for (index, line) in text.lines().enumerate() {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            if line.starts_with('#') {
                continue;
            }
            if let Ok(entry) = line.parse::<Entry>() {
                self.entries.push((format!("{file} line {}", index + 1), entry));
            }
        }
    }

    pub fn check(&self, host: &str, port: u16, key: &PublicKey) -> Verdict {
        let name = host_name(host, port);
        let mut others = Vec::new();
        let mut known = false;
        for (place, entry) in self.entries.iter().filter(|(_, entry)| matches(entry.host_patterns(), &name)) {
            let same = entry.public_key().key_data() == key.key_data();
            match entry.marker() {
                Some(Marker::Revoked) if same => return Verdict::Revoked,
                Some(_) => {}
                None if same => known = true,
                None => others.push(format!("{place}: {}", describe(entry.public_key()))),
            }
        }
        match (known, others.is_empty()) {
            (true, _) => Verdict::Known,
            (false, true) => Verdict::Unknown,
            (false, false) => Verdict::Changed(others),
        }
    }

    /// The algorithms to ask the host for: those of known keys first.
    pub fn algorithms(&self, host: &str, port: u16) -> Vec<Algorithm> {
        let name = host_name(host, port);
        let known: Vec<Algorithm> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.marker().is_none() && matches(entry.host_patterns(), &name))
            .map(|(_, entry)| entry.public_key().algorithm())
            .collect();
        first_of(&known)
    }
}

/// All algorithms, the known ones first.
fn first_of(known: &[Algorithm]) -> Vec<Algorithm> {
    use russh::keys::EcdsaCurve::{NistP256, NistP384, NistP521};
    let mut all = vec![
        Algorithm::Ed25519,
        Algorithm::Ecdsa { curve: NistP256 },
        Algorithm::Ecdsa { curve: NistP384 },
        Algorithm::Ecdsa { curve: NistP521 },
        Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
        Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
    ];
    let is_known = |algorithm: &Algorithm| {
        known.iter().any(|known| known == algorithm || (is_rsa(known) && is_rsa(algorithm)))
    };
    all.sort_by_key(|algorithm| !is_known(algorithm));
    all
}

/// Whatever the hash of its signatures.
fn is_rsa(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::Rsa { .. })
}

/// `ssh-ed25519 SHA256:…`, as `ssh-keygen -l` prints it.
pub(super) fn describe(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

fn host_name(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

fn matches(patterns: &HostPatterns, name: &str) -> bool {
    match patterns {
        HostPatterns::HashedName { salt, hash } => {
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
            hmac::verify(&key, name.as_bytes(), hash).is_ok()
        }
        HostPatterns::Patterns(patterns) => {
            let fits = |pattern: &str| glob(pattern.to_ascii_lowercase().as_bytes(), name.as_bytes());
            let refused = patterns.iter().filter_map(|pattern| pattern.strip_prefix('!')).any(fits);
            !refused && patterns.iter().any(|pattern| !pattern.starts_with('!') && fits(pattern))
        }
    }
}

/// `*` any text, `?` one character; brackets are literal, as they are around `[host]:port`.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Behind the last star, and what it stands for so far: only that one ever has to take more.
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                star = Some((at, seen));
                continue;
            }
            Some(one) if *one == b'?' || *one == text[seen] => (at, seen) = (at + 1, seen + 1),
            _ => {
                let Some((behind, taken)) = &mut star else { return false };
                *taken += 1;
                (at, seen) = (*behind, *taken);
            }
        }
    }
    pattern[at..].iter().all(|one| *one == b'*')
}

/// Asks a person about a key that nobody knows.
pub trait UnknownKeys: Send + Sync {
    fn ask<'a>(&'a self, key: &'a UnknownKey) -> BoxFuture<'a, bool>;
}

/// A host that shows a key that is in no known_hosts file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKey {
    pub node: String,
    /// `HOST` or `[HOST]:PORT`.
    pub host: String,
    /// `ssh-ed25519 SHA256:…`.
    pub key: String,
}

/// What to do about host keys during this run.
pub struct HostKeys {
    known: Mutex<KnownHosts>,
    /// New keys are written here.
    file: PathBuf,
    unknown: Policy,
}

enum Policy {
    Refuse,
    Accept,
    Ask(Arc<dyn UnknownKeys>),
}

impl HostKeys {
    /// Refuses unknown keys; new ones would go to `file`. `more` files are only read.
    pub fn load(file: &Path, more: &[PathBuf]) -> io::Result<Self> {
        let mut paths = vec![file.to_path_buf()];
        paths.extend_from_slice(more);
        let known = Mutex::new(KnownHosts::load(&paths)?);
        Ok(Self { known, file: file.to_path_buf(), unknown: Policy::Refuse })
    }

    /// The known_hosts of the user with this home folder, and the machine's.
    pub fn of_user(home: &Path) -> io::Result<Self> {
        Self::load(&home.join(".ssh/known_hosts"), &["/etc/ssh/ssh_known_hosts".into()])
    }

    /// Unknown keys are trusted and written down: `--accept-new-host-keys`.
    pub fn accept_new(mut self) -> Self {
        self.unknown = Policy::Accept;
        self
    }

    /// Unknown keys are shown to a person, and written down if accepted.
    pub fn ask(mut self, asker: Arc<dyn UnknownKeys>) -> Self {
        self.unknown = Policy::Ask(asker);
        self
    }

    pub(super) fn algorithms(&self, target: &Target) -> Vec<Algorithm> {
        let known = self.known.lock().expect("no panic while locked");
        match &target.host_key {
            Some(pinned) => first_of(&[pinned.key().algorithm()]),
            None => known.algorithms(&target.address, target.port),
        }
    }

    /// The verdict on a key, after asking whoever is to be asked.
    pub(super) async fn judge(&self, target: &Target, key: &PublicKey) -> io::Result<Verdict> {
        let Target { name: node, address: host, port, host_key: pinned } = target;
        let (host, port) = (host.as_str(), *port);
        let verdict = self.known.lock().expect("no panic while locked").check(host, port, key);
        match (verdict, pinned) {
            (Verdict::Revoked, _) => return Ok(Verdict::Revoked),
            (_, Some(pinned)) if pinned.key().key_data() == key.key_data() => return Ok(Verdict::Known),
            (_, Some(pinned)) => {
                return Ok(Verdict::Changed(vec![format!("`host-key`: {}", describe(pinned.key()))]));
            }
            (Verdict::Unknown, None) => {}
            (verdict, None) => return Ok(verdict),
        }
        let accepted = match &self.unknown {
            Policy::Refuse => false,
            Policy::Accept => true,
            Policy::Ask(asker) => {
                let key = describe(key);
                asker.ask(&UnknownKey { node: node.clone(), host: host_name(host, port), key }).await
            }
        };
        if !accepted {
            return Ok(Verdict::Unknown);
        }
        let key = key.to_openssh().map_err(io::Error::other)?;
        let line = format!("{} {key}\n", host_name(host, port));
        let (file, new) = (self.file.clone(), line.clone());
        blocking(move || append(&file, &new)).await?;
        let mut known = self.known.lock().expect("no panic while locked");
        known.add(&self.file.display().to_string(), &line);
        Ok(Verdict::Known)
    }
}

fn append(file: &Path, line: &str) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    if let Some(folder) = file.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let ends_well = std::fs::read(file).map_or(true, |bytes| bytes.last().is_none_or(|&byte| byte == b'\n'));
    let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    let line = if ends_well { line.to_string() } else { format!("\n{line}") };
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const TWO: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILIG2T/B0l0gaqj3puu510tu9N1OkQ4znY3LYuEm5zCF";
    const ECDSA: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=";

    fn key(text: &str) -> PublicKey {
        text.parse().unwrap()
    }

    fn known(text: &str) -> KnownHosts {
        let mut known = KnownHosts::default();
        known.add("file", text);
        known
    }

    #[test]
    fn names_ports_patterns_and_hashes() {
        let text = format!(
            "# comment\nnonsense\n10.0.0.1,plain.example {ONE}\n[10.0.0.2]:2222 {ONE} a comment\n\
             *.lab,!bad.lab {ONE}\n|1|O33ESRMWPVkMYIwJ1Uw+n877jTo=|nuuC5vEqXlEZ/8BXQR7m619W6Ak= {TWO}\n"
        );
        let known = known(&text);
        for (host, port, text, expected) in [
            ("10.0.0.1", 22, ONE, true),
            ("10.0.0.1", 2222, ONE, false),
            ("Plain.Example", 22, ONE, true),
            ("10.0.0.2", 2222, ONE, true),
            ("10.0.0.2", 22, ONE, false),
            ("a.lab", 22, ONE, true),
            ("bad.lab", 22, ONE, false),
            ("example.com", 22, TWO, true),
        ] {
            let verdict = known.check(host, port, &key(text));
            assert_eq!(verdict, if expected { Verdict::Known } else { Verdict::Unknown }, "{host}:{port}");
        }
    }

    #[test]
    fn patterns_take_no_time_that_grows_with_their_stars() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*", "a", true),
            ("*b*d", "abcbd", true),
            ("*b*d", "abcb", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("**", "x", true),
            ("", "x", false),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} on {text}");
        }
        let known = known(&format!("{}b {ONE}\n", "*a".repeat(2000)));
        assert_eq!(known.check(&"a".repeat(4000), 22, &key(ONE)), Verdict::Unknown);
    }

    #[test]
    fn another_key_is_a_change_even_of_another_type() {
        let known = known(&format!("host {ONE}\n"));
        assert_eq!(known.check("host", 22, &key(ONE)), Verdict::Known);
        for text in [TWO, ECDSA] {
            let Verdict::Changed(known) = known.check("host", 22, &key(text)) else { panic!("{text}") };
            assert!(known[0].starts_with("file line 1: ssh-ed25519 SHA256:"), "{known:?}");
        }
    }

    #[test]
    fn a_revoked_key_is_refused_though_listed() {
        let known = known(&format!("host {ONE}\n@revoked * {ONE}\n"));
        assert_eq!(known.check("host", 22, &key(ONE)), Verdict::Revoked);
    }

    #[test]
    fn known_types_are_asked_for_first() {
        let known = known(&format!("host {ECDSA}\n"));
        assert_eq!(known.algorithms("host", 22)[0], key(ECDSA).algorithm());
        assert_eq!(known.algorithms("other", 22)[0], Algorithm::Ed25519);
    }

    #[tokio::test]
    async fn a_new_key_is_written_and_known_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/known_hosts");
        let target = Target::new("n", "10.0.0.1", 2222);
        let keys = HostKeys::load(&file, &[]).unwrap();
        assert_eq!(keys.judge(&target, &key(ONE)).await.unwrap(), Verdict::Unknown);
        let keys = HostKeys::load(&file, &[]).unwrap().accept_new();
        assert_eq!(keys.judge(&target, &key(ONE)).await.unwrap(), Verdict::Known);
        let keys = HostKeys::load(&file, &[]).unwrap();
        assert_eq!(keys.judge(&target, &key(ONE)).await.unwrap(), Verdict::Known);
        assert!(matches!(keys.judge(&target, &key(TWO)).await.unwrap(), Verdict::Changed(_)));
    }

    #[tokio::test]
    async fn a_pinned_key_is_the_only_one_unless_it_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("known_hosts");
        std::fs::write(&file, format!("host {ONE}\nother {TWO}\n@revoked * {ECDSA}\n")).unwrap();
        let keys = HostKeys::load(&file, &[]).unwrap().accept_new();
        let pinned = |host: &str, key: &str| Target::new("n", host, 22).pinned(Some(key.parse().unwrap()));
        let target = pinned("host", &format!("{TWO} a comment"));
        assert_eq!(keys.judge(&target, &key(TWO)).await.unwrap(), Verdict::Known);
        let Verdict::Changed(known) = keys.judge(&target, &key(ONE)).await.unwrap() else { panic!() };
        assert!(known[0].starts_with("`host-key`: ssh-ed25519 SHA256:"), "{known:?}");
        assert_eq!(keys.judge(&pinned("new", ECDSA), &key(ECDSA)).await.unwrap(), Verdict::Revoked);
        assert_eq!(keys.algorithms(&pinned("new", ECDSA))[0], key(ECDSA).algorithm());
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 3, "nothing is written");
    }
}
