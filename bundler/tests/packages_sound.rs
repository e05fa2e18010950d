//! What dpkg-deb and rpm refuse, a build and an import refuse: asked of the tools themselves.

use eggo_bundle::packages::sound;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn is_here(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        println!("skipped: no {tool}");
    }
    found
}

fn tar(members: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in members {
        let mut header = tar::Header::new_gnu();
        let folder = path.ends_with('/');
        header.set_entry_type(if folder { tar::EntryType::Directory } else { tar::EntryType::Regular });
        header.set_size(content.len() as u64);
        header.set_mode(if folder { 0o755 } else { 0o644 });
        // `set_path` refuses what hostile archives contain.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in members {
        bytes.extend(
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, content.len()).bytes(),
        );
        bytes.extend(*content);
        if content.len() % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    bytes
}

const CONTROL: &str =
    "Package: tool\nVersion: 1.0-1\nArchitecture: all\nMaintainer: m <m@test>\nDescription: d\n";

/// What is wrong with each, or nothing.
fn debs() -> Vec<(&'static str, Vec<u8>, bool)> {
    let binary = ("debian-binary", &b"2.0\n"[..]);
    let control_tar = tar(&[("./", ""), ("./control", CONTROL)]);
    let data_tar = tar(&[("./", ""), ("./usr/", ""), ("./usr/tool", &"tool ".repeat(3000))]);
    let (control_xz, data_xz) = (xz(&control_tar), xz(&data_tar));
    let (control, data) = (("control.tar.xz", &control_xz[..]), ("data.tar.xz", &data_xz[..]));
    let (data_gz, data_zst) = (gz(&data_tar), zstd::encode_all(&data_tar[..], 1).unwrap());
    let mut damaged = data_xz.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let with_control = |members: &[(&str, &str)]| ar(&[binary, ("control.tar", &tar(members)), data]);
    let short_tar = &data_tar[..data_tar.len() - 4096];
    vec![
        ("xz", ar(&[binary, control, data]), true),
        ("gz", ar(&[binary, control, ("data.tar.gz", &data_gz)]), true),
        ("zst", ar(&[binary, control, ("data.tar.zst", &data_zst)]), true),
        ("plain", ar(&[binary, ("control.tar", &control_tar), ("data.tar", &data_tar)]), true),
        ("signed", ar(&[binary, control, data, ("_gpgorigin", b"x")]), true),
        ("a later minor format", ar(&[("debian-binary", b"2.1\n"), control, data]), true),
        ("without debian-binary", ar(&[control, data]), false),
        ("format 3", ar(&[("debian-binary", b"3.0\n"), control, data]), false),
        ("no line in debian-binary", ar(&[("debian-binary", b"2.0"), control, data]), false),
        ("a foreign member first", ar(&[("foreign", b"x"), binary, control, data]), false),
        ("a foreign member second", ar(&[binary, ("foreign", b"x"), control, data]), false),
        ("a foreign member third", ar(&[binary, control, ("foreign", b"x"), data]), false),
        ("two control archives", ar(&[binary, control, control, data]), false),
        ("data before control", ar(&[binary, data, control]), false),
        ("no data", ar(&[binary, control]), false),
        ("unknown compression", ar(&[binary, control, ("data.tar.lz4", &data_xz)]), false),
        ("a compression under another name", ar(&[binary, control, ("data.tar.gz", &data_xz)]), false),
        ("damaged data", ar(&[binary, control, ("data.tar.xz", &damaged)]), false),
        ("short data", ar(&[binary, control, ("data.tar.xz", &data_xz[..data_xz.len() - 30])]), false),
        ("a short tar inside", ar(&[binary, control, ("data.tar.xz", &xz(short_tar))]), false),
        (
            "a cut file",
            {
                let all = ar(&[binary, control, data]);
                all[..all.len() - 50].to_vec()
            },
            false,
        ),
        ("dotdot in control", with_control(&[("./control", CONTROL), ("../../evil", "x")]), false),
        ("no control file", with_control(&[("./other", "x")]), false),
        ("a name that is none", with_control(&[("./control", &CONTROL.replace("tool", "../tool"))]), false),
        ("a version that is none", with_control(&[("./control", &CONTROL.replace("1.0-1", "1 0"))]), false),
        ("two paragraphs", with_control(&[("./control", &format!("{CONTROL}\n{CONTROL}"))]), false),
        ("a field twice", with_control(&[("./control", &format!("{CONTROL}Version: 2\n"))]), false),
        // Not dpkg-deb, but dpkg refuses these, or another reader would see something else.
        ("a folder in control", with_control(&[("./control", CONTROL), ("./sub/", "")]), false),
        ("control twice", with_control(&[("./control", CONTROL), ("./control", CONTROL)]), false),
        ("control after data", ar(&[binary, control, data, control]), false),
        ("dotdot in data", ar(&[binary, control, ("data.tar", &tar(&[("../../evil", "x")]))]), false),
    ]
}

fn dpkg_takes(file: &Path, folder: &Path) -> bool {
    let ran = |arguments: &[&std::ffi::OsStr]| {
        let mut command = Command::new("dpkg-deb");
        let output = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        output.success()
    };
    let (control, tree) = (folder.join("control"), folder.join("tree"));
    let _ = std::fs::remove_dir_all(&control);
    let _ = std::fs::remove_dir_all(&tree);
    let info = ran(&["--field".as_ref(), file.as_ref()]);
    let control = ran(&["--control".as_ref(), file.as_ref(), control.as_ref()]);
    info && control && ran(&["--extract".as_ref(), file.as_ref(), tree.as_ref()])
}

#[test]
fn debs_that_dpkg_refuses_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ask = is_here("dpkg-deb");
    let mut refused = 0;
    for (what, bytes, expected) in debs() {
        let path: PathBuf = folder.path().join("package.deb");
        std::fs::write(&path, bytes).unwrap();
        let found = sound::check("package.deb", &path);
        assert_eq!(found.is_ok(), expected, "{what}: {found:?}");
        if ask {
            let taken = dpkg_takes(&path, folder.path());
            assert!(taken || !expected, "{what}: dpkg-deb refuses it");
            refused += usize::from(!taken);
        }
    }
    if ask {
        println!("dpkg-deb refuses {refused} of {}", debs().len());
    }
}

#[test]
fn rpms_that_rpm_refuses_are_refused() {
    if !is_here("rpmbuild") || !is_here("rpmkeys") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let spec = "Name: app\nVersion: 1\nRelease: 1\nSummary: s\nLicense: l\nRequires: bash\n%description\nd\n\
                %install\nmkdir -p %{buildroot}/usr/bin; seq 3000 > %{buildroot}/usr/bin/app\n%files\n/usr/bin/app\n";
    std::fs::write(folder.path().join("p.spec"), spec).unwrap();
    let topdir = format!("_topdir {}", folder.path().join("rpmbuild").display());
    let built = Command::new("rpmbuild")
        .args(["-bb", "--quiet", "--target", "noarch", "--define", &topdir, "p.spec"])
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let whole = std::fs::read(folder.path().join("rpmbuild/RPMS/noarch/app-1-1.noarch.rpm")).unwrap();
    let path = folder.path().join("app.rpm");
    let dbpath = folder.path().join("db");
    let taken = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let rpm = Command::new("rpmkeys")
            .arg("--dbpath")
            .arg(&dbpath)
            .args(["--checksig", "--nosignature"])
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        (rpm.success(), sound::check("app.rpm", &path).is_ok())
    };
    assert_eq!(taken(&whole), (true, true));
    assert_eq!(taken(&whole[..whole.len() - 10]), (false, false));
    assert_eq!(taken(&[&whole[..], b"more"].concat()), (false, false));
    // A bit here and there, densely where lead and headers are.
    let (mut tried, mut refused, mut overlooked) = (0, 0, Vec::new());
    for at in (0..400).step_by(7).chain((400..whole.len()).step_by(whole.len() / 60)) {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        let (rpm, ours) = taken(&changed);
        if ours && !rpm {
            overlooked.push(at);
        }
        tried += 1;
        refused += usize::from(!rpm);
    }
    println!("rpm refuses {refused} of {tried}");
    assert!(overlooked.is_empty(), "rpm refuses it with any of these bytes changed: {overlooked:?}");
    assert!(refused > tried / 2);
}
