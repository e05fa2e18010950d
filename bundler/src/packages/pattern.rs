//! Names of packages with `*` in them: `kernel*`, `*-debuginfo`.

/// Whether `name` is one that `pattern` means; `*` is any run of characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((front, mut rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(front) else { return false };
    while let Some((middle, after)) = rest.split_once('*') {
        let Some(at) = name.find(middle) else { return false };
        (name, rest) = (&name[at + middle.len()..], after);
    }
    name.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_stars() {
        assert!(matches("kernel*", "kernel-core"));
        assert!(matches("*-debuginfo", "glibc-debuginfo"));
        assert!(matches("a*b*c", "aXbYc"));
        assert!(matches("bash", "bash"));
        assert!(!matches("bash", "bash-doc"));
        assert!(!matches("a*b", "acbd"));
    }
}
