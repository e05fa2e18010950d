//! The packages of a node. It has hundreds, an install has a thousand nodes, and a node may claim to have any number: they
//! are kept as one text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One of them, as it is written down.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    pub name: String,
    /// With epoch and release, as the package manager compares it.
    pub version: String,
    /// As the package manager spells it.
    pub arch: String,
}

/// One of them, within [`Packages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed<'a> {
    pub name: &'a str,
    pub version: &'a str,
    pub arch: &'a str,
}

/// All of them, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packages {
    /// `NAME \t VERSION \t ARCH \n`, in order.
    text: String,
}

impl Packages {
    pub fn iter(&self) -> impl Iterator<Item = Listed<'_>> {
        self.text.lines().filter_map(|line| {
            let mut fields = line.split('\t');
            Some(Listed { name: fields.next()?, version: fields.next()?, arch: fields.next()? })
        })
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<Listed<'_>> {
        self.iter().find(|package| package.name == name)
    }
}

impl<'a> FromIterator<Listed<'a>> for Packages {
    fn from_iter<I: IntoIterator<Item = Listed<'a>>>(list: I) -> Self {
        let mut list: Vec<Listed<'a>> = list.into_iter().collect();
        list.sort();
        let length =
            |package: &Listed<'_>| package.name.len() + package.version.len() + package.arch.len() + 3;
        let mut text = String::with_capacity(list.iter().map(length).sum());
        for Listed { name, version, arch } in list {
            [name, "\t", version, "\t", arch, "\n"].iter().for_each(|word| text.push_str(word));
        }
        Self { text }
    }
}

impl FromIterator<Package> for Packages {
    fn from_iter<I: IntoIterator<Item = Package>>(list: I) -> Self {
        let list: Vec<Package> = list.into_iter().collect();
        list.iter().map(|Package { name, version, arch }| Listed { name, version, arch }).collect()
    }
}

impl Serialize for Packages {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter().map(|Listed { name, version, arch }| Package {
            name: name.into(),
            version: version.into(),
            arch: arch.into(),
        }))
    }
}

impl<'de> Deserialize<'de> for Packages {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Vec::<Package>::deserialize(from)?.into_iter().collect())
    }
}
