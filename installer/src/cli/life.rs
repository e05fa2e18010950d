//! What commands on a running cluster have in common.

use super::access::AccessArgs;
use super::input::ConfigArgs;
use super::state::StateArgs;
use super::{Format, Global, output, view};
use eggo_deploy::operation::LifeRequest;
use eggo_deploy::stop::Stop;
use eggo_terminal::Report;
use std::sync::Arc;

#[derive(Debug, Clone, clap::Args)]
pub struct LifeArgs {
    #[command(flatten)]
    pub config: ConfigArgs,

    #[command(flatten)]
    pub state: StateArgs,

    #[command(flatten)]
    pub access: AccessArgs,
}

impl LifeArgs {
    /// For commands whose result is their output: with JSON it alone goes to stdout.
    pub fn request(&self, global: &Global) -> Result<LifeRequest, Report> {
        let config = self.config.load()?.config;
        let access = self.access.access(&config)?;
        let state = self.state.of(&config);
        let events = if global.format == Format::Json { view::quiet() } else { view::sink(global.format) };
        Ok(LifeRequest { config: Arc::new(config), access, state, events, stop: Stop::default() })
    }

    /// For commands that have no result but what they change: with JSON, the events go to stdout.
    pub fn operation(&self, global: &Global) -> Result<LifeRequest, Report> {
        Ok(LifeRequest { events: view::sink(global.format), ..self.request(global)? })
    }
}

/// What is said at the end; with JSON, the last event has said it.
pub fn done(text: &str, global: &Global) -> Result<(), Report> {
    match global.format {
        Format::Json => Ok(()),
        Format::Table => output::text_out(&format!("done: {text}\n")),
    }
}
