//! Parsers of foreign bytes neither panic nor take anything damaged for sound.

mod made;

use eggo_bundles::content::{deb, elf, image, rpm};
use eggo_bundles::reader::Pipe;
use eggo_bundles::{Bundle, rules};
use proptest::prelude::*;
use std::path::Path;

/// A sound start, cut and changed somewhere.
fn damaged(sound: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let length = sound.len();
    let change = (0..length, any::<u8>());
    (proptest::collection::vec(change, 0..8), 0..=length).prop_map(move |(changes, end)| {
        let mut bytes = sound.clone();
        for (position, byte) in changes {
            bytes[position] = byte;
        }
        bytes.truncate(end);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packages(bytes in damaged(made::deb("tool", "1.0", "amd64")), other in damaged(made::rpm("tool", "x86_64"))) {
        for bytes in [bytes, other] {
            let _ = deb::read(&mut &bytes[..]);
            let _ = rpm::read(&mut &bytes[..]);
        }
    }

    #[test]
    fn anything(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = elf::parse(&bytes);
        let _ = image::read_config(&mut &bytes[..]);
        let _ = deb::parse(&String::from_utf8_lossy(&bytes));
        prop_assert!(rules::parse(&bytes).is_err());
        prop_assert!(Pipe::open(std::io::Cursor::new(bytes), Path::new("-")).is_err());
    }

    #[test]
    fn bundles(bytes in damaged(golden())) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b");
        std::fs::write(&path, &bytes).unwrap();
        let is_sound = bytes == golden();
        let silent = eggo_bundles::progress::Silent;
        let outcome = Bundle::open(&path).and_then(|bundle| bundle.without_trust()?.verify_all(&silent));
        prop_assert_eq!(outcome.is_ok(), is_sound);
        let pipe = Pipe::open(std::io::Cursor::new(bytes), Path::new("-"));
        let outcome = pipe.and_then(|pipe| pipe.without_trust()?.verify_all(&silent));
        prop_assert_eq!(outcome.is_ok(), is_sound);
    }
}

fn golden() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/format-1.tar.gz")).unwrap()
}
