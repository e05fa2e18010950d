//! Small texts inside deploy.yaml: time spans, lists of names, words of the shell.

use std::time::Duration;

/// `120s`, `2m`, `1h30m`, `500ms`, or a bare number of seconds.
pub(super) fn duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u32 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (unit, after) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
        rest = after;
        let unit = match unit {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            _ => return None,
        };
        total = total.checked_add(unit.checked_mul(number)?)?;
    }
    (!text.is_empty()).then_some(total)
}

/// The names in `etcd,etcdctl`, `{etcd,etcdctl}` or `kube-{proxy,scheduler}`; `None` when the
/// braces do not match, or are more than anybody writes.
pub(super) fn names(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for part in split(text)? {
        if part.matches('{').count() > MAX_BRACES {
            return None;
        }
        expand(part.trim(), &mut names)?;
    }
    names.retain(|name| !name.is_empty());
    Some(names)
}

/// At commas outside of braces.
fn split(text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut depth = 0usize;
    let mut start = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (depth == 0).then_some(parts)
}

/// More than any list has; deeply nested braces multiply.
const MAX_NAMES: usize = 10_000;
/// Of all names together.
const MAX_BYTES: usize = 1 << 20;
/// Each takes a copy of the text while it is expanded.
const MAX_BRACES: usize = 32;

fn expand(text: &str, names: &mut Vec<String>) -> Option<()> {
    let Some(open) = text.find('{') else {
        names.push(text.to_string());
        let fits = names.len() <= MAX_NAMES && names.len().saturating_mul(text.len()) <= MAX_BYTES;
        return fits.then_some(());
    };
    let mut depth = 0usize;
    let close = text[open..].char_indices().find_map(|(at, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(open + at)
    })?;
    for inner in split(&text[open + 1..close])? {
        expand(&format!("{}{}{}", &text[..open], inner.trim(), &text[close + 1..]), names)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("120s"), Some(Duration::from_secs(120)));
        assert_eq!(duration("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(duration("30"), Some(Duration::from_secs(30)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        for bad in ["", "s", "1x", "1.5s", "-3s", "5s 3", "99999999999h"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn lists_of_names() {
        let expanded = |text: &str| names(text).map(|names| names.join(" "));
        assert_eq!(expanded("etcd").unwrap(), "etcd");
        assert_eq!(expanded("etcd, etcdctl,").unwrap(), "etcd etcdctl");
        assert_eq!(expanded("{etcd,etcdctl}").unwrap(), "etcd etcdctl");
        assert_eq!(
            expanded("kube-{proxy,{api,}server},x").unwrap(),
            "kube-proxy kube-apiserver kube-server x"
        );
        assert_eq!(expanded("é{é}").unwrap(), "éé");
        assert_eq!(expanded("éé{a,{ü}b}ñ").unwrap(), "ééañ ééübñ");
        assert_eq!(expanded("{etcd"), None);
        assert_eq!(expanded("etcd}"), None);
        for bounded in ["{a,b}".repeat(40), "{a}".repeat(60_000), "{".repeat(60_000) + &"}".repeat(60_000)] {
            assert_eq!(expanded(&bounded), None);
        }
        assert_eq!(expanded(&format!("{}{}", "{a,b}".repeat(12), "x".repeat(1 << 20))), None);
        assert_eq!(names(&"{a,b},".repeat(1000)).unwrap().len(), 2000);
    }
}
