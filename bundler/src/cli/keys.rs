//! Which key signs, and where the default one lives.

use crate::error::Error;
use clap::Args;
use eggo_bundles::output;
use eggo_bundles::progress::Progress;
use eggo_bundles::sbom::Created;
use eggo_bundles::{KeyPair, SecretKey, TrustedKeys};
use eggo_terminal::Report;
use std::path::{Path, PathBuf};

/// Flags of the commands that seal a new bundle.
#[derive(Debug, Args)]
pub(super) struct SealArgs {
    /// The minisign key to sign with [default: ~/.config/eggo/bundle.key, made on first use].
    #[arg(long, value_name = "FILE", env = "EGGO_KEY")]
    key: Option<PathBuf>,
    /// When the bill of materials says that it was made, in seconds since 1970. Not the time of
    /// building, which would make each build another one.
    #[arg(long, value_name = "SECONDS", env = "SOURCE_DATE_EPOCH", default_value = "0")]
    pub created: Created,
}

impl SealArgs {
    pub(super) fn key(&self, progress: &dyn Progress) -> Result<SecretKey, Report> {
        signing_key(self.key.as_deref(), progress)
    }
}

/// The key file `named` or, if none is, the user's own, which is made on first use.
pub(super) fn signing_key(named: Option<&Path>, progress: &dyn Progress) -> Result<SecretKey, Report> {
    let path = match named {
        Some(path) => path.to_path_buf(),
        None => default_key(progress)?,
    };
    let key = SecretKey::load(&path, || password(&format!("password of `{}`: ", path.display())));
    key.map_err(|error| Error::from(error).into())
}

/// A password from `EGGO_KEY_PASSWORD`, or typed by the user.
pub(super) fn password(prompt: &str) -> Option<String> {
    match std::env::var("EGGO_KEY_PASSWORD") {
        Ok(password) => Some(password),
        Err(_) if eggo_terminal::can_ask() => eggo_terminal::hidden(prompt).ok(),
        Err(_) => None,
    }
}

fn default_key(progress: &dyn Progress) -> Result<PathBuf, Report> {
    let trusted = TrustedKeys::user_folder().ok_or_else(|| {
        Report::new("no folder for the default key: neither `XDG_CONFIG_HOME` nor `HOME` is set")
            .hinted("name a key with `--key`")
    })?;
    let path = trusted.with_file_name("bundle.key");
    if path.exists() {
        return Ok(path);
    }
    let public = public_path(&path);
    write_pair(&path, None)?;
    // Bundles that this user signs are trusted by this user.
    let own = trusted.join("own.pub");
    let copied = std::fs::create_dir_all(&trusted).and_then(|()| std::fs::copy(&public, &own));
    copied.map_err(|error| Report::new(format!("cannot write `{}`: {error}", own.display())))?;
    progress.note(&format!(
        "made a new signing key without a password: `{}`\n\
         carry `{}` to where bundles are verified (`--pubkey`, or a trusted-keys folder)",
        path.display(),
        public.display()
    ));
    Ok(path)
}

/// `KEY.pub` beside `KEY`.
pub(super) fn public_path(key: &Path) -> PathBuf {
    let mut name = key.as_os_str().to_os_string();
    name.push(".pub");
    PathBuf::from(name)
}

/// Makes a key pair. An existing key is never replaced.
pub(super) fn write_pair(path: &Path, password: Option<&str>) -> Result<String, Report> {
    let pair = KeyPair::generate(password).map_err(Error::from)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|error| Report::new(format!("cannot make `{}`: {error}", folder.display())))?;
    }
    write_half(path, &pair.secret, 0o600)?;
    if let Err(report) = write_half(&public_path(path), &pair.public, 0o644) {
        // Half a pair is of no use, and would be in the way of the next attempt.
        let _ = std::fs::remove_file(path);
        return Err(report);
    }
    Ok(pair.public)
}

fn write_half(path: &Path, text: &str, mode: u32) -> Result<(), Report> {
    output::write_new(path, text.as_bytes(), mode).map_err(|error| {
        let report = Report::new(format!("cannot write `{}`: {error}", path.display()));
        match (error.kind(), output::hint(path, &error)) {
            (std::io::ErrorKind::AlreadyExists, _) => {
                report.hinted("choose another name, or remove it first")
            }
            (_, Some(hint)) => report.hinted(hint),
            _ => report,
        }
    })
}
