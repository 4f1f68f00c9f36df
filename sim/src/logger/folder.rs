//! A folder of memory, for the files of the event logger.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;
use taffrail_logging::store::{Folder, empty_memory};

/// Files by their names. They outlive the logger.
#[derive(Debug, Default)]
pub(super) struct MemoryFolder(RefCell<BTreeMap<String, File>>);

impl Folder for MemoryFolder {
    fn open(&self, name: &str) -> Result<File> {
        match self.0.borrow().get(name) {
            Some(file) => file.try_clone(),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn make(&self, name: &str, bytes: &[u8]) -> std::result::Result<(), (&'static str, Error)> {
        let file = empty_memory("simulated-file").map(File::from);
        let file = file.map_err(|error| ("memfd_create", Error::other(error)))?;
        file.write_all_at(bytes, 0).map_err(|error| ("pwrite", error))?;
        self.0.borrow_mut().insert(name.to_owned(), file);
        Ok(())
    }

    fn display(&self, name: &str) -> String {
        name.to_owned()
    }
}
