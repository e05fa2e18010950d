//! Which items a node needs.

use super::catalogue::Catalogue;
use super::error::{Lacks, PlanError};
use super::{Known, PackageFormat, Wanted, reference};
use crate::config::{self, Choice, Config, DnsKind, Host, ItemKind};
use eggo_bundles::{Arch, Image, Item, Kind, Role, dst};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Where a binary goes when neither deploy.yaml nor the bundle says.
const BINARIES: &str = "/usr/bin";

#[derive(Debug, Default)]
pub(super) struct Picked {
    pub items: Vec<Wanted>,
    pub images: Vec<Arc<Image>>,
    pub repo_packages: Vec<String>,
}

pub(super) fn pick(
    config: &Config,
    host: &Host,
    catalogue: &Catalogue,
    known: &Known<'_>,
    lacks: &mut Lacks,
) -> Result<Picked, PlanError> {
    let mut picker = Picker {
        host,
        catalogue,
        format: known.packages,
        lacks,
        items: BTreeMap::new(),
        images: BTreeMap::new(),
        repo_packages: Vec::new(),
    };
    match config.content.choice {
        Choice::ByRole => picker.by_role()?,
        Choice::Listed => picker.listed(config)?,
    }
    picker.close_packages()?;
    if host.has(Role::Worker) {
        picker.runtime_images(config);
    } else {
        // Only workers have a container runtime that could hold them.
        picker.images.clear();
        picker.items.retain(|_, wanted| wanted.item.kind != Kind::Image);
    }
    picker.hooks(config)?;
    if config.first_master() == Some(host) {
        picker.addons(config);
    }
    picker.blobs()?;
    Ok(Picked {
        items: picker.items.into_values().collect(),
        images: picker.images.into_values().collect(),
        repo_packages: picker.repo_packages,
    })
}

/// The manifests to apply, in order: those that deploy.yaml names, else, when everything comes
/// by role, all of the bundle.
pub(super) fn addons(config: &Config, arch: Arch, catalogue: &Catalogue) -> Vec<Wanted> {
    let wanted = |item: &Arc<Item>| Wanted { item: item.clone(), dst: item.dst.clone() };
    if config.addons.is_empty() && config.content.choice == Choice::ByRole {
        let all = catalogue.items.iter().filter(|item| item.arch == arch && item.kind == Kind::Addon);
        return all.map(wanted).collect();
    }
    config.addons.iter().filter_map(|addon| find_addon(catalogue, arch, &addon.name)).map(wanted).collect()
}

/// eggo kept manifests among the files.
fn find_addon<'a>(catalogue: &'a Catalogue, arch: Arch, name: &str) -> Option<&'a Arc<Item>> {
    [Kind::Addon, Kind::File].into_iter().find_map(|kind| catalogue.find(arch, kind, name).next())
}

struct Picker<'a> {
    host: &'a Host,
    catalogue: &'a Catalogue,
    format: Option<PackageFormat>,
    lacks: &'a mut Lacks,
    /// By path and destination.
    items: BTreeMap<(String, Option<String>), Wanted>,
    images: BTreeMap<String, Arc<Image>>,
    repo_packages: Vec<String>,
}

impl<'a> Picker<'a> {
    fn by_role(&mut self) -> Result<(), PlanError> {
        let catalogue = self.catalogue;
        for item in catalogue.items.iter().filter(|item| item.arch == self.host.arch) {
            let by_kind = matches!(item.kind, Kind::Pkg | Kind::Bin | Kind::File | Kind::Dir);
            if by_kind && self.plays(&item.roles) {
                self.take(item, None)?;
            }
        }
        for image in catalogue.images.iter().filter(|image| image.arch == self.host.arch) {
            if image.roles.is_empty() || self.plays(&image.roles) {
                self.images.insert(image.name.clone(), image.clone());
            }
        }
        Ok(())
    }

    fn plays(&self, roles: &[Role]) -> bool {
        roles.iter().any(|role| self.host.has(*role))
    }

    fn listed(&mut self, config: &Config) -> Result<(), PlanError> {
        let mine = config.content.items.iter().filter(|item| self.host.has(item.section.role()));
        for wanted in mine.collect::<Vec<_>>() {
            for name in &wanted.names {
                match wanted.kind {
                    ItemKind::Repo => self.repo_packages.push(name.clone()),
                    ItemKind::Image => self.image(wanted, name)?,
                    kind => self.named(wanted, kind, name)?,
                }
            }
        }
        if !config.addons.is_empty() && self.host.has(Role::Worker) {
            // A manifest's pods may run on any worker, and nobody lists their images by hand.
            let (arch, catalogue) = (self.host.arch, self.catalogue);
            let free = catalogue.images.iter().filter(|image| image.arch == arch && image.roles.is_empty());
            self.images.extend(free.map(|image| (image.name.clone(), image.clone())));
        }
        Ok(())
    }

    fn named(&mut self, wanted: &config::Item, kind: ItemKind, name: &str) -> Result<(), PlanError> {
        let Some(kind) = kind.kind() else { return Ok(()) };
        let (arch, catalogue) = (self.host.arch, self.catalogue);
        let found: Vec<_> = catalogue.find(arch, kind, name).filter(|item| self.installable(item)).collect();
        if found.is_empty() && !(kind == Kind::Pkg && catalogue.assumes(arch, name)) {
            let asked_by = format!("{} (line {})", wanted.section, wanted.line);
            self.lacks.add(kind.as_str(), name, asked_by, self.host, self.instead(kind, name));
        }
        for item in found {
            self.take(item, wanted.dst.as_deref())?;
        }
        Ok(())
    }

    /// An image by its reference, or an archive by its file's name. The archives of eggo's
    /// tarballs are not in a bundle: `images.tar` then stands for all of its images, and
    /// `pause.tar` for those called `pause`.
    fn image(&mut self, wanted: &config::Item, name: &str) -> Result<(), PlanError> {
        let (arch, catalogue) = (self.host.arch, self.catalogue);
        let archives: Vec<_> = catalogue.find(arch, Kind::Image, name).collect();
        if let Some(image) = catalogue.image(arch, name) {
            self.images.insert(image.name.clone(), image.clone());
        } else if !archives.is_empty() && !catalogue.images_are_listed() {
            for item in archives {
                self.take(item, None)?;
            }
        } else {
            let all = catalogue.images.iter().filter(|image| image.arch == arch);
            let all: Vec<_> =
                all.filter(|image| image.roles.is_empty() || self.plays(&image.roles)).collect();
            let stem = reference::archive_stem(name);
            let called = |image: &&&Arc<Image>| Some(reference::last_word(&image.name)) == stem;
            let some: Vec<_> = all.iter().filter(called).copied().collect();
            let chosen = if some.is_empty() && stem.is_some() { all } else { some };
            if chosen.is_empty() {
                let asked_by = format!("{} (line {})", wanted.section, wanted.line);
                self.lacks.add("image", name, asked_by, self.host, None);
            }
            self.images.extend(chosen.into_iter().map(|image| (image.name.clone(), image.clone())));
        }
        Ok(())
    }

    /// The pause image, and coredns where it runs as a pod.
    fn runtime_images(&mut self, config: &Config) {
        if !self.catalogue.images_are_listed() {
            return;
        }
        let pause = &config.runtime.pause_image;
        self.image_called(pause, "pause-image", |image| {
            reference::full(&image.name) == reference::full(pause)
        });
        if let DnsKind::Pod { image_version, .. } = &config.dns.kind {
            let version = image_version.trim_start_matches('v');
            self.image_called(&format!("coredns:{version}"), "service.dns", |image| {
                let tag = reference::tag(&image.name).map(|tag| tag.trim_start_matches('v'));
                reference::last_word(&image.name) == "coredns" && tag == Some(version)
            });
        }
    }

    fn image_called(&mut self, name: &str, asked_by: &str, is_it: impl Fn(&Image) -> bool) {
        let (arch, catalogue) = (self.host.arch, self.catalogue);
        if let Some(image) = catalogue.images.iter().find(|image| image.arch == arch && is_it(image)) {
            self.images.insert(image.name.clone(), image.clone());
            return;
        }
        let word = reference::last_word(name);
        let same = |image: &&Arc<Image>| reference::last_word(&image.name) == word;
        let found =
            catalogue.images.iter().filter(same).map(|image| format!("`{}` for {}", image.name, image.arch));
        let found = found.collect::<Vec<_>>().join(", ");
        let found = (!found.is_empty()).then_some(found);
        self.lacks.add("image", name, asked_by.to_string(), self.host, found);
    }

    fn hooks(&mut self, config: &Config) -> Result<(), PlanError> {
        for hook in config.hooks.iter().filter(|hook| self.host.has(hook.role)) {
            let (arch, catalogue) = (self.host.arch, self.catalogue);
            let rooms = [Kind::File, Kind::Bin];
            match rooms.into_iter().find_map(|kind| catalogue.find(arch, kind, &hook.name).next()) {
                Some(item) => {
                    // It runs from the store; nothing of it is put anywhere.
                    let key = (item.path.clone(), None);
                    self.items.insert(key, Wanted { item: item.clone(), dst: None });
                }
                None => {
                    let asked_by = format!("install.addition.{} (line {})", hook.role, hook.line);
                    self.lacks.add("shell", &hook.name, asked_by, self.host, None);
                }
            }
        }
        Ok(())
    }

    fn addons(&mut self, config: &Config) {
        for addon in &config.addons {
            if find_addon(self.catalogue, self.host.arch, &addon.name).is_none() {
                let asked_by = format!("addons (line {})", addon.line);
                let found = self.instead(Kind::Addon, &addon.name);
                self.lacks.add("addon", &addon.name, asked_by, self.host, found);
            }
        }
        for wanted in addons(config, self.host.arch, self.catalogue) {
            self.items.insert((wanted.item.path.clone(), None), Wanted { dst: None, ..wanted });
        }
    }

    /// The bundled packages that the picked ones need themselves.
    fn close_packages(&mut self) -> Result<(), PlanError> {
        let packages = self.items.values().filter(|wanted| wanted.item.kind == Kind::Pkg);
        let mut open: Vec<Arc<Item>> = packages.map(|wanted| wanted.item.clone()).collect();
        let mut seen: HashSet<String> = open.iter().map(|item| item.path.clone()).collect();
        while let Some(item) = open.pop() {
            let format = PackageFormat::of(&item);
            for name in &item.requires {
                for needed in self.catalogue.find(item.arch, Kind::Pkg, name) {
                    if PackageFormat::of(needed) == format && seen.insert(needed.path.clone()) {
                        open.push(needed.clone());
                        self.take(&needed.clone(), None)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn blobs(&mut self) -> Result<(), PlanError> {
        for image in self.images.clone().values() {
            for item in self.catalogue.blobs(image) {
                self.take(item, None)?;
            }
        }
        Ok(())
    }

    fn installable(&self, item: &Item) -> bool {
        item.kind != Kind::Pkg || self.format.is_none_or(|format| PackageFormat::of(item) == Some(format))
    }

    fn take(&mut self, item: &Arc<Item>, given: Option<&str>) -> Result<(), PlanError> {
        if !self.installable(item) {
            return Ok(());
        }
        // deploy.yaml says where a whole folder goes, which keeps its name there; the index, where each of its files goes.
        let kept = given.filter(|_| item.kind == Kind::Dir).map(|folder| match within_room(item) {
            Some((folders, _)) => format!("{folder}/{folders}"),
            None => folder.to_string(),
        });
        let dst = match (item.kind, kept.as_deref().or(given).or(item.dst.as_deref())) {
            (Kind::Pkg | Kind::Image | Kind::Addon, _) => None,
            (Kind::Bin, None) => Some(BINARIES.to_string()),
            (_, None) => return Err(PlanError::NoDst(item.name.clone())),
            (_, Some(path)) => {
                let check = dst::check(path);
                Some(check.map_err(|error| PlanError::Dst { name: item.name.clone(), error })?)
            }
        };
        let key = (item.path.clone(), dst.clone());
        self.items.insert(key, Wanted { item: item.clone(), dst });
        Ok(())
    }

    /// The same name in another room or for another arch.
    fn instead(&self, kind: Kind, name: &str) -> Option<String> {
        let arch = self.host.arch;
        let other_kind =
            Kind::ALL.into_iter().find(|other| *other != kind && self.catalogue.has(arch, *other, name));
        if let Some(other) = other_kind {
            return Some(format!("it as `{other}`"));
        }
        let other =
            Arch::ALL.into_iter().find(|other| *other != arch && self.catalogue.has(*other, kind, name))?;
        Some(format!("it for {other}"))
    }
}

/// Folders and name of an item's file, below the room of its kind.
fn within_room(item: &Item) -> Option<(&str, &str)> {
    let inside = item.path.split_once('/')?.1.strip_prefix(item.kind.room())?.strip_prefix('/')?;
    inside.rsplit_once('/')
}
