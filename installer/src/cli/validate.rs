//! `eggo-install validate`

use super::input::ConfigArgs;
use super::surroundings::surroundings;
use super::{Format, Global, output};
use eggo_bundles::Role;
use eggo_deploy::config::{self, Config, KeyPlace, LoadError, Loaded};
use eggo_deploy::operation::unreadable_key;
use eggo_terminal::{Count, Report};
use eggo_yaml::{Problem, Problems};
use serde_json::{Value, json};
use std::io::ErrorKind;

/// Check deploy.yaml: every problem with its line and the nearest known key.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  eggo-install validate -f deploy.yaml")]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let path = args.config.path()?;
    let shown = path.display().to_string();
    let loaded = config::load(&path).and_then(complete);
    match (loaded.map(with_keys), global.format) {
        (Ok(loaded), Format::Table) => {
            super::input::warn(&loaded.warnings);
            output::text_out(&summary(&shown, &loaded.config))
        }
        (Ok(loaded), Format::Json) => output::json(&json!({
            "valid": true, "cluster": loaded.config.cluster_id,
            "problems": [], "warnings": list(&loaded.warnings),
        })),
        (Err(LoadError::Invalid(problems)), Format::Json) => {
            output::json(&json!({
                "valid": false, "cluster": null, "problems": list(&problems), "warnings": [],
            }))?;
            // What is wrong has been said.
            Err(Report::new(format!("`{shown}` is not valid")))
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// Nobody has to know that a bundle will make up for it.
fn complete(loaded: Loaded) -> Result<Loaded, LoadError> {
    match loaded.lacking.list.is_empty() {
        true => Ok(loaded),
        false => Err(LoadError::Invalid(loaded.lacking)),
    }
}

/// A key that is not here is no error: the file may be meant for another machine.
fn with_keys(mut loaded: Loaded) -> Loaded {
    let surroundings = surroundings();
    for KeyPlace { key, path, line, column } in &loaded.private_keys {
        let Some(error) = unreadable_key(&surroundings.expand(path)) else { continue };
        let what = match error.kind() {
            ErrorKind::NotFound => "is not on this machine".to_string(),
            _ => format!("cannot be read here: {error}"),
        };
        let message = format!("`{key}` is `{}`, which {what}", path.display());
        let hint = "fine if another machine installs; here, name a key that exists, or leave it out for an agent or a password";
        loaded.warnings.list.push(Problem::new(*line, *column, message).hinted(hint));
    }
    loaded.warnings.list.sort_by_key(|problem| (problem.line, problem.column));
    loaded
}

fn list(problems: &Problems) -> Value {
    let one = |problem: &eggo_yaml::Problem| {
        json!({
            "file": problems.file, "line": problem.line, "column": problem.column,
            "message": problem.message, "hint": problem.hint,
        })
    };
    problems.list.iter().map(one).collect()
}

fn summary(path: &str, config: &Config) -> String {
    let count = |role| config.with_role(role).count();
    let counts = [
        Count(count(Role::Master), "master", "masters"),
        Count(count(Role::Worker), "worker", "workers"),
        Count(count(Role::Etcd), "etcd member", "etcd members"),
        Count(count(Role::Loadbalance), "load balancer", "load balancers"),
    ];
    let counts: Vec<String> = counts.iter().filter(|count| count.0 > 0).map(Count::to_string).collect();
    let hosts = Count(config.hosts.len(), "host", "hosts");
    format!("{path} is valid: cluster `{}` on {hosts} ({})\n", config.cluster_id, counts.join(", "))
}
