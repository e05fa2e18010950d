use super::*;
use std::collections::BTreeMap;

type Names = BTreeMap<String, MemberKind>;

fn read(path: &Path) -> Result<Names, Error> {
    let mut names = Names::new();
    walk(path, &mut |member, reader| {
        io::copy(reader, &mut io::sink())?;
        names.insert(member.path.clone(), member.kind.clone());
        Ok(())
    })?;
    Ok(names)
}

/// The project's test data is beside it, and is not part of it.
fn test_data() -> Option<PathBuf> {
    let named = std::env::var_os("EGGO_TEST_DATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    named.or(Some(beside)).filter(|folder| folder.exists())
}

#[test]
fn hostile_archives_are_refused_and_odd_ones_read() {
    let Some(data) = test_data() else {
        println!("skipped: no test data");
        return;
    };
    let valid = ["gz-multi-member.tar.gz", "gz-trailing-zeros.tar.gz", "slip-case-unicode.tar.gz"];
    let mut seen = 0;
    for entry in std::fs::read_dir(data.join("hostile")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".yaml") {
            continue;
        }
        seen += 1;
        let result = read(&path);
        assert_eq!(result.is_ok(), valid.contains(&name.as_str()), "{name}: {result:?}");
    }
    assert!(seen > 10);
}

fn tar_of(path: &str, content: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut builder = tar::Builder::new(file.as_file());
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    builder.append_data(&mut header, path, content.as_bytes()).unwrap();
    builder.finish().unwrap();
    drop(builder);
    file
}

#[test]
fn every_compression_is_read() {
    use std::io::Write;
    let plain = tar_of("bin/tool", "#!/bin/sh\n");
    let bytes = std::fs::read(plain.path()).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&bytes).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&bytes).unwrap();
    let mut bz2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bz2.write_all(&bytes).unwrap();
    let zst = zstd::encode_all(&bytes[..], 1).unwrap();
    let mut zip = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
    zip.start_file("bin/tool", zip::write::SimpleFileOptions::default().unix_permissions(0o755)).unwrap();
    zip.write_all(b"#!/bin/sh\n").unwrap();
    let zip = zip.finish().unwrap().into_inner();
    for packed in [bytes, gz.finish().unwrap(), xz.finish().unwrap(), bz2.finish().unwrap(), zst, zip] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &packed).unwrap();
        let names = read(file.path()).unwrap();
        assert_eq!(names["bin/tool"], MemberKind::File { size: 10 });
        // Cut anywhere, it is refused.
        std::fs::write(file.path(), &packed[..packed.len() * 2 / 3]).unwrap();
        assert!(read(file.path()).is_err());
    }
}

#[test]
fn a_damaged_member_of_a_zip_is_noticed() {
    use std::io::Write;
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let mut zip = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        zip.start_file("bin/tool", options).unwrap();
        zip.write_all(b"#!/bin/sh\necho hello\n").unwrap();
        let good = zip.finish().unwrap().into_inner();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &good).unwrap();
        read(file.path()).unwrap();
        // Right behind the local header and the name.
        let mut bad = good.clone();
        bad[30 + "bin/tool".len() + 6] ^= 1;
        std::fs::write(file.path(), &bad).unwrap();
        assert!(read(file.path()).is_err(), "{method}");
        // The sizes that the header and the directory declare: one byte less than there is.
        let mut short = good;
        let directory = short.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
        for place in [22, directory + 24] {
            assert_eq!(short[place], 21);
            short[place] = 20;
        }
        std::fs::write(file.path(), &short).unwrap();
        assert!(read(file.path()).is_err(), "{method}");
    }
}
