//! How a person lets the program onto the nodes: host keys and passwords, asked or read from files,
//! never taken from the command line.

use super::output;
use super::surroundings::surroundings;
use eggo_deploy::config::{Config, Secret};
use eggo_deploy::operation::{Access, Passwords, Prompts};
use eggo_deploy::ssh::{HostKeys, UnknownKey, UnknownKeys};
use eggo_terminal::{Report, printable, yes};
use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Access to nodes")]
pub struct AccessArgs {
    /// Trust host keys that are not known yet, and save them; changed ones are still refused
    #[arg(long)]
    accept_new_host_keys: bool,

    /// The file with the nodes' host keys [default: ~/.ssh/known_hosts, and the machine's]
    #[arg(long, value_name = "FILE")]
    known_hosts: Option<PathBuf>,

    /// Ask for the login password
    #[arg(long, conflicts_with = "password_file")]
    ask_password: bool,

    /// Read the login password from the first line of a file
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// Read the passphrase of an encrypted private key from the first line of a file
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,

    /// Ask for the password that sudo wants on the nodes
    #[arg(long, conflicts_with = "sudo_password_file")]
    ask_sudo_password: bool,

    /// Read the password that sudo wants from the first line of a file
    #[arg(long, value_name = "FILE")]
    sudo_password_file: Option<PathBuf>,
}

impl AccessArgs {
    pub fn access(&self, config: &Config) -> Result<Access, Report> {
        let who = format!("password of {} on the nodes: ", config.login.user);
        let login = secret(self.ask_password, self.password_file.as_deref(), &who)?;
        let who = format!("sudo password of {} on the nodes: ", config.login.user);
        let sudo = secret(self.ask_sudo_password, self.sudo_password_file.as_deref(), &who)?;
        let passwords = Passwords { login, sudo };
        let surroundings = surroundings();
        let keys = match &self.known_hosts {
            Some(file) => HostKeys::load(file, &[]),
            None => match &surroundings.home {
                Some(home) => HostKeys::of_user(home),
                None => Err(std::io::Error::other("the user has no home folder")),
            },
        };
        let keys = keys.map_err(|error| Report::new(format!("cannot read known_hosts: {error}")))?;
        let keys = match (self.accept_new_host_keys, eggo_terminal::can_ask()) {
            (true, _) => keys.accept_new(),
            (false, true) => keys.ask(Arc::new(Terminal)),
            (false, false) => keys,
        };
        match self.passphrase_file.as_deref().map(first_line).transpose()? {
            Some(passphrase) => Access::new(config, passwords, keys, &surroundings, &Known { passphrase }),
            None => Access::new(config, passwords, keys, &surroundings, &Terminal),
        }
    }
}

fn secret(ask: bool, file: Option<&Path>, prompt: &str) -> Result<Option<Secret>, Report> {
    if let Some(path) = file {
        return first_line(path).map(Some);
    }
    if !ask {
        return Ok(None);
    }
    let answer = eggo_terminal::hidden(prompt);
    answer.map(|text| Some(Secret::new(text))).map_err(|error| {
        Report::new(format!("cannot ask for a password: {error}")).hinted("name a file that holds it instead")
    })
}

fn first_line(path: &Path) -> Result<Secret, Report> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Report::new(format!("cannot read `{}`: {error}", path.display())))?;
    Ok(Secret::new(text.lines().next().unwrap_or_default()))
}

/// What a file has said already.
struct Known {
    passphrase: Secret,
}

impl Prompts for Known {
    fn passphrase(&self, _key: &Path) -> Option<Secret> {
        Some(self.passphrase.clone())
    }

    fn warn(&self, text: &str) {
        output::say(format_args!("warning: {text}"));
    }
}

/// A person at a terminal.
struct Terminal;

impl Prompts for Terminal {
    fn passphrase(&self, key: &Path) -> Option<Secret> {
        let prompt = format!("passphrase of {}: ", key.display());
        eggo_terminal::hidden(&prompt).ok().map(Secret::new)
    }

    fn warn(&self, text: &str) {
        output::say(format_args!("warning: {text}"));
    }
}

impl UnknownKeys for Terminal {
    fn ask<'a>(&'a self, key: &'a UnknownKey) -> BoxFuture<'a, bool> {
        let question = format!(
            "{}: the key of {} is not known:\n  {}\nDo you trust it? [y/N] ",
            printable(&key.node),
            printable(&key.host),
            printable(&key.key)
        );
        Box::pin(async move {
            // Reading a line blocks; the connections go on meanwhile.
            tokio::task::spawn_blocking(move || yes(&question)).await.unwrap_or(false)
        })
    }
}

/// Without `--yes` someone must be there who can be asked about `what` this does.
pub fn can_ask(sure: bool, what: &str) -> Result<(), Report> {
    match sure || eggo_terminal::can_ask() {
        true => Ok(()),
        false => Err(Report::new(format!("{what}, and nobody can be asked")).hinted("say `--yes`")),
    }
}

/// `--yes`, or a yes to the question.
pub fn confirm(sure: bool, what: &str, question: &str) -> Result<(), Report> {
    can_ask(sure, what)?;
    match sure || yes(question) {
        true => Ok(()),
        false => Err(Report::new("stopped: nothing was changed").code("declined")),
    }
}
