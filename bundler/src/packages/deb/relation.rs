//! Relations between packages as control files write them: `a (>= 1) | b:any, c`.

use crate::packages::version::{Relation, deb};
use std::fmt;

/// One package of a relation: a name, perhaps an architecture, perhaps a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target<'a> {
    pub name: &'a str,
    /// `any`, `native` or an architecture, from `name:QUALIFIER`.
    pub qualifier: Option<&'a str>,
    pub version: Option<(Relation, &'a str)>,
}

impl<'a> Target<'a> {
    /// Reads `name[:qualifier] [(op version)] [\[archs\]] [<profiles>]`; the last two never
    /// limit a binary package and are skipped. `None` for what is no relation at all.
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let end = text.find([' ', '\t', '(', '[', '<']).unwrap_or(text.len());
        let (full, rest) = text.split_at(end);
        let (name, qualifier) = match full.split_once(':') {
            Some((name, qualifier)) => (name, Some(qualifier)),
            None => (full, None),
        };
        if name.is_empty() {
            return None;
        }
        let rest = rest.trim_start();
        let version = match rest.strip_prefix('(') {
            Some(rest) => Some(parse_version(rest.split_once(')')?.0)?),
            // As manifests write it.
            None if rest.starts_with(['=', '>']) || rest.starts_with("< ") || rest.starts_with("<=") => {
                Some(parse_version(rest)?)
            }
            None => None,
        };
        Some(Self { name, qualifier, version })
    }

    /// Whether a version satisfies the relation. An unversioned virtual package (`None`)
    /// satisfies only unversioned relations.
    pub fn allows(&self, version: Option<&str>) -> bool {
        match (self.version, version) {
            (None, _) => true,
            (Some((relation, limit)), Some(version)) => relation.holds(deb::compare(version, limit)),
            (Some(_), None) => false,
        }
    }
}

fn parse_version(text: &str) -> Option<(Relation, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !matches!(c, '<' | '>' | '='))?;
    let (operator, version) = text.split_at(end);
    let relation = match operator {
        // Deprecated spellings that mean "or equal" (Debian policy 7.1).
        "<" => Relation::LessOrEqual,
        ">" => Relation::GreaterOrEqual,
        other => Relation::parse(other)?,
    };
    Some((relation, version.trim()))
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if let Some(qualifier) = self.qualifier {
            write!(f, ":{qualifier}")?;
        }
        if let Some((relation, version)) = self.version {
            let operator = match relation {
                Relation::Less => "<<",
                Relation::LessOrEqual => "<=",
                Relation::Equal => "=",
                Relation::GreaterOrEqual => ">=",
                Relation::Greater => ">>",
            };
            write!(f, " ({operator} {version})")?;
        }
        Ok(())
    }
}

/// The comma-separated groups of a relation field, each as written.
pub fn groups(field: &str) -> impl Iterator<Item = &str> {
    field.split(',').map(str::trim).filter(|group| !group.is_empty())
}

/// The alternatives of one group, first choice first.
pub fn alternatives(group: &str) -> impl Iterator<Item = Target<'_>> {
    group.split('|').filter_map(Target::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_part_of_a_target() {
        let target = Target::parse(" python3:any (>= 3.11~) [amd64] <!nocheck>").unwrap();
        assert_eq!(target.name, "python3");
        assert_eq!(target.qualifier, Some("any"));
        assert_eq!(target.version, Some((Relation::GreaterOrEqual, "3.11~")));
        assert_eq!(target.to_string(), "python3:any (>= 3.11~)");
        assert_eq!(Target::parse("a(<<1)").unwrap().version, Some((Relation::Less, "1")));
        assert_eq!(Target::parse("a (> 1)").unwrap().version, Some((Relation::GreaterOrEqual, "1")));
        assert_eq!(Target::parse("a (1)"), None);
        assert_eq!(Target::parse("(>= 1)"), None);
    }

    #[test]
    fn an_unversioned_virtual_package_meets_no_versioned_relation() {
        let versioned = Target::parse("mta (>= 1)").unwrap();
        assert!(!versioned.allows(None));
        assert!(versioned.allows(Some("2")));
        assert!(Target::parse("mta").unwrap().allows(None));
    }

    #[test]
    fn splits_groups_and_alternatives() {
        let found: Vec<Vec<_>> =
            groups("a | b, c,").map(|group| alternatives(group).map(|t| t.name).collect()).collect();
        assert_eq!(found, [vec!["a", "b"], vec!["c"]]);
    }
}
