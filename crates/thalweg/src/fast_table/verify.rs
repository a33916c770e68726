//! Verification of a whole file of a fast table against the manifest, for recovery. Unlike the checksum of a table
//! ([`crate::table::verify_file`]), the checksum in the manifest covers only the header of a fast table. So the table
//! is opened in memory, and every checksum in it is verified.

use super::extent::Extent;
use super::table::FastTable;
use crate::error::{Error, Result};
use crate::runtime::Environment;
use crate::storage::OpenMode;
use crate::table::{FileCheck, TableMeta, verify_bytes, verify_bytes_durably};
use std::path::Path;
use std::sync::Arc;

/// The check of a fast table. It holds the whole table in memory.
struct FastCheck<'a> {
    bytes: Vec<u8>,
    path: &'a Path,
    meta: &'a TableMeta,
}

impl FileCheck for FastCheck<'_> {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
    fn accepts(self) -> Result<bool> {
        let extent = Extent::new(Arc::new(self.bytes), Arc::from(self.path), 0);
        match FastTable::open_known(extent, self.meta).and_then(|table| table.verify_all()) {
            Err(Error::Corruption(_)) => Ok(false),
            verified => verified.map(|()| true),
        }
    }
}

/// Checks that the file at `path` is `meta.bytes` long, that its header has the hash `meta.checksum`, and that every
/// other checksum in it is right, reading the medium itself. Returns `false` if not, if the file is missing, or if the
/// device cannot read it. Other errors are those of the disk.
pub(crate) fn verify_fast_file(environment: &Environment, path: &Path, meta: &TableMeta) -> Result<bool> {
    verify_bytes(environment, path, meta.bytes, || FastCheck { bytes: Vec::new(), path, meta })
}

/// Verifies every checksum in a file whose table is live. An error says what is wrong.
pub(crate) fn check_fast_file(environment: &Environment, path: &Path, meta: &TableMeta) -> Result<()> {
    let expected = || format!("a table of {} bytes", meta.bytes);
    let damaged = |found: String| Error::corruption(path, 0, expected(), found);
    let storage = &*environment.storage;
    match storage.file_bytes(path)? {
        Some(bytes) if bytes == meta.bytes => {}
        Some(bytes) => return Err(damaged(format!("{bytes} bytes"))),
        None => return Err(damaged("no such file".into())),
    }
    let refused = || Error::io("open", path, std::io::ErrorKind::Unsupported.into());
    let mut bytes = vec![0; usize::try_from(meta.bytes).map_err(|_| damaged("more than fits into memory".into()))?];
    storage.open(path, OpenMode::Read)?.ok_or_else(refused)?.read_exact_at(0, &mut bytes)?;
    FastTable::open_known(Extent::new(Arc::new(bytes), Arc::from(path), 0), meta)?.verify_all()
}

/// As [`verify_fast_file`]. Also makes sure that the medium has the verified bytes, as [`crate::table::verify_durably`]
/// does.
pub(crate) fn verify_fast_durably(environment: &Environment, path: &Path, meta: &TableMeta) -> Result<bool> {
    verify_bytes_durably(environment, path, meta.bytes, || FastCheck { bytes: Vec::new(), path, meta })
}
