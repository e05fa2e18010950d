//! A small bundle of everything that is not Kubernetes, made without the bundler: one package for each
//! manager, whose service would start by itself, a program, a unit and a large file, for both archs.

use eggo_bundles::progress::Silent;
use eggo_bundles::{Arch, Content, Digest, Index, Item, KeyPair, Kind, Role, SecretKey, Store, seal, write};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `bundle.tar.gz` and `key.pub` in a folder.
pub struct Parcel {
    folder: tempfile::TempDir,
    bytes: BTreeMap<Digest, Vec<u8>>,
}

impl Store for Parcel {
    fn content(&self, item: &Item) -> io::Result<Content> {
        Ok(Content::Bytes(self.bytes[&item.sha256].clone()))
    }
}

impl Parcel {
    /// With one file of so many bytes that do not compress.
    pub fn new(large: usize) -> Self {
        let mut made = Self { folder: tempfile::tempdir().unwrap(), bytes: BTreeMap::new() };
        let mut index = Index::new("demo", "1", vec![Arch::Amd64, Arch::Arm64]);
        for arch in Arch::ALL {
            let deb = made.deb(arch);
            made.item(&mut index, arch, Kind::Pkg, "eggo-demo_1.0_all.deb", "eggo-demo", "1.0", deb, None);
            let script = format!("#!/bin/sh\necho {arch}\n").into_bytes();
            made.item(
                &mut index,
                arch,
                Kind::Bin,
                "eggo-tool",
                "eggo-tool",
                "",
                script,
                Some("/usr/local/bin"),
            );
            let file = b"[Unit]\nDescription=demo\n[Service]\nExecStart=/bin/true\n".to_vec();
            made.item(
                &mut index,
                arch,
                Kind::File,
                "eggo-file.service",
                "eggo-file.service",
                "",
                file,
                Some("/etc/systemd/system"),
            );
            let mut state = 88172645463325252u64 + arch as u64;
            let noise = (0..large / 8).flat_map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()
            });
            let noise: Vec<u8> = noise.collect();
            made.item(&mut index, arch, Kind::File, "large", "large", "", noise, Some("/etc/kubernetes"));
        }
        let rpm = made.rpm();
        made.item(
            &mut index,
            Arch::Amd64,
            Kind::Pkg,
            "eggo-demo-1.0-1.noarch.rpm",
            "eggo-demo",
            "1.0-1",
            rpm,
            None,
        );
        index.items.sort_by(|a, b| a.path.cmp(&b.path));
        let keys = KeyPair::generate(None).unwrap();
        std::fs::write(made.at("key.pub"), &keys.public).unwrap();
        let secret = SecretKey::parse(&keys.secret, "key", || None).unwrap();
        write(&made.at("bundle.tar.gz"), &seal(index, &secret).unwrap(), &made, &Silent).unwrap();
        made
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    #[allow(clippy::too_many_arguments, reason = "an item has that many parts")]
    fn item(
        &mut self,
        index: &mut Index,
        arch: Arch,
        kind: Kind,
        file: &str,
        name: &str,
        version: &str,
        bytes: Vec<u8>,
        dst: Option<&str>,
    ) {
        let sha256 = Digest::of(&bytes);
        index.items.push(Item {
            name: name.into(),
            version: version.into(),
            roles: vec![Role::Master, Role::Worker],
            dst: dst.map(Into::into),
            ..Item::new(arch, kind, file, sha256, bytes.len() as u64)
        });
        self.bytes.insert(sha256, bytes);
    }

    /// A package whose service would start on install.
    fn deb(&self, arch: Arch) -> Vec<u8> {
        let tree = self.at(&format!("deb-{arch}"));
        let put = |path: &str, text: &str, mode: u32| put(&tree.join(path), text, mode);
        put(
            "DEBIAN/control",
            "Package: eggo-demo\nVersion: 1.0\nArchitecture: all\nMaintainer: demo <demo@example.org>\nDepends: dpkg\nDescription: demo\n",
            0o644,
        );
        put(
            "DEBIAN/postinst",
            "#!/bin/sh\nset -e\nsystemctl daemon-reload\ndeb-systemd-invoke start eggo-demo.service\n",
            0o755,
        );
        put("lib/systemd/system/eggo-demo.service", UNIT, 0o644);
        let out = self.at("demo.deb");
        let made =
            Command::new("dpkg-deb").args(["--root-owner-group", "-b"]).args([&tree, &out]).status().unwrap();
        assert!(made.success());
        std::fs::read(out).unwrap()
    }

    fn rpm(&self) -> Vec<u8> {
        let spec = "Name: eggo-demo\nVersion: 1.0\nRelease: 1\nSummary: demo\nLicense: none\nBuildArch: noarch\n%description\ndemo\n\
             %install\nmkdir -p %{buildroot}/usr/lib/systemd/system\nprintf '[Service]\\nExecStart=/bin/sleep 1000\\n' > %{buildroot}/usr/lib/systemd/system/eggo-demo.service\n\
             %post\nsystemctl start eggo-demo.service || :\n%files\n/usr/lib/systemd/system/eggo-demo.service\n";
        put(&self.at("demo.spec"), spec, 0o644);
        let top = format!("_topdir {}", self.at("rpm").display());
        let made = Command::new("rpmbuild")
            .args(["--quiet", "-bb", "-D", &top])
            .arg(self.at("demo.spec"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::read(self.at("rpm/RPMS/noarch/eggo-demo-1.0-1.noarch.rpm")).unwrap()
    }
}

const UNIT: &str = "[Service]\nExecStart=/bin/sleep 1000\n";

fn put(path: &Path, text: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
