//! kubectl on a master, with the administrator's kubeconfig for just as long as it runs.
//!
//! The kubeconfig comes with standard input and lies in memory (tmpfs, 0600) until the command
//! ends; what follows it on standard input is the command's own.

use crate::paths::KUBECTL as FOLDER;
use crate::remote::{Command, Host, Output, quote, words};
use eggo_errors::Report;
use serde_json::Value;
use std::time::Duration;
use zeroize::Zeroizing;

/// `repeat LIMIT COMMAND…`, for a script.
pub const REPEAT: &str = include_str!("repeat.sh");

pub struct Kubectl<'a> {
    host: &'a dyn Host,
    program: &'a str,
    kubeconfig: Zeroizing<String>,
}

impl<'a> Kubectl<'a> {
    pub fn new(host: &'a dyn Host, program: &'a str, kubeconfig: Zeroizing<String>) -> Self {
        Self { host, program, kubeconfig }
    }

    pub fn host(&self) -> &'a dyn Host {
        self.host
    }

    /// A script in which `kubectl` is the administrator's. `input` is its standard input.
    pub fn script(&self, title: impl Into<String>, script: &str, input: &[u8]) -> Command {
        let program = quote(self.program);
        let length = self.kubeconfig.len();
        let script = format!(
            "umask 077; mkdir -p {FOLDER}; k=$(mktemp {FOLDER}/kubeconfig.XXXXXXXX)\n\
             trap 'rm -f \"$k\"' EXIT; trap 'exit 129' HUP INT TERM\n\
             head -c {length} > \"$k\"; KUBECONFIG=$k; export KUBECONFIG\n\
             kubectl() {{ {program} --cache-dir={FOLDER}/kubectl \"$@\"; }}\n{script}\n"
        );
        let mut stdin = self.kubeconfig.as_bytes().to_vec();
        stdin.extend_from_slice(input);
        Command::sh(title, script).stdin(stdin)
    }

    pub async fn run(&self, title: &str, script: &str) -> Result<Output, Report> {
        Ok(self.host.run(self.script(title, script, b"")).await?)
    }

    /// One kubectl command's words.
    pub async fn words<S: AsRef<str>>(&self, title: &str, list: &[S]) -> Result<Output, Report> {
        self.run(title, &format!("kubectl {}", words(list))).await
    }

    /// Applies objects; says whether anything was changed.
    pub async fn apply(&self, title: &str, manifest: &[u8]) -> Result<bool, Report> {
        let output = self.host.run(self.script(title, "kubectl apply -f -", manifest)).await?;
        Ok(output.text().lines().any(|line| !line.ends_with(" unchanged")))
    }

    pub async fn json(&self, title: &str, what: &str) -> Result<Value, Report> {
        let output = self.run(title, &format!("kubectl get {what} -o json")).await?;
        serde_json::from_slice(&output.stdout).map_err(|error| {
            Report::new(format!(
                "{}: could not {title}: kubectl's answer is not JSON: {error}",
                self.host.name()
            ))
        })
    }

    /// Repeats `check` on the node, twice a second, until it succeeds or the time is over.
    pub async fn until(&self, title: &str, check: &str, limit: Duration) -> Result<Output, Report> {
        let script = until(check, limit);
        let command = self.script(title, &script, b"").timeout(limit + Duration::from_secs(30));
        Ok(self.host.run(command).await?)
    }
}

/// Shell that repeats `check` until it succeeds; its last words are kept for the error.
pub fn until(check: &str, limit: Duration) -> String {
    format!(
        "end=$(( $(date +%s) + {} ))\nuntil out=$( {{ {check}; }} 2>&1 ); do\n\
         [ $(date +%s) -lt $end ] || {{ echo \"$out\" >&2; exit 1; }}; sleep 0.5; done\necho \"$out\"",
        limit.as_secs()
    )
}
