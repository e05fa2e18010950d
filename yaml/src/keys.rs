//! A file's keys as a table. The parser may ask only for keys that stand in it; the reference
//! page and the schema for editors are made from it.

/// One key and what may be below it.
pub struct Key {
    pub name: &'static str,
    /// Other spellings that mean the same.
    pub aliases: &'static [&'static str],
    pub shape: Shape,
    /// As a user would write it; `None`: there is none, or it must be given.
    pub default: Option<&'static str>,
    pub required: bool,
    pub about: &'static str,
}

pub enum Shape {
    Text,
    Boolean,
    Number {
        min: u32,
        max: u32,
    },
    Duration,
    Address,
    Network,
    /// One of these words.
    Words(&'static [&'static str]),
    List(&'static Shape),
    Mapping(&'static [Key]),
    /// A mapping whose keys are the user's own.
    Free(&'static Shape),
    /// Anything of these.
    Either(&'static [Shape]),
    /// Somebody else's business.
    Anything,
}

/// A key that may be left out.
pub const fn key(
    name: &'static str,
    shape: Shape,
    default: Option<&'static str>,
    about: &'static str,
) -> Key {
    Key { name, aliases: &[], shape, default, required: false, about }
}

/// A key that must be there.
pub const fn required(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, aliases: &[], shape, default: None, required: true, about }
}

impl Key {
    /// The same key with other spellings.
    pub const fn or(self, aliases: &'static [&'static str]) -> Key {
        Key { aliases, ..self }
    }
}

/// Is there a key `path` (`masters[0].ip`) in the table, under any of its spellings?
pub(crate) fn knows(keys: &[Key], path: &str) -> bool {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let name = first.split('[').next().unwrap_or(first);
    let mut found = keys.iter().filter(|key| key.name == name || key.aliases.contains(&name));
    found.any(|key| rest.is_none_or(|rest| key.shape.mappings().iter().any(|keys| knows(keys, rest))))
}

/// Every spelling of the keys that may be below `path`; at the top if it is empty.
pub(crate) fn below(keys: &'static [Key], path: &str) -> Vec<&'static str> {
    let mut tables = vec![keys];
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let name = part.split('[').next().unwrap_or(part);
        let named = |key: &&Key| key.name == name || key.aliases.contains(&name);
        tables = tables.into_iter().flatten().filter(named).flat_map(|key| key.shape.mappings()).collect();
    }
    tables
        .into_iter()
        .flatten()
        .flat_map(|key| std::iter::once(key.name).chain(key.aliases.iter().copied()))
        .collect()
}

impl Shape {
    /// The mappings that may be here, or in the list that may be here.
    pub(crate) fn mappings(&self) -> Vec<&'static [Key]> {
        match self {
            Shape::Mapping(keys) => vec![keys],
            Shape::List(inner) => inner.mappings(),
            Shape::Either(shapes) => shapes.iter().flat_map(Shape::mappings).collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Shape = Shape::List(&Shape::Mapping(&[required("port", Shape::Text, "")]));
    const KEYS: &[Key] = &[
        key("workers", PORTS, None, "").or(&["nodes"]),
        key(
            "etcd",
            Shape::Either(&[Shape::Boolean, Shape::Mapping(&[key("ca", Shape::Text, None, "")])]),
            None,
            "",
        ),
    ];

    #[test]
    fn paths_lead_through_lists_choices_and_other_spellings() {
        for path in ["workers", "workers[3].port", "nodes[0].port", "etcd.ca"] {
            assert!(knows(KEYS, path), "{path}");
        }
        for path in ["worker", "workers[3].ip", "port", "etcd.ca.file"] {
            assert!(!knows(KEYS, path), "{path}");
        }
        assert_eq!(below(KEYS, ""), ["workers", "nodes", "etcd"]);
        assert_eq!(below(KEYS, "nodes[1]"), ["port"]);
        assert_eq!(below(KEYS, "etcd"), ["ca"]);
    }
}
