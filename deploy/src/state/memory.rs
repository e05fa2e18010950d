//! State that goes with the process: for tests, and for callers that keep it elsewhere.

use super::{Name, State};
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

#[derive(Default)]
pub struct Memory(Mutex<BTreeMap<Name, Vec<u8>>>);

impl State for Memory {
    fn get(&self, name: &Name) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock().expect("no panic while locked").get(name).cloned())
    }

    fn put(&self, name: &Name, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().expect("no panic while locked").insert(name.clone(), bytes.to_vec());
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<Name>> {
        Ok(self.0.lock().expect("no panic while locked").keys().cloned().collect())
    }

    fn remove(&self, name: &Name) -> io::Result<()> {
        self.0.lock().expect("no panic while locked").remove(name);
        Ok(())
    }
}
