use super::*;
use std::collections::BTreeMap;
use tar::EntryType;

type Names = BTreeMap<String, MemberKind>;
type Written<'a> = (&'a str, EntryType, &'a str);

fn read(bytes: &[u8]) -> Result<Names, String> {
    let mut names = Names::new();
    let limits = Limits::of_size(bytes.len() as u64);
    let format = sniff(bytes).unwrap_or(Format::Tar);
    let reader = inflate(bytes, format).map_err(|error| error.to_string())?;
    let result = walk_tar(reader, limits, &mut |member, reader| {
        io::copy(reader, &mut io::sink())?;
        names.insert(member.path.clone(), member.kind.clone());
        Ok(())
    });
    match result {
        Ok(()) => Ok(names),
        Err(Fault::Refused(reason)) => Err(reason),
        Err(Fault::Io(error)) => Err(error.to_string()),
        Err(Fault::Visitor(error)) => Err(error.to_string()),
    }
}

fn header(kind: EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_path("name").unwrap();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

fn tar_of(members: &[Written<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, kind, content) in members {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        let link = matches!(kind, EntryType::Symlink | EntryType::Link);
        header.set_size(if link { 0 } else { content.len() as u64 });
        // `set_path` refuses what hostile archives contain.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        if link {
            header.as_old_mut().linkname[..content.len()].copy_from_slice(content.as_bytes());
        }
        header.set_cksum();
        builder.append(&header, if link { &b""[..] } else { content.as_bytes() }).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn rules_that_span_members() {
    use tar::EntryType::{Directory, Link, Regular, Symlink};
    let good = tar_of(&[
        ("./", Directory, ""),
        ("./a/", Directory, ""),
        ("./a/b", Regular, "x"),
        ("a/c", Symlink, "../a/b"),
        ("a/d", Link, "a/b"),
        ("a/e", Symlink, "c"),
    ]);
    let names = read(&good).unwrap();
    assert_eq!(names.keys().collect::<Vec<_>>(), ["a", "a/b", "a/c", "a/d", "a/e"]);
    let bad: [(&str, &[Written<'_>]); 12] = [
        ("is in it twice", &[("a", Regular, ""), ("./a", Regular, "")]),
        ("contains `..`", &[("a/../../b", Regular, "")]),
        ("is absolute", &[("/a", Regular, "")]),
        ("leads out", &[("a/b", Symlink, "../../c")]),
        ("leads out", &[("a", Symlink, "/etc")]),
        // Behind a link, `..` starts from wherever that leads: also from one that comes later.
        ("leads out", &[("a/b", Symlink, "c/../x"), ("a/c", Symlink, "..")]),
        ("not a plain path", &[("a", Symlink, "b\n")]),
        ("below the link", &[("b/x", Regular, ""), ("a", Symlink, "b"), ("a/x", Regular, "")]),
        ("below the file", &[("a", Regular, ""), ("a/x", Regular, "")]),
        ("not a file before it", &[("a", Link, "b"), ("b", Regular, "")]),
        ("is in it twice", &[("a/b", Regular, ""), ("a", Symlink, "c")]),
        ("is the root", &[("./", Regular, "x")]),
    ];
    for (reason, members) in bad {
        let error = read(&tar_of(members)).unwrap_err();
        assert!(error.contains(reason), "{error} lacks {reason}");
    }
}

#[test]
fn a_bomb_is_refused_before_it_unpacks() {
    for (kind, size) in [(EntryType::Regular, 1 << 40), (EntryType::Regular, u64::MAX / 2)] {
        let error = read(header(kind, size).as_bytes()).unwrap_err();
        assert!(error.contains("unpacks to more than"), "{error}");
    }
    let mut root = header(EntryType::Regular, u64::MAX - 600);
    root.set_path("./").unwrap();
    root.set_cksum();
    read(root.as_bytes()).unwrap_err();
}

#[test]
fn headers_that_are_no_members_are_bounded() {
    use tar::EntryType::{GNULongLink, GNULongName, XGlobalHeader, XHeader};
    let of_zeros = |kind, size: usize, count: usize| {
        let one = [header(kind, size as u64).as_bytes().as_slice(), &vec![0; size]].concat();
        read(&one.repeat(count)).unwrap_err()
    };
    for kind in [GNULongName, GNULongLink, XHeader, XGlobalHeader] {
        let error = of_zeros(kind, 2 << 20, 1);
        assert!(error.contains("of headers before one member"), "{kind:?}: {error}");
    }
    let error = of_zeros(XGlobalHeader, 1024, 1000);
    assert!(error.contains("of headers before one member"), "{error}");
}

#[test]
fn names_are_bounded_together() {
    let mut builder = tar::Builder::new(Vec::new());
    for number in 0..201 {
        let path = format!("{number:06}/{}", ["a"; 500].join("/"));
        builder.append_data(&mut header(EntryType::Regular, 0), path, io::empty()).unwrap();
    }
    let error = read(&builder.into_inner().unwrap()).unwrap_err();
    assert!(error.contains("longer than 32 MiB together"), "{error}");
}

#[test]
fn large_members_and_long_names_are_within_bounds() {
    let mut builder = tar::Builder::new(Vec::new());
    let path = |number: u32| format!("{}/{number}", ["long"; 100].join("/"));
    for number in 0..5 {
        let size = (2 << 20) + u64::from(number);
        builder
            .append_data(&mut header(EntryType::Regular, size), path(number), io::repeat(1).take(size))
            .unwrap();
    }
    let bytes = builder.into_inner().unwrap();
    assert_eq!(read(&bytes).unwrap().len(), 5);
    // A visitor may leave members unread.
    walk_tar(&bytes[..], Limits::of_size(1), &mut |_, _| Ok(())).unwrap();
}

#[test]
fn sparse_files_in_pax_records_are_refused() {
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_pax_extensions([("GNU.sparse.major", &b"1"[..])]).unwrap();
    builder.append_data(&mut header(EntryType::Regular, 1), "a", &b"x"[..]).unwrap();
    let error = read(&builder.into_inner().unwrap()).unwrap_err();
    assert!(error.contains("is sparse"), "{error}");
}
