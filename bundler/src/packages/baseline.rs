//! What a target is sure to have: read from a file that was captured on a node.
//!
//! `minimal` and `none` need no file; what `minimal` means is each format's business.

use serde_json::Value;

/// A package that targets have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Installed {
    pub name: String,
    /// `1:2.3-4`; rpm's epoch is absent where the capture had none.
    pub version: String,
    pub architecture: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadBaseline {
    #[error("line {line} is `{text}`: neither `NAME VERSION` nor `NAME-VERSION-RELEASE.ARCH`")]
    Line { line: usize, text: String },
    #[error("the JSON cannot be read: {0}")]
    Json(String),
    #[error("the JSON has no list of packages")]
    NoPackages,
    #[error("it lists no package")]
    Empty,
}

/// Reads what `dpkg-query -W`, `rpm -qa` or `eggo-install facts --format json` printed.
pub fn parse(text: &str) -> Result<Vec<Installed>, BadBaseline> {
    let mut packages = if text.trim_start().starts_with(['{', '[']) {
        parse_json(text)?
    } else {
        let counts = |line: &str| !line.trim().is_empty() && !is_key(line);
        let lines = text.lines().enumerate().filter(|(_, line)| counts(line));
        let parsed = lines.map(|(number, line)| {
            let bad = || BadBaseline::Line { line: number + 1, text: line.to_string() };
            parse_line(line).ok_or_else(bad)
        });
        parsed.collect::<Result<Vec<_>, _>>()?
    };
    packages.sort();
    packages.dedup();
    if packages.is_empty() {
        return Err(BadBaseline::Empty);
    }
    Ok(packages)
}

/// rpm keeps the keys that it trusts among the packages, without an arch.
fn is_key(line: &str) -> bool {
    line.trim_start().starts_with("gpg-pubkey-")
}

fn parse_line(line: &str) -> Option<Installed> {
    let mut words = line.split_whitespace();
    let (first, second) = (words.next()?, words.next());
    match second {
        Some(version) => {
            let (name, architecture) = match first.split_once(':') {
                Some((name, architecture)) => (name, Some(architecture.to_string())),
                None => (first, None),
            };
            Some(Installed { name: name.to_string(), version: version.to_string(), architecture })
        }
        None => parse_nevra(first),
    }
}

/// `name-[epoch:]version-release.arch`
fn parse_nevra(text: &str) -> Option<Installed> {
    let (rest, architecture) = text.rsplit_once('.')?;
    let (rest, release) = rest.rsplit_once('-')?;
    let (name, version) = rest.rsplit_once('-')?;
    let valid = !name.is_empty() && !version.is_empty() && !release.is_empty();
    valid.then(|| Installed {
        name: name.to_string(),
        version: format!("{version}-{release}"),
        architecture: Some(architecture.to_string()),
    })
}

/// A list of packages, or an object with a list `packages`: texts as above, or objects with
/// `name`, `version` and perhaps `architecture`.
fn parse_json(text: &str) -> Result<Vec<Installed>, BadBaseline> {
    let json: Value = serde_json::from_str(text).map_err(|error| BadBaseline::Json(error.to_string()))?;
    let list = json.as_array().or_else(|| json.get("packages")?.as_array()).ok_or(BadBaseline::NoPackages)?;
    let field = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_string);
    let read = |value: &Value| match value {
        Value::String(line) => parse_line(line),
        _ => Some(Installed {
            name: field(value, "name")?,
            version: field(value, "version")?,
            architecture: field(value, "architecture").or_else(|| field(value, "arch")),
        }),
    };
    let packages = list.iter().filter(|value| !value.as_str().is_some_and(is_key));
    packages.map(|value| read(value).ok_or(BadBaseline::NoPackages)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(name: &str, version: &str, architecture: Option<&str>) -> Installed {
        let architecture = architecture.map(str::to_string);
        Installed { name: name.into(), version: version.into(), architecture }
    }

    #[test]
    fn reads_what_the_tools_print() {
        let deb = "adduser\t3.134\nlibc6:amd64\t2.36-9+deb12u10\n";
        let expected =
            [installed("adduser", "3.134", None), installed("libc6", "2.36-9+deb12u10", Some("amd64"))];
        assert_eq!(parse(deb).unwrap(), expected);
        let rpm = "glibc-2.28-75.oe1.x86_64\ngpg-pubkey-b25e7f66-5c26c3f0\npython3-pip-20.3.3-1.oe1.noarch\n";
        let expected = [
            installed("glibc", "2.28-75.oe1", Some("x86_64")),
            installed("python3-pip", "20.3.3-1.oe1", Some("noarch")),
        ];
        assert_eq!(parse(rpm).unwrap(), expected);
        let facts = r#"{"arch": "amd64", "packages": [{"name": "a", "version": "1", "arch": "all"}, "b 2"]}"#;
        assert_eq!(parse(facts).unwrap(), [installed("a", "1", Some("all")), installed("b", "2", None)]);
    }

    #[test]
    fn says_which_line_is_wrong() {
        let error = parse("a 1\nnonsense\n").unwrap_err();
        assert_eq!(error, BadBaseline::Line { line: 2, text: "nonsense".into() });
        assert_eq!(parse("{}").unwrap_err(), BadBaseline::NoPackages);
        assert_eq!(parse("\n").unwrap_err(), BadBaseline::Empty);
    }
}
