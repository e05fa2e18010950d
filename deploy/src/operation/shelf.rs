//! The bundle as the cluster sees it.

use crate::cluster::context::Shelf;
use crate::content::Content;
use crate::distribute::Source;
use eggo_bundles::{Arch, Index, Item, Kind};
use eggo_errors::Report;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::Arc;

pub(super) struct Shelved {
    pub index: Arc<Index>,
    pub source: Arc<dyn Source>,
}

impl Shelved {
    fn find(&self, kinds: &[Kind], name: &str, arch: Option<Arch>) -> Result<Option<Vec<u8>>, Report> {
        let named = |path: &str| path.rsplit('/').next() == Some(name);
        let item = self.index.items.iter().find(|item| {
            kinds.contains(&item.kind)
                && (item.name == name || named(&item.path))
                && arch.is_none_or(|arch| item.arch == arch)
        });
        let Some(item) = item else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = self.source.read(item).and_then(|mut content| content.read_to_end(&mut bytes));
        read.map_err(|error| Report::new(format!("cannot read `{}` from the bundle: {error}", item.path)))?;
        Ok(Some(bytes))
    }
}

impl Shelf for Shelved {
    fn addon(&self, name: &str) -> Result<Option<String>, Report> {
        let Some(bytes) = self.find(&[Kind::Addon, Kind::File], name, None)? else { return Ok(None) };
        let text = String::from_utf8(bytes)
            .map_err(|_| Report::new(format!("the manifest `{name}` is not UTF-8")))?;
        Ok(Some(text))
    }

    fn file(&self, name: &str, arch: Arch) -> Result<Option<Vec<u8>>, Report> {
        self.find(&[Kind::File, Kind::Bin], name, Some(arch))
    }

    fn images(&self) -> Vec<String> {
        let names: BTreeSet<String> = self.index.images.iter().map(|image| image.name.clone()).collect();
        names.into_iter().collect()
    }
}

impl Source for Content {
    fn read(&self, item: &Item) -> io::Result<Box<dyn Read + Send>> {
        Content::read(self, item)
    }
}
