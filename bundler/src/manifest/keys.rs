//! Every key of a manifest, once: the reference page and the schema for editors follow from
//! this table.

use eggo_yaml::{Key, Shape, key, required};

const ARCHS: Shape = Shape::List(&Shape::Words(&["amd64", "x86_64", "arm64", "aarch64"]));
const ROLES: Shape =
    Shape::List(&Shape::Words(&["etcd", "loadbalance", "loadbalancer", "master", "worker", "node", "all"]));
const TEXTS: Shape = Shape::List(&Shape::Text);
const TEXT_OR_TEXTS: Shape = Shape::Either(&[Shape::Text, TEXTS]);

const REPO_NAME: Key = required("name", Shape::Text, "Its name in the lock and in messages; unique");
const EXCLUDE: Key =
    key("exclude", TEXTS, None, "Packages that are not to be taken from here; `*` matches any string");
const ALLOW_UNSIGNED: Key = key(
    "allow-unsigned",
    Shape::Boolean,
    Some("false"),
    "Accept metadata without a signature; the lock records it",
);
const REPO_URL: Key = key("url", TEXT_OR_TEXTS, None, "The repository, or mirrors of it");

const REPO_ARCHS: Key = key(
    "archs",
    ARCHS,
    None,
    "The archs that its server has, where the metadata lists more; else all of the manifest's",
);

const CA: Key = key(
    "ca",
    Shape::Text,
    None,
    "A PEM file, relative to the manifest, with the server's CA or its own certificate",
);
const CLIENT_CERT: Key =
    key("client-cert", Shape::Text, None, "A PEM file with the certificate that is shown to the server");
const CLIENT_KEY: Key = key("client-key", Shape::Text, None, "A PEM file with the key of `client-cert`");
const INSECURE: Key = key(
    "insecure-skip-verify",
    Shape::Boolean,
    Some("false"),
    "Accept any certificate of the server; every run warns about it",
);

pub(super) const DEB: &[Key] = &[
    required("type", Shape::Words(&["deb"]), "A repository of Debian packages"),
    REPO_NAME,
    REPO_ARCHS,
    key(
        "from",
        Shape::Words(&["system"]),
        None,
        "This machine's own apt sources with their keys, in place of `url`, `suites` and `components`",
    ),
    REPO_URL,
    key(
        "suites",
        TEXT_OR_TEXTS,
        None,
        "`bookworm`, `bookworm-updates`…; one that ends in `/` is a flat repository",
    ),
    key("components", TEXT_OR_TEXTS, None, "`main`…; none for a flat repository"),
    key("signed-by", TEXT_OR_TEXTS, None, "Files with the keys that may sign it, relative to the manifest"),
    key(
        "check-valid-until",
        Shape::Boolean,
        Some("true"),
        "Refuse it after the day that it names as its last; `false` for snapshots and archives",
    ),
    EXCLUDE,
    ALLOW_UNSIGNED,
    CA,
    CLIENT_CERT,
    CLIENT_KEY,
    INSECURE,
];

pub(super) const RPM: &[Key] = &[
    required("type", Shape::Words(&["rpm"]), "A repository of RPM packages"),
    REPO_NAME,
    REPO_ARCHS,
    REPO_URL,
    key("mirrorlist", Shape::Text, None, "A url that lists mirrors, one a line"),
    key("metalink", Shape::Text, None, "A url of a metalink that lists mirrors"),
    key(
        "file",
        Shape::Text,
        None,
        "A `.repo` file as dnf reads it, relative to the manifest, in place of these",
    ),
    key("releasever", Shape::Text, None, "What `$releasever` means in urls; `$basearch` is known"),
    key("modules", TEXTS, None, "Module streams to enable besides the default ones: `nodejs:12`"),
    key(
        "gpgkey",
        TEXT_OR_TEXTS,
        None,
        "Files (relative to the manifest) or urls of the keys that may sign it",
    ),
    key(
        "repo-gpgcheck",
        Shape::Boolean,
        None,
        "Whether its metadata must be signed, too, and not only its packages; else it must be if it was when the lock \
         was made before",
    ),
    EXCLUDE,
    ALLOW_UNSIGNED,
    CA,
    CLIENT_CERT,
    CLIENT_KEY,
    INSECURE,
];

const PACKAGES: &[Key] = &[
    key("all", TEXTS, None, "For every node"),
    key("etcd", TEXTS, None, "For etcd members"),
    key("loadbalance", TEXTS, None, "For load balancers").or(&["loadbalancer"]),
    key("master", TEXTS, None, "For masters"),
    key("worker", TEXTS, None, "For workers").or(&["node"]),
];

const SHA256: Key = key(
    "sha256",
    Shape::Either(&[
        Shape::Text,
        Shape::Mapping(&[
            key("amd64", Shape::Text, None, "Of the file for amd64").or(&["x86_64"]),
            key("arm64", Shape::Text, None, "Of the file for arm64").or(&["aarch64"]),
        ]),
    ]),
    None,
    "What is fetched must have it: one for all archs, or one for each; without it the lock records what came",
);

const FROM_URL: Key = key(
    "url",
    TEXT_OR_TEXTS,
    None,
    "Where to fetch it: one place, or several to try in this order; may contain `{version}`, `{arch}` (amd64, arm64), \
     `{machine}` (x86_64, aarch64), `{name}`",
);
const FROM_PATH: Key = key(
    "path",
    Shape::Text,
    None,
    "A local file, relative to the manifest, in place of `url`; may contain the same",
);

/// Binaries, files and folders.
const CONTENT: &[Key] = &[
    key(
        "name",
        Shape::Text,
        None,
        "Its file name on the node; required for binaries, else the last part of where it comes from",
    ),
    required("dst", Shape::Text, "The folder on the node; must be in the whitelist"),
    FROM_URL,
    FROM_PATH,
    key("member", Shape::Text, None, "Which file (or folder) of the archive that was fetched: `*/etcdctl`"),
    SHA256,
    key("roles", ROLES, None, "Which nodes get it; none: those whose lists in deploy.yaml name it"),
    key("archs", ARCHS, None, "For which archs, if not all of the manifest"),
    key("version", Shape::Text, None, "Its own version, if not that of the manifest"),
    key("mode", Shape::Text, None, "Permissions in octal: `0644`; else 0755 for binaries and 0644 for files"),
];

const IMAGE: &[Key] = &[
    required(
        "name",
        Shape::Text,
        "As people write it: `nginx`, `registry.lan:5000/team/app:1.2`, `…@sha256:…`",
    ),
    key("roles", ROLES, None, "Which nodes get it; none: every node with a runtime"),
    key(
        "archs",
        ARCHS,
        None,
        "For which archs, if not all of the manifest: `flannel:v0.11.0-arm64`; whatever an addon's pods say",
    ),
    key(
        "from",
        Shape::Text,
        None,
        "A local docker archive, OCI layout or OCI archive in place of a registry; may contain `{arch}`",
    ),
];

const REGISTRY: &[Key] = &[
    required("name", Shape::Text, "Host and port as in names of images: `docker.io`, `registry.lan:5000`"),
    key("mirrors", TEXTS, None, "Asked first, in this order: `host[:port][/prefix]`"),
    key("plain-http", Shape::Boolean, Some("false"), "It speaks http without TLS"),
    CA,
    CLIENT_CERT,
    CLIENT_KEY,
    INSECURE,
];

const ADDON: &[Key] = &[
    required("name", Shape::Text, "Its name; unique"),
    FROM_URL,
    FROM_PATH,
    key("sha256", Shape::Text, None, "What is fetched must have it"),
    key(
        "images",
        Shape::Either(&[Shape::Words(&["discover", "all", "none"]), TEXTS]),
        Some("discover"),
        "Images that are bundled with it: those of its pod specs (`discover`), also those named in arguments, environment and \
         ConfigMaps (`all`; a word there that is no image is left out with a warning), none, or those of its pod specs \
         and these. Pods that a node selector or affinity keeps on one arch want their images for that arch only",
    ),
    key(
        "exclude",
        TEXTS,
        None,
        "Discovered images that are not bundled; `*` matches any string: `quay.io/coreos/flannel:*-s390x`",
    ),
];

/// The keys at the top of the file.
pub const KEYS: &[Key] = &[
    required("name", Shape::Text, "The bundle's name"),
    required("version", Shape::Text, "The bundle's version, and what `{version}` means in urls and paths"),
    key("archs", ARCHS, Some(r#"["amd64", "arm64"]"#), "For which machines; `--arch` chooses among them"),
    key(
        "repos",
        Shape::List(&Shape::Either(&[Shape::Mapping(DEB), Shape::Mapping(RPM)])),
        None,
        "Where packages come from",
    ),
    key(
        "baseline",
        Shape::Text,
        Some("minimal"),
        "What a target is sure to have, and the bundle need not carry: `minimal`, `none`, or a file that \
         `eggo-install facts --baseline` captured on a node; may contain `{arch}`",
    ),
    key("recommends", Shape::Boolean, Some("false"), "Take packages that others only recommend, too"),
    key(
        "best",
        Shape::Boolean,
        Some("true"),
        "RPM: refuse a package whose newest version cannot be installed; `false` takes an older one",
    ),
    key(
        "packages",
        Shape::Mapping(PACKAGES),
        None,
        "Packages per role, with all they need: `name`, or `name >= 1.2` (also: <, <=, =, >)",
    ),
    key("binaries", Shape::List(&Shape::Mapping(CONTENT)), None, "Programs that are not packaged"),
    key("files", Shape::List(&Shape::Mapping(CONTENT)), None, "Single files"),
    key("dirs", Shape::List(&Shape::Mapping(CONTENT)), None, "Folders: local ones, or whole archives"),
    key(
        "registries",
        Shape::List(&Shape::Mapping(REGISTRY)),
        None,
        "How to reach a registry, where the defaults do not fit",
    ),
    key(
        "images",
        Shape::List(&Shape::Either(&[Shape::Text, Shape::Mapping(IMAGE)])),
        None,
        "Container images, for every arch",
    ),
    key(
        "addons",
        Shape::List(&Shape::Mapping(ADDON)),
        None,
        "Kubernetes objects to apply once the cluster is up",
    ),
];
