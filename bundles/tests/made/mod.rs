//! Bundles made for tests: a fixed key, small real packages and programs, and a store of them.
#![allow(dead_code, reason = "each test program uses its own part")]

use eggo_bundles::progress::Silent;
use eggo_bundles::{
    Arch, Content, Digest, Image, Index, Item, KeyPair, Kind, PublicKey, SecretKey, Store, TrustedKeys, seal,
    write,
};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub mod forge;

static TEXT: LazyLock<String> = LazyLock::new(|| KeyPair::generate(None).unwrap().secret);
static KEY: LazyLock<SecretKey> = LazyLock::new(|| SecretKey::parse(&TEXT, "test key", || None).unwrap());

/// The same for the whole test program.
pub fn key() -> &'static SecretKey {
    &KEY
}

/// The file of [`key`].
pub fn secret_text() -> &'static str {
    &TEXT
}

pub fn public() -> PublicKey {
    key().public().clone()
}

pub fn trusted() -> TrustedKeys {
    TrustedKeys::new([public()])
}

/// A bundle's index and the content of its items.
#[derive(Clone)]
pub struct Sample {
    pub index: Index,
    pub contents: BTreeMap<String, Vec<u8>>,
}

impl Store for Sample {
    fn content(&self, item: &Item) -> io::Result<Content> {
        let bytes = self.contents.get(&item.path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Content::Bytes(bytes.clone()))
    }
}

impl Sample {
    pub fn empty() -> Self {
        Self { index: Index::new("sample", "1.0", Arch::ALL.to_vec()), contents: BTreeMap::new() }
    }

    /// One or two of everything, for both archs; content shared between them; a symbolic link;
    /// items of no bytes, of one member, of several, and of exactly one.
    pub fn small() -> Self {
        let mut sample = Self::empty();
        for arch in Arch::ALL {
            sample.add(&format!("{arch}/bin/tool"), &elf(arch, 70_000));
            sample.add(&format!("{arch}/pkg/tool_1.0_{arch}.deb"), &deb("tool", "1.0", arch.as_str()));
            sample.add(&format!("{arch}/pkg/data_1.0_all.deb"), &deb("data", "1.0", "all"));
            sample
                .add(&format!("{arch}/pkg/tool-1.0-1.{}.rpm", arch.machine()), &rpm("tool", arch.machine()));
            sample.add(&format!("{arch}/addons/net.yaml"), b"kind: ConfigMap\n");
            sample.add(&format!("{arch}/dir/cni/bridge"), &elf(arch, 100));
            sample.link(&format!("{arch}/dir/cni/default"), "bridge");
            sample.image(arch, "docker.io/library/pause:3.2");
        }
        sample.add("amd64/file/empty", b"");
        sample.add("amd64/file/large", &noise(1_300_000, 1));
        sample.add("amd64/file/exact", &noise((1 << 20) - 512, 2));
        sample.add("amd64/file/text", &b"all work and no play\n".repeat(20_000));
        sample.add(&format!("arm64/file/{}/{}", "long".repeat(40), "name".repeat(30)), b"long");
        sample
    }

    pub fn add(&mut self, path: &str, content: &[u8]) {
        self.contents.insert(path.to_string(), content.to_vec());
        self.index.items.push(item(path, content));
    }

    pub fn link(&mut self, path: &str, target: &str) {
        self.index.items.push(Item { link: Some(target.to_string()), ..item(path, b"") });
    }

    fn image(&mut self, arch: Arch, name: &str) {
        let config = format!(r#"{{"architecture":"{arch}","os":"linux"}}"#).into_bytes();
        let manifest = format!(r#"{{"schemaVersion":2,"arch":"{arch}"}}"#).into_bytes();
        let layer = noise(20_000, 3);
        let mut blob = |content: &[u8]| {
            let digest = Digest::of(content);
            self.add(&format!("{arch}/image/blobs/sha256/{digest}"), content);
            digest
        };
        let image = Image {
            name: name.to_string(),
            arch,
            manifest: blob(&manifest),
            media_type: "application/vnd.oci.image.manifest.v1+json".into(),
            config: blob(&config),
            layers: vec![blob(&layer)],
            roles: Vec::new(),
        };
        self.index.images.push(image);
    }

    pub fn content(&self, path: &str) -> &[u8] {
        self.contents.get(path).map_or(&[], Vec::as_slice)
    }

    pub fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("bundle.tar.gz");
        let sealed = seal(self.index.clone(), key()).unwrap();
        write(&path, &sealed, self, &Silent).unwrap();
        path
    }
}

pub fn item(path: &str, content: &[u8]) -> Item {
    let mut parts = path.split('/');
    let arch = parts.next().unwrap().parse().unwrap_or(Arch::Amd64);
    let room = parts.next().unwrap_or_default();
    let kind = Kind::ALL.into_iter().find(|kind| kind.room() == room).unwrap_or(Kind::File);
    let name = path.rsplit('/').next().unwrap();
    let item = Item::new(arch, kind, name, Digest::of(content), content.len() as u64);
    Item { path: path.to_string(), version: "1.0".into(), ..item }
}

/// Bytes that do not compress, the same for the same seed.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// The front of a program for this arch, and some bytes behind.
pub fn elf(arch: Arch, length: usize) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([2, 0]);
    bytes.extend(arch.elf_machine().to_le_bytes());
    bytes.extend((0..length).map(|n| (n / 7) as u8));
    bytes
}

/// A package with a control file and nothing else.
pub fn deb(name: &str, version: &str, architecture: &str) -> Vec<u8> {
    let control = format!("Package: {name}\nVersion: {version}\nArchitecture: {architecture}\n");
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(control.len() as u64);
    header.set_mode(0o644);
    builder.append_data(&mut header, "./control", control.as_bytes()).unwrap();
    let control = zstd::encode_all(&builder.into_inner().unwrap()[..], 1).unwrap();
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in
        [("debian-binary", &b"2.0\n"[..]), ("control.tar.zst", &control), ("data.tar", &[])]
    {
        bytes.extend(
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, content.len()).bytes(),
        );
        bytes.extend(content);
        if content.len() % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    bytes
}

/// Lead and headers of a package; no payload.
pub fn rpm(name: &str, machine: &str) -> Vec<u8> {
    let header = |entries: &[(u32, &str)]| {
        let mut bytes = vec![0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
        let data: Vec<u8> = entries.iter().flat_map(|(_, text)| [text.as_bytes(), b"\0"].concat()).collect();
        bytes.extend((entries.len() as u32).to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        let mut offset = 0;
        for (tag, text) in entries {
            for number in [*tag, 6, offset, 1] {
                bytes.extend(number.to_be_bytes());
            }
            offset += text.len() as u32 + 1;
        }
        bytes.extend(data);
        bytes
    };
    let mut bytes = vec![0xed, 0xab, 0xee, 0xdb];
    bytes.resize(96, 0);
    bytes.extend(header(&[]));
    bytes.extend(header(&[(1000, name), (1001, "1.0"), (1002, "1"), (1022, machine), (1044, "x.src.rpm")]));
    bytes
}
