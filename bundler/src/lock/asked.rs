//! What a manifest asks for, a line for each thing: equal lines, equal wishes.

use crate::http::recorded;
use crate::manifest::{AddonImages, AddonRequest, Baseline, Checksums, FileRequest, From};
use crate::manifest::{ImageRequest, Manifest, Repo, RepoSource};
use eggo_bundles::{Arch, Digest, Role};

/// Sorted lines. Where to find the bytes of an image (mirrors) does not change what is locked.
pub fn asked(manifest: &Manifest) -> Vec<String> {
    let mut lines = vec![format!("name {}", manifest.name), format!("version {}", manifest.version)];
    if !manifest.packages.is_empty() {
        lines.extend(baseline(manifest));
        lines.push(format!("recommends {}", manifest.recommends));
        if !manifest.best {
            lines.push("best false".to_string());
        }
        lines.extend(manifest.repos.iter().map(|one| repo(manifest, one)));
        lines.extend(
            manifest.packages.iter().map(|request| format!("package {request} for {}", request.role)),
        );
    }
    lines.extend(manifest.files.iter().flat_map(file));
    lines.extend(manifest.images.iter().map(image));
    lines.extend(manifest.addons.iter().map(addon));
    lines.sort();
    lines.dedup();
    lines
}

/// A file that was captured is asked for with what is in it, for each arch that has one.
fn baseline(manifest: &Manifest) -> Vec<String> {
    let template = match &manifest.baseline {
        Baseline::Minimal => return vec!["baseline minimal".to_string()],
        Baseline::None => return vec!["baseline none".to_string()],
        Baseline::File(template) => template,
    };
    let files = manifest.archs.iter().map(|arch| template.expand(&manifest.name, &manifest.version, *arch));
    let mut lines: Vec<String> =
        files.filter_map(|file| Some(format!("baseline {file}{}", content(manifest, &file)?))).collect();
    if lines.is_empty() {
        lines.push(format!("baseline {template}"));
    }
    lines
}

/// What a file beside the manifest says now; `None` if nobody can tell.
fn content(manifest: &Manifest, file: &str) -> Option<String> {
    let bytes = std::fs::read(manifest.resolve(file)).ok()?;
    Some(format!(" sha256 {}", Digest::of(&bytes)))
}

fn repo(manifest: &Manifest, repo: &Repo) -> String {
    let mut line = format!("repo {}", repo.name);
    let mut say = |word: &str, values: &[String]| {
        if !values.is_empty() {
            let values: Vec<String> = values.iter().map(|value| recorded(value)).collect();
            line.push_str(&format!(" {word} {}", values.join(" ")));
        }
    };
    match &repo.source {
        RepoSource::DebSystem => say("deb", &["from system".to_string()]),
        RepoSource::Deb { urls, suites, components } => {
            say("deb", urls);
            say("suites", suites);
            say("components", components);
        }
        RepoSource::Rpm { urls, mirrorlist, metalink, releasever, modules } => {
            say("rpm", urls);
            say("mirrorlist", mirrorlist.as_slice());
            say("metalink", metalink.as_slice());
            say("releasever", releasever.as_slice());
            say("modules", modules);
        }
        RepoSource::RpmFile { file, releasever, modules } => {
            let now = content(manifest, file).unwrap_or_default();
            say("rpm file", &[format!("{file}{now}")]);
            say("releasever", releasever.as_slice());
            say("modules", modules);
        }
    }
    say("keys", &repo.keys);
    say("exclude", &repo.exclude);
    say("archs", &repo.archs.iter().map(ToString::to_string).collect::<Vec<_>>());
    if repo.allow_unsigned {
        line.push_str(" unsigned");
    }
    if let Some(check) = repo.repo_gpgcheck {
        line.push_str(&format!(" repo-gpgcheck {check}"));
    }
    if !repo.check_valid_until {
        line.push_str(" check-valid-until false");
    }
    line
}

/// A line for each arch: where it comes from and where it goes.
fn file(file: &FileRequest) -> Vec<String> {
    let expand =
        |template: &crate::manifest::Template, arch| template.expand(&file.name, &file.version, arch);
    let one = |arch| {
        let from = match &file.from {
            From::Urls(urls) => joined(urls.iter().map(|url| expand(url, arch))),
            From::Path(path) => expand(path, arch),
        };
        let mut line = format!("{} {} {} for {arch} from {from}", file.kind, file.name, file.version);
        if let Some(member) = &file.member {
            line.push_str(&format!(" member {}", expand(member, arch)));
        }
        if let Some(dst) = &file.dst {
            line.push_str(&format!(" to {dst}"));
        }
        if let Some(mode) = file.mode {
            line.push_str(&format!(" mode {mode:o}"));
        }
        line.push_str(&roles(&file.roles));
        if let (Checksums::Same(_) | Checksums::PerArch(_), Some(sha256)) =
            (&file.checksums, file.checksums.get(arch))
        {
            line.push_str(&format!(" sha256 {sha256}"));
        }
        line
    };
    file.archs.iter().map(|arch| one(*arch)).collect()
}

fn image(image: &ImageRequest) -> String {
    let from = image.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
    format!("image {}{from}{}{}", image.name, roles(&image.roles), archs(&image.archs))
}

fn addon(addon: &AddonRequest) -> String {
    let from = match &addon.from {
        From::Urls(urls) => joined(urls.iter().map(ToString::to_string)),
        From::Path(path) => path.to_string(),
    };
    let images = match &addon.images {
        AddonImages::Discover => "discover".to_string(),
        AddonImages::DiscoverAll => "all".to_string(),
        AddonImages::Also(list) => format!("discover {}", list.join(" ")),
        AddonImages::None => "none".to_string(),
    };
    let checksum = addon.checksum.map(|sha256| format!(" sha256 {sha256}")).unwrap_or_default();
    let exclude = match addon.exclude.is_empty() {
        true => String::new(),
        false => format!(" exclude {}", addon.exclude.join(" ")),
    };
    format!("addon {} from {from} images {images}{exclude}{checksum}", addon.name)
}

fn joined(urls: impl Iterator<Item = String>) -> String {
    urls.map(|url| recorded(&url)).collect::<Vec<_>>().join(" ")
}

fn archs(archs: &[Arch]) -> String {
    if archs.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = archs.iter().map(|arch| arch.as_str()).collect();
    format!(" archs {}", names.join(","))
}

fn roles(roles: &[Role]) -> String {
    if roles.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
    format!(" roles {}", names.join(","))
}
