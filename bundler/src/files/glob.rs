//! `*/etcdctl`: which member of an archive is meant.

use regex::Regex;

/// `*` and `?` stay within one component, `**` spans several; everything else is itself.
pub struct Glob(Regex);

impl Glob {
    pub fn new(pattern: &str) -> Self {
        let mut text = String::from("^");
        let mut rest = pattern.trim_start_matches("./");
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("**/") {
                text.push_str("(?:.*/)?");
                rest = after;
                continue;
            }
            if let Some(after) = rest.strip_prefix("**") {
                text.push_str(".*");
                rest = after;
                continue;
            }
            match c {
                '*' => text.push_str("[^/]*"),
                '?' => text.push_str("[^/]"),
                c => text.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
            }
            rest = &rest[c.len_utf8()..];
        }
        text.push('$');
        Self(Regex::new(&text).expect("escaped text is a regular expression"))
    }

    pub fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stay_in_their_folder() {
        let cases = [
            ("*/etcdctl", "etcd-v3/etcdctl", true),
            ("*/etcdctl", "a/b/etcdctl", false),
            ("**/etcdctl", "a/b/etcdctl", true),
            ("**/etcdctl", "etcdctl", true),
            ("etcd*", "etcdctl", true),
            ("etcd*", "etcd/ctl", false),
            ("./bin/?x", "bin/ax", true),
            ("a+b", "a+b", true),
            ("a+b", "aab", false),
            ("bin/**", "bin/a/b", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(Glob::new(pattern).matches(path), expected, "{pattern} on {path}");
        }
    }
}
