use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A tarball of `(name, mode, content)`; a content of `-> x` makes a link.
fn tarball(folder: &Path, entries: &[(&str, u32, &[u8])]) -> PathBuf {
    let path = folder.join("packages.tar.gz");
    let mut out = tar::Builder::new(GzEncoder::new(File::create(&path).unwrap(), Compression::fast()));
    for (name, mode, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(*mode);
        match content.strip_prefix(b"-> ") {
            Some(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                out.append_link(&mut header, name, std::str::from_utf8(target).unwrap()).unwrap();
            }
            None => {
                header.set_size(content.len() as u64);
                out.append_data(&mut header, name, *content).unwrap();
            }
        }
    }
    out.into_inner().unwrap().finish().unwrap();
    path
}

fn open(path: &Path) -> Result<Tarballs, TarballError> {
    Tarballs::open(&[(Arch::Amd64, path.to_path_buf())].into(), &std::env::temp_dir())
}

#[test]
fn the_rooms_of_later_generations_become_items() {
    let folder = tempfile::tempdir().unwrap();
    let path = tarball(
        folder.path(),
        &[
            ("./bin/etcd", 0o755, b"#!/bin/sh\n"),
            ("file/calico.yaml", 0o644, b"kind: x\n"),
            ("dir/conf/a/b", 0o4755, b"b"),
            ("dir/conf/link", 0o777, b"-> a/b"),
            ("image/images.tar", 0o644, b"tar"),
        ],
    );
    let tarballs = open(&path).unwrap();
    let items: Vec<_> = tarballs
        .index()
        .items
        .iter()
        .map(|item| (item.path.as_str(), item.name.as_str(), item.mode))
        .collect();
    assert_eq!(
        items,
        [
            ("amd64/bin/etcd", "etcd", Some(0o755)),
            ("amd64/dir/conf/a/b", "conf", Some(0o755)),
            ("amd64/dir/conf/link", "conf", Some(0o777)),
            ("amd64/file/calico.yaml", "calico.yaml", Some(0o644)),
            ("amd64/image/images.tar", "images.tar", Some(0o644)),
        ]
    );
    let mut text = String::new();
    tarballs.read(&tarballs.index().items[0]).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "#!/bin/sh\n");
}

#[test]
fn the_first_generation_is_flat() {
    let folder = tempfile::tempdir().unwrap();
    let entries: [(&str, u32, &[u8]); 4] = [
        ("kubectl", 0o755, b"x"),
        ("notes", 0o644, b"y"),
        ("images.tar", 0o644, b"z"),
        ("addons/calico.yaml", 0o644, b"kind: x\n"),
    ];
    let tarballs = open(&tarball(folder.path(), &entries)).unwrap();
    let kinds: Vec<_> = tarballs.index().items.iter().map(|item| (item.name.as_str(), item.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("calico.yaml", Kind::Addon),
            ("kubectl", Kind::Bin),
            ("notes", Kind::File),
            ("images.tar", Kind::Image)
        ]
    );
}

#[test]
fn links_that_could_lead_out_are_refused() {
    let cases: [&[(&str, u32, &[u8])]; 7] = [
        &[("dir/c/l", 0o777, b"-> /etc")],
        &[("dir/c/l", 0o777, b"-> ../..")],
        &[("dir/c/l", 0o777, b"-> a/../../..")],
        &[("bin/l", 0o777, b"-> x")],
        &[("dir/c/l", 0o777, b"-> a"), ("dir/c/l/x", 0o644, b"x")],
        // Behind a link, `..` would start from wherever that leads.
        &[("dir/c/a/b/l", 0o777, b"-> ../.."), ("dir/c/m", 0o777, b"-> a/b/l/../x")],
        &[("bin/x", 0o755, b"x"), ("./bin/x", 0o755, b"y")],
    ];
    for entries in cases {
        let folder = tempfile::tempdir().unwrap();
        assert!(open(&tarball(folder.path(), entries)).is_err(), "{:?}", entries[0].0);
    }
    // Wherever a link inside leads, it is inside.
    let folder = tempfile::tempdir().unwrap();
    let through = [("dir/c/a/b/l", 0o777, &b"-> ../.."[..]), ("dir/c/m", 0o777, b"-> a/b/l/x")];
    open(&tarball(folder.path(), &through)).unwrap();
}

#[test]
fn hostile_archives_are_refused_and_odd_ones_are_read() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let data = std::env::var_os("EGGO_TEST_DATA").map_or(shared, PathBuf::from).join("hostile");
    let Ok(files) = std::fs::read_dir(data) else {
        println!("skipped: no test data");
        return;
    };
    for file in files {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".tar.gz") {
            continue;
        }
        let legal = ["slip-case-unicode", "gz-multi-member", "gz-trailing-zeros", "setuid"];
        let legal = legal.iter().any(|legal| name.starts_with(legal));
        let opened = open(&path);
        assert_eq!(opened.is_ok(), legal, "{name}: {:?}", opened.err());
        let items = opened.map_or(Vec::new(), |tarballs| tarballs.index().items.clone());
        assert!(items.iter().all(|item| item.mode.is_none_or(|mode| mode <= 0o777)), "{name}");
    }
}
