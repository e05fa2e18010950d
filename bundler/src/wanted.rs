//! Which images are wanted: those the manifest names, and those its addons need.
//!
//! Fetches the addons' files, because only they can tell.

use crate::addons::{self, Discovery, Mention};
use crate::error::Error;
use crate::http::{self, Download};
use crate::images::{Reference, Registries, Wanted};
use crate::lock::{LockedAddon, LockedImage};
use crate::manifest::{AddonImages, AddonRequest, From, Manifest};
use crate::{Tools, files, images};
use eggo_bundles::{Arch, Digest, Role};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// An addon is text that people can read.
const MAX_ADDON: u64 = 8 << 20;

/// How the manifest says that registries are reached, with the user's own credentials.
pub fn registries(manifest: &Manifest) -> Registries {
    let mut registries = Registries { credentials: images::Credentials::of_user(), ..Registries::default() };
    for registry in &manifest.registries {
        if registry.plain_http {
            registries.insecure.insert(registry.name.clone());
        }
        if !registry.mirrors.is_empty() {
            registries.mirrors.insert(registry.name.clone(), registry.mirrors.clone());
        }
    }
    registries
}

/// The images that the manifest itself names.
pub fn named(manifest: &Manifest, archs: &[Arch]) -> Result<Vec<Wanted>, Error> {
    let wanted = manifest.images.iter().map(|request| {
        let reference = request
            .name
            .parse::<Reference>()
            .map_err(|source| Error::Image { source, place: manifest.place(request.line) })?;
        let from = request.from.iter().flat_map(|template| {
            archs.iter().map(|arch| (*arch, template.expand(&request.name, &manifest.version, *arch)))
        });
        let mut wanted = Wanted::new(reference, request.roles.clone(), "manifest".to_string());
        wanted.from = from.collect();
        if !request.archs.is_empty() {
            wanted.archs = request.archs.clone();
        }
        Ok(wanted)
    });
    wanted.collect()
}

/// An image that the manifest names is for the archs that it says, whoever else wants it.
pub fn limit(wanted: &mut [Wanted], named: &[Wanted]) {
    for one in wanted {
        if let Some(named) = named.iter().find(|named| named.reference == one.reference) {
            one.archs = named.archs.clone();
        }
    }
}

/// Records for each addon which of its images were locked. A guess for which there is no image stays a possible one.
pub fn settle(addons: &mut [LockedAddon], wanted: &[Wanted], locked: &[LockedImage]) {
    let locked: BTreeSet<&str> = locked.iter().map(|image| image.name.as_str()).collect();
    for addon in addons {
        let by = required_by(&addon.name);
        let guessed = wanted.iter().filter(|one| one.required_by.contains(&by));
        let wrong = guessed.filter(|one| !locked.contains(one.reference.to_string().as_str()));
        addon
            .possible
            .extend(wrong.filter_map(|one| Some(format!("{} ({})", one.reference, one.guess.as_ref()?))));
        addon.images.retain(|image| locked.contains(image.as_str()));
    }
}

fn required_by(addon: &str) -> String {
    format!("addon {addon}")
}

/// Fetches every addon, and finds the images it needs.
pub async fn addons(manifest: &Manifest, tools: Tools<'_>) -> Result<(Vec<LockedAddon>, Vec<Wanted>), Error> {
    let (mut locked, mut wanted) = (Vec::new(), Vec::new());
    for request in &manifest.addons {
        let asked = |error: Error| Error::Asked {
            inner: Box::new(error),
            what: format!("addon `{}`", request.name),
            place: manifest.place(request.line),
        };
        let (addon, images) = one_addon(manifest, request, tools).await.map_err(asked)?;
        wanted.extend(images);
        locked.push(addon);
    }
    Ok((locked, wanted))
}

/// Adds who wants the image that `error` is about.
pub fn asked(manifest: &Manifest, wanted: &[Wanted], error: images::Error) -> Error {
    let Some(image) = error.image().map(str::to_string) else { return error.into() };
    let same = |reference: &Reference| reference.to_string() == image;
    let named = manifest.images.iter().filter(|request| request.name.parse().is_ok_and(|name| same(&name)));
    let mut places: Vec<String> = named.map(|request| manifest.place(request.line)).collect();
    for one in wanted.iter().filter(|one| same(&one.reference)) {
        places.extend(one.required_by.iter().filter(|by| *by != "manifest").cloned());
    }
    match places.is_empty() {
        true => error.into(),
        false => Error::Asked {
            inner: Box::new(error.into()),
            what: format!("image `{image}`"),
            place: places.join(", "),
        },
    }
}

async fn one_addon(
    manifest: &Manifest,
    request: &AddonRequest,
    tools: Tools<'_>,
) -> Result<(LockedAddon, Vec<Wanted>), Error> {
    let (bytes, url, path) = addon_bytes(manifest, request, request.checksum, tools).await?;
    let shown = path.clone().or_else(|| url.clone()).unwrap_or_default();
    let mut discovery = addons::discover(&shown, &bytes)?;
    let note = |line: String| tools.progress.note(&line);
    for pattern in discovery.exclude(&request.exclude) {
        note(format!("warning: addon `{}` excludes `{pattern}`, which is none of its images", request.name));
    }
    let Discovery { images, possible, foreign, unfilled } = discovery;
    for field in &unfilled {
        note(format!(
            "note: {shown}:{}: `{}` is not an image yet; nothing is bundled for it",
            field.line, field.text
        ));
    }
    let place = |mention: &Mention| format!("{shown}:{}, {}", mention.line, mention.place);
    let shown_mention = |mention: &Mention| format!("{} ({})", mention.reference, place(mention));
    let is_of_pods = request.images != AddonImages::None;
    for mention in foreign.iter().filter(|_| is_of_pods) {
        note(format!(
            "note: not bundled, since its pods run on other machines only: {}",
            shown_mention(mention)
        ));
    }
    // Addons run where the scheduler puts them: on masters and workers.
    let new =
        |reference| Wanted::new(reference, vec![Role::Master, Role::Worker], required_by(&request.name));
    let from_pod =
        |mention: &Mention| Wanted { archs: mention.archs.clone(), ..new(mention.reference.clone()) };
    let mut wanted: Vec<Wanted> = images.iter().filter(|_| is_of_pods).map(from_pod).collect();
    let mut kept_possible: Vec<&Mention> = Vec::new();
    match &request.images {
        AddonImages::None => {}
        AddonImages::DiscoverAll => wanted.extend(
            possible.iter().map(|mention| Wanted { guess: Some(place(mention)), ..from_pod(mention) }),
        ),
        AddonImages::Discover => kept_possible.extend(&possible),
        AddonImages::Also(more) => {
            for text in more {
                let parsed = text.parse::<Reference>();
                let place = manifest.place(request.line);
                wanted.push(new(parsed.map_err(|source| Error::Image { source, place })?));
            }
            let is_wanted = |mention: &&Mention| wanted.iter().any(|one| one.reference == mention.reference);
            kept_possible.extend(possible.iter().filter(|mention| !is_wanted(mention)));
        }
    }
    for mention in &kept_possible {
        note(format!("possible, not bundled: {}", shown_mention(mention)));
    }
    if !kept_possible.is_empty() {
        note(format!("  `images: all` in addon `{}` bundles them too, a list bundles some", request.name));
    }
    let mut images: Vec<String> = wanted.iter().map(|one| one.reference.to_string()).collect();
    images.sort();
    images.dedup();
    let addon = LockedAddon {
        name: request.name.clone(),
        url,
        path,
        sha256: Digest::of(&bytes),
        size: bytes.len() as u64,
        images,
        possible: kept_possible.into_iter().map(shown_mention).collect(),
    };
    Ok((addon, wanted))
}

/// Brings a locked addon back into the cache, exactly as it was.
pub async fn fetch_addon(manifest: &Manifest, locked: &LockedAddon, tools: Tools<'_>) -> Result<(), Error> {
    if tools.cache.contains(&locked.sha256, locked.size) && locked.path.is_none() {
        return Ok(());
    }
    let request = manifest.addons.iter().find(|request| request.name == locked.name);
    let Some(request) = request else { return Ok(()) };
    let (bytes, ..) = addon_bytes(manifest, request, Some(locked.sha256), tools).await?;
    if Digest::of(&bytes) != locked.sha256 {
        let from = locked.path.clone().or_else(|| locked.url.clone()).unwrap_or_default();
        return Err(Error::AddonChanged { name: locked.name.clone(), from });
    }
    Ok(())
}

/// A file of text, which is as long as an addon may be.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let invalid = |why: String| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    if !std::fs::metadata(path)?.is_file() {
        return invalid("it is not a file".to_string());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_ADDON + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_ADDON {
        true => invalid(format!("it is larger than {MAX_ADDON} bytes")),
        false => Ok(bytes),
    }
}

/// The file, which is then in the cache too; and its url or path.
async fn addon_bytes(
    manifest: &Manifest,
    request: &AddonRequest,
    expected: Option<Digest>,
    tools: Tools<'_>,
) -> Result<(Vec<u8>, Option<String>, Option<String>), Error> {
    let expand = |template: &crate::manifest::Template| {
        // An addon is the same for every arch.
        template.expand(&request.name, &manifest.version, manifest.archs[0])
    };
    match &request.from {
        From::Path(template) => {
            let text = expand(template);
            let unreadable = |source| Error::ReadAddon { path: manifest.resolve(&text), source };
            let path = manifest.local(&text).map_err(unreadable)?;
            let bytes = read(&path).map_err(unreadable)?;
            let found = Digest::of(&bytes);
            if let Some(expected) = request.checksum.filter(|expected| *expected != found) {
                return Err(files::Error::WrongDigest { path, expected, found }.into());
            }
            tools.cache.store_bytes(&bytes)?;
            Ok((bytes, None, Some(text)))
        }
        From::Urls(templates) => {
            let texts: Vec<String> = templates.iter().map(expand).collect();
            let urls = texts.iter().map(|text| http::url(text)).collect::<Result<Vec<_>, _>>()?;
            let download =
                Download::new(request.name.clone(), urls).expect(expected, None).at_most(MAX_ADDON);
            let downloaded = tools.http.download(&download, tools.cache, tools.progress).await?;
            let bytes = tools.cache.read(&downloaded.sha256, MAX_ADDON)?.unwrap_or_default();
            Ok((bytes, texts.first().map(|text| http::recorded(text)), None))
        }
    }
}
