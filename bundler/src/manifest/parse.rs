//! Text → [`Manifest`], with the line of everything that is wrong.

mod packages;

use super::keys::KEYS;
use super::*;
use crate::http::recorded;
use eggo_bundles::{dst, rules};
use eggo_yaml::{Fields, Node, Problems, Reader};

pub(super) fn parse(file: &Path, bytes: &[u8]) -> Result<Manifest, Problems> {
    let shown = file.display().to_string();
    let root = eggo_yaml::parse(&shown, bytes)?;
    let reader = Reader::new(shown, KEYS);
    let fields = reader.fields(&root, "");
    let name = fields.node("name").map_or_else(String::new, |node| safe_name(&reader, node, "name"));
    if name.is_empty() {
        fields.missing("name");
    }
    if let Some(node) = fields.node("name").filter(|_| is_safe_name(&name) && !rules::is_word(&name)) {
        let message = format!("`name` is `{name}`, which cannot be a bundle's name");
        reader.at_hinted(node, message, WORD);
    }
    let version = fields.required("version");
    if let (Some(node), Some(version)) = (fields.node("version"), &version)
        && !rules::is_word(version)
    {
        let message =
            format!("`version` is `{}`, which cannot be a bundle's version", version.escape_debug());
        reader.at_hinted(node, message, WORD);
    }
    let version = version.unwrap_or_default();
    let archs = match fields.node("archs") {
        Some(_) => archs(&fields),
        None => Arch::ALL.to_vec(),
    };
    let context = Context { reader: &reader, version: &version, archs: &archs };

    let repos = each(&fields, "repos", |fields, node| context.repo(fields, node));
    let baseline = context.baseline(&fields);
    let recommends = fields.boolean("recommends").unwrap_or(false);
    let best = fields.boolean("best").unwrap_or(true);
    let packages = context.packages(&fields);
    let listed = fields.node("packages").unwrap_or(&root);
    let mut files = each(&fields, "binaries", |fields, node| context.file(fields, node, Kind::Bin));
    files.extend(each(&fields, "files", |fields, node| context.file(fields, node, Kind::File)));
    files.extend(each(&fields, "dirs", |fields, node| context.file(fields, node, Kind::Dir)));
    let registries = each(&fields, "registries", |fields, node| context.registry(fields, node));
    let images = context.images(&fields);
    let addons = each(&fields, "addons", |fields, node| context.addon(fields, node));
    fields.finish();

    unique(&reader, repos.iter().map(|repo| (format!("repo `{}`", repo.name), repo.line)));
    unique(&reader, addons.iter().map(|addon| (format!("addon `{}`", addon.name), addon.line)));
    let file_names = files.iter().flat_map(|file| {
        let archs = file.archs.iter();
        archs.map(move |arch| (format!("{} `{}` for {arch}", file.kind, file.name), file.line))
    });
    unique(&reader, file_names);
    if !packages.is_empty() && repos.is_empty() {
        reader.at_hinted(
            listed,
            "`packages` needs `repos` to take them from",
            "add `repos: [{name: debian, type: deb, from: system}]`",
        );
    }

    let file = file.to_path_buf();
    reader.finish(Manifest {
        file,
        name,
        version,
        archs,
        repos,
        baseline,
        recommends,
        best,
        packages,
        files,
        registries,
        images,
        addons,
    })
}

/// What [`rules::is_word`] allows.
const WORD: &str =
    "use up to 128 letters, digits, `.`, `-`, `_`, `+`, `~`, `:`, not starting with `.` or `-`";

struct Context<'a> {
    reader: &'a Reader,
    version: &'a str,
    archs: &'a [Arch],
}

impl Context<'_> {
    /// Where `key` stands, none of the `others` may.
    fn exclude(&self, fields: &Fields<'_>, key: &str, others: &[&'static str]) {
        for (other, node) in others.iter().filter_map(|other| Some((other, fields.node(other)?))) {
            self.reader.at(node, format!("`{}` and `{key}` exclude each other", fields.name(other)));
        }
    }

    fn file(&self, fields: &Fields<'_>, node: &Node, kind: Kind) -> Option<FileRequest> {
        let from = self.from(fields);
        let member = fields.node("member").and_then(|node| {
            let text = self.reader.text(node, "member")?;
            self.template(node, &text)
        });
        let name = match fields.node("name") {
            Some(_) => self.name(fields, "name"),
            None if kind != Kind::Bin => from.as_ref().and_then(|from| self.name_from(node, from, &member)),
            None => {
                fields.missing("name");
                None
            }
        };
        let roles = self.roles(fields);
        let dst = fields.node("dst").and_then(|node| {
            let text = self.reader.text(node, "dst")?;
            let checked = dst::check(&text);
            if let Err(error) = &checked {
                self.reader.at_hinted(node, error.to_string(), error.hint());
            }
            checked.ok()
        });
        if fields.node("dst").is_none() {
            fields.missing("dst");
        }
        let mode = fields.node("mode").and_then(|node| self.mode(node));
        let version = fields.text("version").unwrap_or_else(|| self.version.to_string());
        let archs = if fields.node("archs").is_some() { archs(fields) } else { self.archs.to_vec() };
        let checksums = self.checksums(fields);
        if let (Some(From::Urls(urls)), Checksums::Same(_)) = (&from, &checksums)
            && urls.iter().any(Template::depends_on_arch)
            && let Some(node) = fields.node("sha256")
        {
            self.reader.at_hinted(
                node,
                "one `sha256` cannot be right for a url that differs per arch",
                "write `sha256: {amd64: …, arm64: …}`",
            );
        }
        Some(FileRequest {
            kind,
            name: name?,
            version,
            line: node.line,
            archs,
            roles,
            dst,
            mode,
            from: from?,
            member,
            checksums,
        })
    }

    fn registry(&self, fields: &Fields<'_>, node: &Node) -> Option<Registry> {
        let name = fields.required("name");
        let mirrors = fields.texts("mirrors");
        let plain_http = fields.boolean("plain-http").unwrap_or(false);
        let tls = self.tls(fields);
        Some(Registry { name: name?, line: node.line, mirrors, plain_http, tls })
    }

    fn tls(&self, fields: &Fields<'_>) -> Tls {
        let [ca, certificate, key] = ["ca", "client-cert", "client-key"].map(|name| fields.text(name));
        let insecure = fields.boolean("insecure-skip-verify").unwrap_or(false);
        if certificate.is_some() != key.is_some() {
            fields.missing(if key.is_some() { "client-cert" } else { "client-key" });
        }
        Tls { ca, client: certificate.zip(key), insecure }
    }

    /// `name`, or a mapping with more to say.
    fn images(&self, fields: &Fields<'_>) -> Vec<ImageRequest> {
        let image = |node: &Node| {
            if let Some(name) = node.as_str() {
                let name = name.to_string();
                let (roles, archs) = (Vec::new(), Vec::new());
                return Some(ImageRequest { name, line: node.line, roles, archs, from: None });
            }
            let fields = self.reader.fields(node, "images");
            let name = fields.required("name");
            let roles = self.roles(&fields);
            let archs = archs(&fields);
            let from = fields.node("from").and_then(|node| {
                let text = self.reader.text(node, "from")?;
                self.template(node, &text)
            });
            fields.finish();
            Some(ImageRequest { name: name?, line: node.line, roles, archs, from })
        };
        fields.list("images").iter().filter_map(image).collect()
    }

    fn addon(&self, fields: &Fields<'_>, node: &Node) -> Option<AddonRequest> {
        let name = self.name(fields, "name");
        let from = self.from(fields);
        let checksum = fields.parsed("sha256", "64 hex digits");
        let images = match fields.node("images") {
            None => AddonImages::Discover,
            Some(list) if list.as_sequence().is_some() => AddonImages::Also(fields.texts("images")),
            Some(node) => match self.reader.text(node, "images").as_deref() {
                Some("discover") => AddonImages::Discover,
                Some("all") => AddonImages::DiscoverAll,
                Some("none") => AddonImages::None,
                _ => {
                    let message = "`images` is one of `discover`, `all`, `none`, or a list of images";
                    self.reader.at(node, message);
                    AddonImages::Discover
                }
            },
        };
        let exclude = fields.texts("exclude");
        Some(AddonRequest { name: name?, line: node.line, from: from?, images, exclude, checksum })
    }

    /// `url` or `path`, not both.
    fn from(&self, fields: &Fields<'_>) -> Option<From> {
        let urls = self.templates(fields, "url");
        let path = self.templates(fields, "path");
        match (urls.is_empty(), path.len()) {
            (false, 0) => Some(From::Urls(urls)),
            (true, 1) => Some(From::Path(path.into_iter().next()?)),
            (false, _) => {
                self.exclude(fields, "url", &["path"]);
                None
            }
            // There, and wrong: told as that.
            (true, 0) if fields.node("url").or(fields.node("path")).is_some() => None,
            (true, 0) => {
                fields.missing("url");
                None
            }
            (true, _) => {
                self.reader.at(fields.node("path")?, "`path` names one file or folder");
                None
            }
        }
    }

    fn templates(&self, fields: &Fields<'_>, key: &'static str) -> Vec<Template> {
        let Some(node) = fields.node(key) else { return Vec::new() };
        let nodes = node.as_sequence().unwrap_or(std::slice::from_ref(node));
        let texts = nodes.iter().filter_map(|node| Some((node, self.reader.text(node, &fields.name(key))?)));
        texts
            .filter(|(node, text)| key != "url" || self.is_url(node, text))
            .filter_map(|(node, text)| self.template(node, &text))
            .collect()
    }

    fn urls(&self, fields: &Fields<'_>, key: &'static str) -> Vec<String> {
        let Some(node) = fields.node(key) else { return Vec::new() };
        let nodes = node.as_sequence().unwrap_or(std::slice::from_ref(node));
        let texts = nodes.iter().filter_map(|node| Some((node, self.reader.text(node, &fields.name(key))?)));
        texts.filter(|(node, text)| self.is_url(node, text)).map(|(_, text)| text).collect()
    }

    fn is_url(&self, node: &Node, text: &str) -> bool {
        let known = ["http://", "https://", "file:///"].iter().any(|scheme| text.starts_with(scheme));
        if !known {
            let message = format!("`{}` is not an http, https or file url", recorded(text));
            self.reader.at_hinted(node, message, "a file beside the manifest goes under `path`");
        }
        known
    }

    fn template(&self, node: &Node, text: &str) -> Option<Template> {
        let template = Template::parse(text);
        if let Err(message) = &template {
            self.reader.at(node, message.clone());
        }
        template.ok()
    }

    fn roles(&self, fields: &Fields<'_>) -> Vec<Role> {
        let mut roles = Vec::new();
        for node in fields.list("roles") {
            let Some(text) = self.reader.text(node, &fields.name("roles")) else { continue };
            match text.parse::<Role>() {
                Ok(role) if roles.contains(&role) => {}
                Ok(role) => roles.push(role),
                Err(_) if text == "all" => roles = Role::ALL.to_vec(),
                Err(error) => self.reader.at(node, error.to_string()),
            }
        }
        roles.sort();
        roles
    }

    /// Written in octal, as `chmod` takes it: `0755`, `755`, `0o755`.
    fn mode(&self, node: &Node) -> Option<u32> {
        let text = self.reader.text(node, "mode")?;
        let digits = text.strip_prefix("0o").unwrap_or(&text);
        let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777);
        if mode.is_none() {
            let message = format!("`mode` is `{text}`, expected octal permissions without setuid, like 0755");
            self.reader.at(node, message);
        }
        mode
    }

    fn checksums(&self, fields: &Fields<'_>) -> Checksums {
        let Some(node) = fields.node("sha256") else { return Checksums::Unknown };
        let digest = |node: &Node| {
            let text = self.reader.text(node, &fields.name("sha256"))?;
            let digest = text.parse::<Digest>();
            if let Err(error) = &digest {
                self.reader.at(node, error.to_string());
            }
            digest.ok()
        };
        let Some(entries) = node.as_mapping() else {
            return digest(node).map_or(Checksums::Unknown, Checksums::Same);
        };
        let per_arch = entries.iter().filter_map(|entry| match entry.key.parse::<Arch>() {
            Ok(arch) => Some((arch, digest(&entry.node)?)),
            Err(error) => {
                self.reader.problem(eggo_yaml::Problem::new(entry.line, entry.column, error.to_string()));
                None
            }
        });
        Checksums::PerArch(per_arch.collect())
    }

    fn name(&self, fields: &Fields<'_>, key: &'static str) -> Option<String> {
        let Some(node) = fields.node(key) else {
            fields.missing(key);
            return None;
        };
        Some(safe_name(self.reader, node, &fields.name(key))).filter(|name| !name.is_empty())
    }

    /// The last part of where it comes from, for files that are not named.
    fn name_from(&self, node: &Node, from: &From, member: &Option<Template>) -> Option<String> {
        let text = match (member, from) {
            (Some(member), _) => member.as_str(),
            (None, From::Path(path)) => path.as_str(),
            (None, From::Urls(urls)) => urls[0].as_str(),
        };
        let last = text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if !is_safe_name(last) {
            self.reader.at(node, "`name` is missing, and cannot be guessed from where it comes from");
            return None;
        }
        Some(last.to_string())
    }
}

/// Reads each mapping of a list, and reports its unknown keys.
fn each<T>(fields: &Fields<'_>, key: &'static str, read: impl Fn(&Fields<'_>, &Node) -> Option<T>) -> Vec<T> {
    let one = |(i, node): (usize, &Node)| {
        let fields = fields.reader().fields(node, format!("{key}[{i}]"));
        let value = read(&fields, node);
        fields.finish();
        value
    };
    fields.list(key).iter().enumerate().filter_map(one).collect()
}

fn archs(fields: &Fields<'_>) -> Vec<Arch> {
    let mut archs = Vec::new();
    for node in fields.list("archs") {
        match fields.reader().text(node, &fields.name("archs")).map(|text| text.parse::<Arch>()) {
            Some(Ok(arch)) if archs.contains(&arch) => {
                fields.reader().at(node, format!("arch `{arch}` is listed twice"));
            }
            Some(Ok(arch)) => archs.push(arch),
            Some(Err(error)) => fields.reader().at(node, error.to_string()),
            None => {}
        }
    }
    if let Some(node) = fields.node("archs")
        && node.as_sequence().is_some_and(<[Node]>::is_empty)
    {
        fields.reader().at(node, format!("`{}` is empty", fields.name("archs")));
    }
    archs.sort();
    archs
}

/// A name that is one component of a path everywhere.
pub(crate) fn is_safe_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "+-._@".contains(c);
    !name.is_empty() && name.len() <= 128 && name.chars().all(allowed) && !name.starts_with(['.', '-'])
}

fn safe_name(reader: &Reader, node: &Node, what: &str) -> String {
    let Some(name) = reader.text(node, what) else { return String::new() };
    if !is_safe_name(&name) {
        let message = format!("`{what}` is `{}`, which cannot be a file's name", name.escape_debug());
        reader.at_hinted(
            node,
            message,
            "use letters, digits, `.`, `-`, `_`, `+`, not starting with `.` or `-`",
        );
    }
    name
}

fn unique(reader: &Reader, names: impl Iterator<Item = (String, usize)>) {
    let mut seen = std::collections::HashMap::new();
    for (name, line) in names {
        if let Some(first) = seen.get(&name) {
            let message = format!("{name} is listed a second time; the first is on line {first}");
            reader.problem(eggo_yaml::Problem::new(line, 1, message));
        } else {
            seen.insert(name, line);
        }
    }
}
