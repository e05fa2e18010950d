//! `*/etcdctl`: which member of an archive is meant.

/// `*` and `?` stay within one component, `**` spans several; everything else is itself.
pub(super) struct Glob(Vec<Part>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    One(char),
    /// `?`
    Any,
    /// `*`
    Run,
    /// `**`
    Span,
    /// `**/`: folders, or none.
    Folders,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = pattern.trim_start_matches("./");
        while let Some(c) = rest.chars().next() {
            let (part, length) = match c {
                '*' if rest.starts_with("**/") => (Part::Folders, 3),
                '*' if rest.starts_with("**") => (Part::Span, 2),
                '*' => (Part::Run, 1),
                '?' => (Part::Any, 1),
                c => (Part::One(c), c.len_utf8()),
            };
            parts.push(part);
            rest = &rest[length..];
        }
        Self(parts)
    }

    /// In time that is at most the product of both lengths, whatever the pattern.
    pub(super) fn matches(&self, path: &str) -> bool {
        let length = self.0.len() + 1;
        // Which parts may come next, and which folders have begun and not ended.
        let (mut before, mut inside) = (vec![false; length], vec![false; length]);
        before[0] = true;
        self.skip(&mut before);
        for c in path.chars() {
            let (mut next, mut still) = (vec![false; length], vec![false; length]);
            for (at, part) in self.0.iter().enumerate().filter(|(at, _)| before[*at] || inside[*at]) {
                match part {
                    Part::One(one) => next[at + 1] |= *one == c,
                    Part::Any => next[at + 1] |= c != '/',
                    Part::Run => next[at] |= c != '/',
                    Part::Span => next[at] = true,
                    Part::Folders => {
                        still[at] = true;
                        next[at + 1] |= c == '/';
                    }
                }
            }
            (before, inside) = (next, still);
            self.skip(&mut before);
        }
        before[self.0.len()]
    }

    /// What may match nothing.
    fn skip(&self, before: &mut [bool]) {
        for (at, part) in self.0.iter().enumerate() {
            before[at + 1] |= before[at] && matches!(part, Part::Run | Part::Span | Part::Folders);
        }
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
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/**/b", "a/xb", false),
            ("**/b", "xb", false),
            ("?", "/", false),
            ("*", "", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(Glob::new(pattern).matches(path), expected, "{pattern} on {path}");
        }
        assert!(!Glob::new(&"*a".repeat(1500)).matches(&format!("{}b", "a".repeat(1000))));
        assert!(!Glob::new(&"**/".repeat(2000)).matches(&"a".repeat(1000)));
    }
}
