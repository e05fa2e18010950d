//! RPM's order: `[epoch:]version[-release]`, each part by `rpmvercmp`.

use super::deb::compare_numbers;
use std::cmp::Ordering;

/// An epoch, version and release, borrowed from where they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Evr<'a> {
    /// Absent counts as 0.
    pub epoch: Option<&'a str>,
    pub version: &'a str,
    /// Absent (in a requirement) matches every release.
    pub release: Option<&'a str>,
}

impl<'a> Evr<'a> {
    pub fn parse(text: &'a str) -> Self {
        let (epoch, rest) = match text.split_once(':') {
            Some((epoch, rest)) if !epoch.is_empty() && epoch.bytes().all(|b| b.is_ascii_digit()) => {
                (Some(epoch), rest)
            }
            Some(("", rest)) => (None, rest),
            _ => (None, text),
        };
        match rest.rsplit_once('-') {
            Some((version, release)) => Self { epoch, version, release: Some(release) },
            None => Self { epoch, version: rest, release: None },
        }
    }

    /// Compares as rpm does between a provided and a required version: a release counts
    /// only if both sides have one.
    pub fn compare(&self, other: &Evr<'_>) -> Ordering {
        compare_numbers(self.epoch.unwrap_or("").as_bytes(), other.epoch.unwrap_or("").as_bytes())
            .then_with(|| rpmvercmp(self.version, other.version))
            .then_with(|| match (self.release, other.release) {
                (Some(left), Some(right)) => rpmvercmp(left, right),
                _ => Ordering::Equal,
            })
    }
}

/// Compares two `[epoch:]version[-release]` texts.
pub fn compare(left: &str, right: &str) -> Ordering {
    Evr::parse(left).compare(&Evr::parse(right))
}

/// One part: runs of digits and runs of letters; `~` sorts before the end, `^` after it.
pub fn rpmvercmp(left: &str, right: &str) -> Ordering {
    if left == right {
        return Ordering::Equal;
    }
    let (mut left, mut right) = (left.as_bytes(), right.as_bytes());
    loop {
        left = skip_separators(left);
        right = skip_separators(right);
        match (left.first(), right.first()) {
            (Some(b'~'), Some(b'~')) => {
                (left, right) = (&left[1..], &right[1..]);
                continue;
            }
            (Some(b'~'), _) => return Ordering::Less,
            (_, Some(b'~')) => return Ordering::Greater,
            (Some(b'^'), Some(b'^')) => {
                (left, right) = (&left[1..], &right[1..]);
                continue;
            }
            (Some(b'^'), None) => return Ordering::Greater,
            (None, Some(b'^')) => return Ordering::Less,
            (Some(b'^'), Some(_)) => return Ordering::Less,
            (Some(_), Some(b'^')) => return Ordering::Greater,
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(l), Some(r)) => {
                let order = match (l.is_ascii_digit(), r.is_ascii_digit()) {
                    (true, false) => return Ordering::Greater,
                    (false, true) => return Ordering::Less,
                    (true, true) => {
                        let (l, left_rest) = take(left, u8::is_ascii_digit);
                        let (r, right_rest) = take(right, u8::is_ascii_digit);
                        (left, right) = (left_rest, right_rest);
                        compare_numbers(l, r)
                    }
                    (false, false) => {
                        let (l, left_rest) = take(left, u8::is_ascii_alphabetic);
                        let (r, right_rest) = take(right, u8::is_ascii_alphabetic);
                        (left, right) = (left_rest, right_rest);
                        l.cmp(r)
                    }
                };
                if order.is_ne() {
                    return order;
                }
            }
        }
    }
}

fn skip_separators(text: &[u8]) -> &[u8] {
    let counts = |b: &u8| b.is_ascii_alphanumeric() || *b == b'~' || *b == b'^';
    &text[text.iter().position(counts).unwrap_or(text.len())..]
}

fn take(text: &[u8], class: fn(&u8) -> bool) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|b| !class(b)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tilde_before_the_end_and_caret_after_it() {
        let ascending = ["1.0~rc1", "1.0", "1.0^git1", "1.0.1", "1.1a", "1.1.1", "2", "1:0"];
        for pair in ascending.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(compare(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(compare("1.0-3", "1.0"), Ordering::Equal);
        assert_eq!(compare("1.0-3", "0:1_0-3"), Ordering::Equal);
    }
}
