//! Content for another arch than that of the nodes that would get it, found before anything is sent. A signature says who
//! made the bundle, not that nothing was mixed up.

use super::heads::unless_damaged;
use crate::distribute::{DeliveryError, Source};
use crate::plan::Plan;
use eggo_bundles::content::{self, Made, Problem};
use eggo_bundles::{Digest, Item, Kind};
use std::collections::BTreeSet;
use std::io;

/// Looks at the beginning of everything that tells its arch. What is odd in other ways is left to those who install it.
pub fn check(plan: &Plan, source: &dyn Source) -> Result<(), DeliveryError> {
    let mut seen = BTreeSet::new();
    for node in &plan.nodes {
        let configs: BTreeSet<Digest> = node.images.iter().map(|image| image.config).collect();
        for item in node.items.iter().map(|wanted| &*wanted.item) {
            let is_config = configs.contains(&item.sha256);
            let tells = is_config || matches!(item.kind, Kind::Pkg | Kind::Bin | Kind::Dir);
            if !tells || item.link.is_some() || !seen.insert((item.sha256, item.arch)) {
                continue;
            }
            let other = other_arch(item, is_config, source);
            if let Some(found) = other.map_err(|error| DeliveryError::source(item, &error))? {
                return Err(DeliveryError::Source {
                    path: item.path.clone(),
                    reason: format!("it is in {}'s folder but is for {found}", item.arch),
                });
            }
        }
    }
    Ok(())
}

fn other_arch(item: &Item, is_config: bool, source: &dyn Source) -> io::Result<Option<String>> {
    let mut content = match source.read(item) {
        Ok(content) => content,
        Err(error) => return unless_damaged(error),
    };
    match content::made_for(item, is_config, &mut content) {
        Ok(Made::For(found)) if found.parse() != Ok(item.arch) => Ok(Some(found)),
        Ok(_) | Err(Problem::Malformed(_)) => Ok(None),
        Err(Problem::Io(error)) => unless_damaged(error),
    }
}
