//! The world in the solver's words.

use super::World;
use crate::packages::provider::{Clash, GroupId, Identity, Need, PackageId, Provider};
use crate::packages::rpm::{choose, rich};

impl Provider for World {
    fn identity(&self, package: PackageId) -> Identity {
        let metadata = &self.metadata;
        let is_installed = self.is_installed(package);
        let package = self.package(package);
        Identity {
            name: metadata.name(package).to_string(),
            version: metadata.words.get(package.evr).to_string(),
            architecture: metadata.arch(package).to_string(),
            repo: match self.repositories.get(package.repo as usize) {
                Some(repository) if !is_installed => repository.name.clone(),
                _ => "baseline".to_string(),
            },
        }
    }

    fn group(&self, package: PackageId) -> GroupId {
        self.groups[package.0 as usize]
    }

    fn members(&self, group: GroupId) -> Vec<PackageId> {
        self.members[group.0 as usize].iter().copied().map(PackageId).collect()
    }

    fn needs(&self, package: PackageId) -> Vec<Need> {
        self.lowered_needs(package.0).to_vec()
    }

    fn clashes(&self, id: PackageId) -> Vec<Clash> {
        let package = self.package(id);
        let metadata = &self.metadata;
        let conflicts = metadata.capabilities(&package.conflicts).iter();
        let conflicts = conflicts
            .filter(|conflict| !rich::is_rich(metadata.words.get(conflict.name)))
            .map(|conflict| (format!("conflicts {}", metadata.show(conflict)), self.meeting(conflict)));
        let obsoletes = metadata.capabilities(&package.obsoletes).iter();
        let obsoletes = obsoletes
            .map(|obsoletes| (format!("obsoletes {}", metadata.show(obsoletes)), self.obsoleted(obsoletes)));
        let clash = |(text, with): (String, Vec<u32>)| {
            // A package never clashes with itself, nor with another build of itself by `obsoletes`.
            let with: Vec<PackageId> = with.into_iter().map(PackageId).filter(|other| *other != id).collect();
            (!with.is_empty()).then_some(Clash { text, with })
        };
        conflicts.chain(obsoletes).filter_map(clash).collect()
    }

    fn conditions(&self) -> &[Vec<PackageId>] {
        &self.conditions
    }

    fn is_installed(&self, package: PackageId) -> bool {
        self.installed.contains(&package.0)
    }

    fn baseline(&self) -> Vec<Need> {
        let mut installed: Vec<u32> = self.installed.iter().copied().collect();
        installed.sort_unstable();
        let need = |id: u32| Need {
            text: self.metadata.name(&self.metadata.packages[id as usize]).to_string(),
            choices: std::iter::once(id).chain(self.replacing(id)).map(PackageId).collect(),
            ..Need::default()
        };
        installed.into_iter().map(need).collect()
    }

    fn guess(&self, roots: &[Need]) -> Vec<PackageId> {
        choose::guess(self, roots).into_iter().map(PackageId).collect()
    }

    fn nearest(&self, name: &str) -> Option<&str> {
        let packages = self.metadata.packages.iter();
        eggo_yaml::nearest(name, packages.map(|package| self.metadata.name(package)))
    }

    fn rejected(&self, text: &str) -> Vec<String> {
        let name = text.split_whitespace().next().unwrap_or(text);
        let Some(word) = self.metadata.words.find(name) else { return Vec::new() };
        let mut near: Vec<u32> = self.by_name.get(word).to_vec();
        near.extend(self.provided.get(word).iter().map(|(id, _)| *id));
        near.sort_unstable();
        near.dedup();
        let show = |id: u32| {
            let Identity { name, version, architecture, repo } = self.identity(PackageId(id));
            format!("{name} {version} ({architecture}) in `{repo}`")
        };
        near.into_iter().map(show).collect()
    }
}
