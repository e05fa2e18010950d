//! Packages: where they come from, what targets have of them, and which are asked for.

use super::{Context, archs};
use crate::manifest::keys::{DEB, RPM};
use crate::manifest::{Baseline, Constraint, PackageRequest, Repo, RepoSource};
use eggo_bundles::Role;
use eggo_bundles::version::Relation;
use eggo_yaml::{Fields, Node};

impl Context<'_> {
    pub(super) fn repo(&self, fields: &Fields<'_>, node: &Node) -> Option<Repo> {
        let name = self.name(fields, "name");
        let exclude = fields.texts("exclude");
        let archs = archs(fields);
        let allow_unsigned = fields.boolean("allow-unsigned").unwrap_or(false);
        let mut check_valid_until = true;
        let mut repo_gpgcheck = None;
        let (source, keys) = match fields.required("type").as_deref() {
            Some("deb") => {
                check_valid_until = fields.boolean("check-valid-until").unwrap_or(true);
                self.deb(fields)
            }
            Some("rpm") => {
                repo_gpgcheck = fields.boolean("repo-gpgcheck");
                if repo_gpgcheck == Some(true) && allow_unsigned {
                    self.exclude(fields, "repo-gpgcheck", &["allow-unsigned"]);
                }
                self.rpm(fields)
            }
            unknown => {
                if let (Some(other), Some(node)) = (unknown, fields.node("type")) {
                    self.reader.at(node, format!("repo type `{other}` is unknown (known: deb, rpm)"));
                }
                // Its other keys cannot be judged.
                for key in DEB.iter().chain(RPM) {
                    fields.entry(key.name);
                }
                return None;
            }
        };
        let (line, tls) = (node.line, self.tls(fields));
        let name = name?;
        Some(Repo {
            name,
            line,
            source,
            keys,
            allow_unsigned,
            check_valid_until,
            repo_gpgcheck,
            exclude,
            archs,
            tls,
        })
    }

    fn deb(&self, fields: &Fields<'_>) -> (RepoSource, Vec<String>) {
        let keys = one_or_many(fields, "signed-by");
        let urls = self.urls(fields, "url");
        let suites = one_or_many(fields, "suites");
        let components = one_or_many(fields, "components");
        if let Some(from) = fields.node("from") {
            if from.as_str() != Some("system") {
                self.reader.at(from, "`from` can only be `system`; another repository has a `url`");
            }
            self.exclude(fields, "from", &["url", "suites", "components"]);
            return (RepoSource::DebSystem, keys);
        }
        if urls.is_empty() {
            fields.missing("url");
        }
        if suites.is_empty() {
            fields.missing("suites");
        }
        if components.is_empty() && suites.iter().any(|suite| !suite.ends_with('/')) {
            fields.missing("components");
        }
        (RepoSource::Deb { urls, suites, components }, keys)
    }

    fn rpm(&self, fields: &Fields<'_>) -> (RepoSource, Vec<String>) {
        let keys = one_or_many(fields, "gpgkey");
        let releasever = fields.text("releasever");
        let modules = fields.texts("modules");
        let urls = self.urls(fields, "url");
        let mirrorlist = fields.text("mirrorlist");
        let metalink = fields.text("metalink");
        if let Some(file) = fields.text("file") {
            self.exclude(fields, "file", &["url", "mirrorlist", "metalink"]);
            return (RepoSource::RpmFile { file, releasever, modules }, keys);
        }
        if urls.is_empty() && mirrorlist.is_none() && metalink.is_none() {
            fields.missing("url");
        }
        (RepoSource::Rpm { urls, mirrorlist, metalink, releasever, modules }, keys)
    }

    pub(super) fn baseline(&self, fields: &Fields<'_>) -> Baseline {
        let Some(node) = fields.node("baseline") else { return Baseline::Minimal };
        match self.reader.text(node, "baseline").as_deref() {
            Some("minimal") => Baseline::Minimal,
            Some("none") => Baseline::None,
            Some(file) => self.template(node, file).map_or(Baseline::Minimal, Baseline::File),
            None => Baseline::Minimal,
        }
    }

    /// A mapping from role to requests; `all` stands for every role.
    pub(super) fn packages(&self, fields: &Fields<'_>) -> Vec<PackageRequest> {
        let mut requests = Vec::new();
        let Some(node) = fields.node("packages") else { return requests };
        for entry in self.reader.fields(node, "packages").entries() {
            let roles: Vec<Role> = match (entry.key.as_str(), entry.key.parse()) {
                ("all", _) => Role::ALL.to_vec(),
                (_, Ok(role)) => vec![role],
                (_, Err(error)) => {
                    let problem = eggo_yaml::Problem::new(entry.line, entry.column, error.to_string());
                    self.reader
                        .problem(problem.hinted("packages are listed per role; `all` means every role"));
                    continue;
                }
            };
            let Some(nodes) = entry.node.as_sequence() else {
                if !entry.node.is_null() {
                    self.reader.at(&entry.node, format!("`packages.{}` must be a list", entry.key));
                }
                continue;
            };
            for node in nodes {
                let Some(text) = self.reader.text(node, &format!("packages.{}", entry.key)) else { continue };
                match package(&text) {
                    Ok((name, constraint)) => requests.extend(roles.iter().map(|role| PackageRequest {
                        name: name.clone(),
                        constraint: constraint.clone(),
                        role: *role,
                        line: node.line,
                    })),
                    Err(message) => self.reader.at(node, message),
                }
            }
        }
        requests
    }
}

fn one_or_many(fields: &Fields<'_>, key: &'static str) -> Vec<String> {
    match fields.node(key) {
        Some(node) if node.as_str().is_some() => {
            node.as_str().into_iter().flat_map(str::split_whitespace).map(str::to_string).collect()
        }
        Some(_) => fields.texts(key),
        None => Vec::new(),
    }
}

/// `name`, `name >= 1.2`, `name>=1.2`, `name = 1.2`.
fn package(text: &str) -> Result<(String, Option<Constraint>), String> {
    let text = text.trim();
    let split = text.find(|c: char| "<>=".contains(c) || c.is_whitespace()).unwrap_or(text.len());
    let (name, rest) = (&text[..split], text[split..].trim());
    if !is_package_name(name) {
        return Err(format!("`{text}` does not begin with a package name"));
    }
    if rest.is_empty() {
        return Ok((name.to_string(), None));
    }
    let (sign, version) = rest.split_at(rest.find(|c: char| !"<>=".contains(c)).unwrap_or(rest.len()));
    let relation = Relation::parse(sign)
        .ok_or_else(|| format!("`{text}` is not `name` or `name >= 1.2` (also: <, <=, =, >)"))?;
    let version = version.trim();
    if version.is_empty() || version.contains(|c: char| c.is_whitespace() || "<>=".contains(c)) {
        return Err(format!("`{text}` needs one version after `{relation}`"));
    }
    Ok((name.to_string(), Some(Constraint { relation, version: version.to_string() })))
}

fn is_package_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "+-._:()/".contains(c);
    !name.is_empty() && name.chars().all(allowed) && !name.starts_with('-')
}
