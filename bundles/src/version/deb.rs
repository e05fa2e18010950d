//! Debian's order: `[epoch:]upstream[-revision]`, deb-version(7).

use std::cmp::Ordering;

/// Compares as `dpkg --compare-versions` does.
pub fn compare(left: &str, right: &str) -> Ordering {
    let (left_epoch, left) = split_epoch(left.trim());
    let (right_epoch, right) = split_epoch(right.trim());
    let (left_upstream, left_revision) = left.rsplit_once('-').unwrap_or((left, ""));
    let (right_upstream, right_revision) = right.rsplit_once('-').unwrap_or((right, ""));
    compare_numbers(left_epoch.as_bytes(), right_epoch.as_bytes())
        .then_with(|| compare_part(left_upstream.as_bytes(), right_upstream.as_bytes()))
        .then_with(|| compare_part(left_revision.as_bytes(), right_revision.as_bytes()))
}

fn split_epoch(version: &str) -> (&str, &str) {
    match version.split_once(':') {
        Some((epoch, rest)) if epoch.bytes().all(|b| b.is_ascii_digit()) => (epoch, rest),
        _ => ("", version),
    }
}

/// Alternates between a run of non-digits and a number, from the left.
fn compare_part(mut left: &[u8], mut right: &[u8]) -> Ordering {
    while !left.is_empty() || !right.is_empty() {
        loop {
            let (l, r) = (left.first().copied(), right.first().copied());
            let digits_next = |c: Option<u8>| c.is_none_or(|c| c.is_ascii_digit());
            if digits_next(l) && digits_next(r) {
                break;
            }
            let order = weight(l).cmp(&weight(r));
            if order.is_ne() {
                return order;
            }
            left = left.get(1..).unwrap_or(&[]);
            right = right.get(1..).unwrap_or(&[]);
        }
        let (left_number, left_rest) = take_number(left);
        let (right_number, right_rest) = take_number(right);
        let order = compare_numbers(left_number, right_number);
        if order.is_ne() {
            return order;
        }
        (left, right) = (left_rest, right_rest);
    }
    Ordering::Equal
}

/// `~` sorts before the end, the end (or a digit) before letters, letters before the rest.
fn weight(byte: Option<u8>) -> i32 {
    match byte {
        Some(b'~') => -1,
        None => 0,
        Some(b) if b.is_ascii_digit() => 0,
        Some(b) if b.is_ascii_alphabetic() => i32::from(b),
        Some(b) => i32::from(b) + 256,
    }
}

fn take_number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// Numbers of any length; no digits count as zero.
pub(super) fn compare_numbers(left: &[u8], right: &[u8]) -> Ordering {
    let strip = |digits: &[u8]| digits.iter().position(|b| *b != b'0').unwrap_or(digits.len());
    let (left, right) = (&left[strip(left)..], &right[strip(right)..]);
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tilde_comes_first_and_letters_before_signs() {
        let ascending = ["1.0~~", "1.0~rc1", "1.0", "1.0a", "1.0+", "1.0.1", "1.00002", "1:0"];
        for pair in ascending.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(compare(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(compare("0:1.2-0", "1.2"), Ordering::Equal);
        assert_eq!(compare("1.18446744073709551617", "1.18446744073709551616"), Ordering::Greater);
    }
}
