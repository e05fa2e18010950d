//! What commands on a running cluster have in common.

use super::access::AccessArgs;
use super::input::ConfigArgs;
use super::state::StateArgs;
use super::{Format, Global, view};
use eggo_deploy::operation::LifeRequest;
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
    pub fn request(&self, global: &Global) -> Result<LifeRequest, Report> {
        let config = self.config.load()?.config;
        let access = self.access.access(&config)?;
        let state = self.state.of(&config);
        // With JSON the result alone goes to stdout.
        let events = if global.format == Format::Json { view::quiet() } else { view::sink(global.format) };
        Ok(LifeRequest { config: Arc::new(config), access, state, events })
    }
}
