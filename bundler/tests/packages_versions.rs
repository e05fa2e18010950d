//! Version order: the vectors of both formats, and the real `dpkg` on pairs made up at random.

use eggo_bundle::packages::version::{deb, rpm};
use proptest::prelude::*;
use std::cmp::Ordering;
use std::path::PathBuf;
use std::process::Command;

fn vectors(file: &str) -> Vec<(String, String, Ordering)> {
    let named = std::env::var_os("EGGO_TEST_DATA").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"));
    let Ok(text) = std::fs::read_to_string(folder.join("vectors").join(file)) else {
        println!("skipped: no test data");
        return Vec::new();
    };
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let order = fields[2].trim().parse::<i32>().unwrap().cmp(&0);
        (fields[0].to_string(), fields[1].to_string(), order)
    };
    text.lines().filter(|line| line.split('\t').count() == 3).map(parse).collect()
}

#[test]
fn the_vectors_hold_both_ways() {
    for (left, right, order) in vectors("debvercmp.tsv") {
        assert_eq!(deb::compare(&left, &right), order, "{left} {right}");
        assert_eq!(deb::compare(&right, &left), order.reverse(), "{right} {left}");
    }
    for (left, right, order) in vectors("rpmvercmp.tsv") {
        assert_eq!(rpm::rpmvercmp(&left, &right), order, "{left} {right}");
        assert_eq!(rpm::rpmvercmp(&right, &left), order.reverse(), "{right} {left}");
    }
}

fn deb_version() -> impl Strategy<Value = String> {
    "([0-9]:)?[0-9]{1,2}[a-b0-9.+~]{0,5}(-[a-b0-9.+~]{1,4})?"
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn random_pairs_order_as_dpkg_says(left in deb_version(), right in deb_version()) {
        let holds = |relation: &str| {
            let status = Command::new("dpkg").args(["--compare-versions", &left, relation, &right]).status();
            status.ok().and_then(|status| status.code())
        };
        let order = match (holds("lt"), holds("eq")) {
            (Some(0), _) => Ordering::Less,
            (_, Some(0)) => Ordering::Equal,
            (Some(1), Some(1)) => Ordering::Greater,
            _ => { println!("skipped: no dpkg"); return Ok(()) }
        };
        prop_assert_eq!(deb::compare(&left, &right), order);
    }

    #[test]
    fn rpm_order_is_total(a in "[0-9a-b.~^]{0,6}", b in "[0-9a-b.~^]{0,6}", c in "[0-9a-b.~^]{0,6}") {
        prop_assert_eq!(rpm::rpmvercmp(&a, &b), rpm::rpmvercmp(&b, &a).reverse());
        if rpm::rpmvercmp(&a, &b).is_le() && rpm::rpmvercmp(&b, &c).is_le() {
            prop_assert!(rpm::rpmvercmp(&a, &c).is_le());
        }
    }
}
