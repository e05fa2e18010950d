//! The package lists of all generations → [`Content`], addons and hooks.

use super::defaults;
use super::model::{Addon, Choice, Content, Hook, Item, ItemKind, Schedule, Section};
use super::values;
use super::warnings::Warnings;
use eggo_bundles::{Arch, Role, dst};
use eggo_yaml::{Fields, Node, Reader};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The lists of `install`, with the section that each fills.
const SECTIONS: [Section; 8] = [
    Section::KubernetesMaster,
    Section::KubernetesWorker,
    Section::Network,
    Section::Etcd,
    Section::Loadbalance,
    Section::Container,
    Section::Image,
    Section::Dns,
];

/// The lists of generation 1, whose `packages` knew only roles.
const FIRST_SECTIONS: [(&[&str], Section); 4] = [
    (&["etcd"], Section::Etcd),
    (&["master"], Section::KubernetesMaster),
    (&["worker", "node"], Section::KubernetesWorker),
    (&["loadbalance"], Section::Loadbalance),
];

/// What a file says is to be installed.
pub(super) struct Install {
    pub content: Content,
    pub addons: Vec<Addon>,
    pub hooks: Vec<Hook>,
    /// Line and column of the package source.
    pub source_at: (usize, usize),
}

pub(super) struct Lists<'a> {
    reader: &'a Reader,
    warnings: &'a Warnings,
    items: Vec<Item>,
    addons: Vec<Addon>,
    hooks: Vec<Hook>,
}

/// Reads whichever of the generations' keys the file has. `roles` are those that some host plays.
pub(super) fn read<'a>(top: &Fields<'a>, warnings: &'a Warnings, roles: &[Role]) -> Install {
    let reader = top.reader();
    let mut lists = Lists { reader, warnings, items: Vec::new(), addons: Vec::new(), hooks: Vec::new() };
    let mut source = Source::default();

    let source_key = top.spelled(&["package-src", "package-source"]);
    let first_source = top.fields(source_key);
    let first_lists = top.fields(top.spelled(&["packages", "pacakges"]));
    lists.first_addons(top);
    let install = top.fields("install");
    if let (Some(node), true) = (top.node("install"), first_lists.is_some()) {
        reader.at(node, "`install` and `packages` are the lists of two generations; keep one");
    }
    let mut source_at = place_of(top.node(source_key));
    if let Some(fields) = first_source {
        source = Source::read(fields, warnings);
    }
    if let Some(fields) = first_lists {
        lists.first_generation(fields);
    }
    if let Some(fields) = install {
        let key = fields.spelled(&["package-source", "package-src"]);
        if let Some(below) = fields.fields(key) {
            if source.given {
                let message = "`package-src` and `install.package-source` mean the same; keep one";
                top.node("install").into_iter().for_each(|node| reader.at(node, message));
            }
            source = Source::read(below, warnings);
            source_at = place_of(fields.node(key));
        }
        lists.later_generations(fields);
    }
    let place = top.node("install").or(top.any(&["packages", "pacakges"]));
    lists.refuse_online(place, &source, roles);

    let choice = if source.bundle && lists.items.is_empty() { Choice::ByRole } else { Choice::Listed };
    Install {
        content: Content { choice, tarballs: source.tarballs, items: lists.items },
        addons: lists.addons,
        hooks: lists.hooks,
        source_at,
    }
}

fn place_of(node: Option<&Node>) -> (usize, usize) {
    node.map_or((1, 1), |node| (node.line, node.column))
}

impl<'a> Lists<'a> {
    fn first_generation(&mut self, fields: Fields<'a>) {
        for (keys, section) in FIRST_SECTIONS {
            let key = fields.spelled(keys);
            self.list(&fields, key, section);
        }
        fields.finish();
        // `images.tar` lay in the root of the tarball and needed no entry.
        let line = self.items.first().map_or(1, |item| item.line);
        let names = vec!["images.tar".to_string()];
        self.items.push(Item { section: Section::Image, kind: ItemKind::Image, names, dst: None, line });
    }

    fn later_generations(&mut self, fields: Fields<'a>) {
        for section in SECTIONS {
            self.list(&fields, section.key(), section);
        }
        if let Some(addition) = fields.fields("addition") {
            for (keys, role) in ROLE_KEYS {
                let key = addition.spelled(keys);
                self.list(&addition, key, Section::Addition(role));
            }
            addition.finish();
        }
        fields.finish();
    }

    /// `addons: [{type: file, filename: calico.yaml}]`
    fn first_addons(&mut self, top: &Fields<'a>) {
        for (i, node) in top.list("addons").iter().enumerate() {
            let entry = self.reader.fields(node, format!("addons[{i}]"));
            if let (Some(kind), Some(at)) = (entry.text("type"), entry.node("type"))
                && kind != "file"
            {
                self.reader.at(at, format!("`{}` is `{kind}`, expected `file`", entry.name("type")));
            }
            let key = entry.spelled(&["filename", "name"]);
            if let Some(name) = entry.required(key) {
                self.addon(entry.node(key).unwrap_or(node), name);
            }
            entry.finish();
        }
    }

    fn list(&mut self, fields: &Fields<'a>, key: &'static str, section: Section) {
        let name = fields.name(key);
        for (i, node) in fields.list(key).iter().enumerate() {
            let entry = self.reader.fields(node, format!("{name}[{i}]"));
            self.entry(&entry, node, section);
            entry.finish();
        }
    }

    fn entry(&mut self, entry: &Fields<'a>, node: &Node, section: Section) {
        let names = self.names(entry);
        let kind_node = entry.node("type");
        let kind = entry.required("type");
        let dst = self.dst(entry);
        let schedule = entry.parsed::<Schedule>("schedule", "prejoin, postjoin, precleanup or postcleanup");
        let timeout_key = entry.spelled(&["timeout", "TimeOut", "Timeout"]);
        let timeout = entry.text(timeout_key).map(|text| {
            values::duration(&text).unwrap_or_else(|| {
                let message =
                    format!("`{}` is `{text}`, expected a time such as 30s", entry.name(timeout_key));
                entry.node(timeout_key).into_iter().for_each(|node| self.reader.at(node, message.clone()));
                defaults::HOOK_TIMEOUT
            })
        });
        let Some(kind) = kind else { return };
        if kind != "shell" && (schedule.is_some() || timeout.is_some()) {
            let message = format!("`{}` has no use for a schedule or timeout", entry.name("type"));
            self.warnings.at(node, message);
        }
        let kind = match kind.to_ascii_lowercase().as_str() {
            "pkg" => ItemKind::Pkg,
            "repo" => ItemKind::Repo,
            "bin" | "binary" => ItemKind::Bin,
            "file" => ItemKind::File,
            "dir" => ItemKind::Dir,
            "image" => ItemKind::Image,
            "yaml" => return names.into_iter().for_each(|name| self.addon(node, name)),
            "shell" => return self.hook(entry, node, names, section.role(), schedule, timeout),
            _ => {
                let known = ["pkg", "repo", "bin", "file", "dir", "image", "yaml", "shell"];
                let message =
                    format!("`{}` is `{kind}`, expected one of {}", entry.name("type"), known.join(", "));
                let near = eggo_yaml::nearest(&kind, known).map(|near| format!("did you mean `{near}`?"));
                let at = kind_node.unwrap_or(node);
                return match near {
                    Some(hint) => self.reader.at_hinted(at, message, hint),
                    None => self.reader.at(at, message),
                };
            }
        };
        let placed = matches!(kind, ItemKind::Bin | ItemKind::File | ItemKind::Dir);
        if dst.is_some() && !placed {
            self.warnings.at(node, format!("`{}` is not used for this type", entry.name("dst")));
        }
        if kind != ItemKind::Image {
            for name in names.iter().filter(|name| !is_file_name(name)) {
                let message = format!("`{name}` is not the name of a package or file");
                self.reader.at_hinted(node, message, "write bare names, without folders, blanks or patterns");
            }
        }
        let dst = dst.filter(|_| placed);
        self.items.push(Item { section, kind, names, dst, line: node.line });
    }

    fn names(&self, entry: &Fields<'a>) -> Vec<String> {
        let Some(text) = entry.required("name") else { return Vec::new() };
        let names = values::names(&text).unwrap_or_default();
        if names.is_empty()
            && let Some(node) = entry.node("name")
        {
            self.reader.at(node, format!("`{}` is `{text}`, expected one or more names", entry.name("name")));
        }
        names
    }

    fn dst(&self, entry: &Fields<'a>) -> Option<String> {
        let key = entry.spelled(&["dst", "dstpath", "distpath"]);
        let text = entry.text(key).filter(|text| !text.is_empty())?;
        match dst::check(&text) {
            Ok(path) => Some(path),
            Err(error) => {
                let message = format!("`{}`: {error}", entry.name(key));
                entry.node(key).into_iter().for_each(|node| {
                    self.reader.at_hinted(node, message.clone(), error.hint());
                });
                None
            }
        }
    }

    fn addon(&mut self, node: &Node, name: String) {
        if name.contains("://") {
            let message = format!("addon `{name}` would be fetched from the network");
            self.reader.at_hinted(node, message, "put it into the bundle as an addon and name its file here");
        } else if !is_file_name(&name) {
            self.reader.at(node, format!("`{name}` is not the name of a file in the bundle"));
        } else if self.addons.iter().any(|addon| addon.name == name) {
            self.warnings.at(node, format!("addon `{name}` is named twice; it is applied once"));
        } else {
            self.addons.push(Addon { name, line: node.line });
        }
    }

    fn hook(
        &mut self,
        entry: &Fields<'a>,
        node: &Node,
        names: Vec<String>,
        role: Role,
        schedule: Option<Schedule>,
        timeout: Option<std::time::Duration>,
    ) {
        if entry.node("schedule").is_none() {
            entry.missing("schedule");
        }
        let Some(schedule) = schedule else { return };
        let timeout = timeout.unwrap_or(defaults::HOOK_TIMEOUT);
        for name in names {
            if is_file_name(&name) {
                self.hooks.push(Hook { name, role, schedule, timeout, line: node.line });
            } else {
                self.reader.at(node, format!("`{name}` is not the name of a script in the bundle"));
            }
        }
    }

    /// An empty list meant "from the internet" to eggo.
    fn refuse_online(&self, place: Option<&Node>, source: &Source, roles: &[Role]) {
        if source.bundle && self.items.is_empty() {
            return;
        }
        let needed = [
            (Role::Etcd, Section::Etcd),
            (Role::Master, Section::KubernetesMaster),
            (Role::Worker, Section::KubernetesWorker),
            (Role::Loadbalance, Section::Loadbalance),
        ];
        let empty: Vec<String> = needed
            .into_iter()
            .filter(|(role, _)| roles.contains(role))
            .filter(|(_, section)| !self.items.iter().any(|item| item.section == *section))
            .map(|(_, section)| format!("`{section}`"))
            .collect();
        if empty.is_empty() {
            return;
        }
        let message = if self.items.is_empty() {
            "no package lists: eggo took that as an install from the internet".to_string()
        } else {
            let verb = if empty.len() == 1 { "is" } else { "are" };
            format!("{} {verb} empty: eggo took that as an install from the internet", empty.join(", "))
        };
        let hint = "list what each role needs, or take all of a bundle by its roles: \
                    `install: {package-source: {type: bundle}}`";
        let (line, column) = place_of(place);
        self.reader.problem(eggo_yaml::Problem::new(line, column, message).hinted(hint));
    }
}

/// Every spelling of a role as a key.
pub(super) const ROLE_KEYS: [(&[&str], Role); 4] = [
    (&["master"], Role::Master),
    (&["worker", "node"], Role::Worker),
    (&["etcd"], Role::Etcd),
    (&["loadbalance"], Role::Loadbalance),
];

#[derive(Default)]
struct Source {
    given: bool,
    /// Everything from the bundle on the command line.
    bundle: bool,
    tarballs: BTreeMap<Arch, PathBuf>,
}

impl Source {
    fn read(fields: Fields<'_>, warnings: &Warnings) -> Self {
        let reader = fields.reader();
        let kind = fields.text("type").unwrap_or_else(|| "tar.gz".to_string());
        if !matches!(kind.as_str(), "tar.gz" | "bundle" | "") {
            let message = format!("`{}` is `{kind}`, expected `tar.gz` or `bundle`", fields.name("type"));
            fields.node("type").into_iter().for_each(|node| reader.at(node, message.clone()));
        }
        let key = fields.spelled(&["dstpath", "dst", "distpath"]);
        if let (Some(path), Some(node)) = (fields.text(key).filter(|path| !path.is_empty()), fields.node(key))
        {
            warnings.at(
                node,
                format!("`{}` (`{path}`) is not used: content goes to the node's store", fields.name(key)),
            );
        }
        let mut tarballs = BTreeMap::new();
        let mut tarball = |arch: Arch, path: String, node: &Node| {
            if path.is_empty() {
                return;
            }
            if !Path::new(&path).is_absolute() && !path.starts_with("~/") {
                reader.at(node, format!("`{path}` is not an absolute path"));
            }
            if tarballs.insert(arch, PathBuf::from(path)).is_some() {
                reader.at(node, format!("a second tarball for {arch}"));
            }
        };
        for (key, arch) in [("armsrc", Arch::Arm64), ("x86src", Arch::Amd64)] {
            if let (Some(path), Some(node)) = (fields.text(key), fields.node(key)) {
                tarball(arch, path, node);
            }
        }
        if let Some(paths) = fields.fields("srcpath") {
            for entry in paths.entries() {
                let Some(path) = reader.text(&entry.node, &paths.name(&entry.key)) else { continue };
                match entry.key.parse() {
                    Ok(arch) => tarball(arch, path, &entry.node),
                    Err(error) => reader.at(&entry.node, format!("`{}`: {error}", paths.name(&entry.key))),
                }
            }
        }
        fields.finish();
        Self { given: true, bundle: kind == "bundle", tarballs }
    }
}

/// One path component without patterns or blanks.
fn is_file_name(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '~' | ':' | '@' | '=');
    !name.is_empty() && name.chars().all(plain) && !matches!(name, "." | "..") && !name.starts_with('-')
}
