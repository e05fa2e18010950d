//! What the solver and the lock ask of a [`World`].

use super::{Out, Package, World};
use crate::packages::deb::relation::{Target, alternatives};
use crate::packages::deb::walk;
use crate::packages::decide::{Catalog, File};
use crate::packages::provider::{Clash, GroupId, Identity, Need, PackageId, Provider};
use crate::packages::version::Relation;
use eggo_bundles::index::PackageFormat;

impl Provider for World<'_> {
    fn identity(&self, id: PackageId) -> Identity {
        let package = self.package(id);
        let repo = match package.index.filter(|_| !package.installed) {
            Some(index) => self.indexes[index].repo.clone(),
            None => "baseline".to_string(),
        };
        Identity {
            name: package.name.to_string(),
            version: package.version.to_string(),
            architecture: package.architecture.to_string(),
            repo,
        }
    }

    fn group(&self, id: PackageId) -> GroupId {
        GroupId(self.package(id).group)
    }

    fn members(&self, group: GroupId) -> Vec<PackageId> {
        let name = &self.names[group.0 as usize];
        let mut members: Vec<_> = name.installed.into_iter().chain(name.candidate).collect();
        members.dedup();
        members
    }

    fn needs(&self, id: PackageId) -> Vec<Need> {
        self.lowered(id).needs.clone()
    }

    fn clashes(&self, id: PackageId) -> Vec<Clash> {
        self.lowered(id).clashes.clone()
    }

    fn is_installed(&self, id: PackageId) -> bool {
        self.package(id).installed
    }

    fn baseline(&self) -> Vec<Need> {
        let installed = self.names.iter().filter(|name| name.installed.is_some());
        let needs = installed.map(|name| {
            let mut choices: Vec<_> = name.installed.into_iter().chain(name.candidate).collect();
            choices.dedup();
            Need { text: name.name.to_string(), choices, ..Need::default() }
        });
        needs.collect()
    }

    fn guess(&self, roots: &[Need]) -> Vec<PackageId> {
        walk::walk(self, roots)
    }

    fn nearest(&self, name: &str) -> Option<&str> {
        let offered = self.names.iter().filter(|known| known.candidate.is_some());
        eggo_yaml::nearest(name, offered.map(|known| known.name))
    }

    fn rejected(&self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for target in alternatives(text) {
            if let Some(id) = self.by_name.get(target.name).and_then(|n| self.names[*n as usize].candidate) {
                let package = self.package(id);
                lines.push(format!("{}, which is not `{target}`", self.label(package)));
            }
            for (package, out) in self.others.iter().filter(|(other, _)| other.name == target.name) {
                let why = match out {
                    Out::Older => "apt would not take it, for there is a better version",
                    Out::Excluded => "the manifest excludes it",
                    Out::WeakHash => "its repo has no SHA256 for it",
                    Out::Unasked => "the manifest asks for another version",
                };
                lines.push(format!("{}: {why}", self.label(package)));
            }
            for (id, version) in self.provides.get(target.name).into_iter().flatten() {
                let provider = self.label(self.package(*id));
                lines.push(match version {
                    Some(version) => format!("{provider}, which provides `{} = {version}`", target.name),
                    None => format!("{provider}, which provides `{}` without a version", target.name),
                });
            }
        }
        lines
    }
}

impl Catalog for World<'_> {
    fn format(&self) -> PackageFormat {
        PackageFormat::Deb
    }

    fn request(&self, name: &str, limit: Option<(Relation, &str)>) -> Need {
        let text = match limit {
            Some((relation, version)) => format!("{name} {relation} {version}"),
            None => name.to_string(),
        };
        let target = Target { name, qualifier: None, version: limit };
        Need { text, choices: self.choices(&target), ..Need::default() }
    }

    fn file(&self, id: PackageId) -> Option<File> {
        let package = self.package(id);
        let index = &self.indexes[package.index?];
        let mut head = package.record.split('\n').next()?.split('\t').skip(5);
        let size = head.next()?.parse().ok()?;
        let sha256 = head.next()?.parse().ok()?;
        let path = as_url(head.next()?.trim_start_matches("./"));
        let urls = index.urls.iter().map(|base| format!("{}/{path}", base.trim_end_matches('/')));
        Some(File { urls: urls.collect(), size, sha256, key: index.key.clone() })
    }
}

/// The path of a file as a part of a url: a `%` in a name is that letter, as apt has it.
fn as_url(path: &str) -> String {
    path.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

impl World<'_> {
    fn label(&self, package: &Package<'_>) -> String {
        let place = match package.index {
            Some(index) => format!("{} {}", self.indexes[index].repo, self.indexes[index].suite),
            None => "baseline".to_string(),
        };
        format!("`{} {}` ({place})", package.name, package.version)
    }
}
