//! Verification of a whole table file against the manifest, for recovery.

use crate::error::{Error, Result};
use crate::runtime::Environment;
use crate::storage::{File, OpenMode, Storage};
use crate::table::meta::TableMeta;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// The file is read in pieces of this size, at multiples of it, as direct I/O needs.
const CHUNK_BYTES: usize = 1 << 20;

/// Decides from the bytes of a file whether it is the table that it should be.
pub(crate) trait FileCheck {
    /// Takes the next bytes of the file.
    fn add(&mut self, bytes: &[u8]);
    /// Whether the bytes that the check took are the whole table, and right.
    fn accepts(self) -> Result<bool>;
}

/// The check of a table whose checksum covers the whole file.
struct ChecksumCheck {
    checksum: Box<Xxh3>,
    expected: u64,
}

impl ChecksumCheck {
    fn new(meta: &TableMeta) -> Self {
        ChecksumCheck { checksum: Box::default(), expected: meta.checksum }
    }
}

impl FileCheck for ChecksumCheck {
    fn add(&mut self, bytes: &[u8]) {
        self.checksum.update(bytes);
    }
    fn accepts(self) -> Result<bool> {
        Ok(self.checksum.digest() == self.expected)
    }
}

/// Checks that the file at `path` is `meta.bytes` long and has checksum `meta.checksum`, reading the medium itself.
/// Returns `false` if not, if the file is missing, or if the device cannot read it. Other errors are those of the disk.
pub(crate) fn verify_file(environment: &Environment, path: &Path, meta: &TableMeta) -> Result<bool> {
    verify_bytes(environment, path, meta.bytes, || ChecksumCheck::new(meta))
}

/// As [`verify_file`]. Also makes sure that the medium has the verified bytes. If the file could only be read through
/// the page cache, the page cache may hold bytes that a failed sync lost and left clean. So the same bytes are written
/// again and synced.
pub(crate) fn verify_durably(environment: &Environment, path: &Path, meta: &TableMeta) -> Result<bool> {
    verify_bytes_durably(environment, path, meta.bytes, || ChecksumCheck::new(meta))
}

/// As [`verify_file`], for a file of `bytes` that a check of another kind accepts.
pub(crate) fn verify_bytes<C: FileCheck>(
    environment: &Environment,
    path: &Path,
    bytes: u64,
    check: impl FnOnce() -> C,
) -> Result<bool> {
    Ok(verify(environment, path, bytes, check())?.is_some())
}

/// As [`verify_durably`], for a file of `bytes` that a check of another kind accepts.
pub(crate) fn verify_bytes_durably<C: FileCheck>(
    environment: &Environment,
    path: &Path,
    bytes: u64,
    check: impl Fn() -> C,
) -> Result<bool> {
    match verify(environment, path, bytes, check())? {
        None => Ok(false),
        Some(OpenMode::ReadMedium) => Ok(true),
        Some(_) => write_again(&*environment.storage, path, bytes, check()),
    }
}

/// Returns how the file was read, or `None` if it is not whole, or cannot be read.
fn verify(environment: &Environment, path: &Path, bytes: u64, mut check: impl FileCheck) -> Result<Option<OpenMode>> {
    let Some((file, mode)) = open_medium(&*environment.storage, path)? else { return Ok(None) };
    if file.bytes()? != bytes {
        return Ok(None);
    }
    match read_chunks(&*file, bytes, |chunk| check.add(chunk)) {
        // A power cut may leave a sector that was being written unreadable.
        Err(error) if error.is_unreadable() => Ok(None),
        is_long => Ok((is_long? && check.accepts()?).then_some(mode)),
    }
}

/// Writes the bytes of a file that are in the page cache to their places, and syncs them. Returns `false` if the bytes
/// were not the whole table this time: pages that were dropped since the verification are read from the medium.
fn write_again(storage: &dyn Storage, path: &Path, bytes: u64, mut check: impl FileCheck) -> Result<bool> {
    let refused = || Error::io("open", path, std::io::ErrorKind::Unsupported.into());
    let file = storage.open(path, OpenMode::ReadWrite)?.ok_or_else(refused)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let count = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let chunk = buffer.get_mut(..count).unwrap_or_default();
        file.read_exact_at(offset, chunk)?;
        check.add(chunk);
        file.write_all_at(offset, chunk)?;
        offset += count as u64;
    }
    file.sync()?;
    check.accepts()
}

/// Opens the file past the page cache, or through the page cache if that is refused. Returns the file and its mode, or
/// `None` if the file is missing.
pub(super) fn open_medium(storage: &dyn Storage, path: &Path) -> Result<Option<(Arc<dyn File>, OpenMode)>> {
    for mode in [OpenMode::ReadMedium, OpenMode::Read] {
        match storage.open(path, mode) {
            Ok(Some(file)) => return Ok(Some((file, mode))),
            Ok(None) => {}
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Returns the xxh3-64 of the first `bytes` of the file, or `None` if the file is shorter.
pub(super) fn file_checksum(file: &dyn File, bytes: u64) -> Result<Option<u64>> {
    let mut checksum = Box::<Xxh3>::default();
    let is_long = read_chunks(file, bytes, |chunk| checksum.update(chunk))?;
    Ok(is_long.then(|| checksum.digest()))
}

/// Passes the first `bytes` of the file to `take`, in order. Returns `false` if the file is shorter.
fn read_chunks(file: &dyn File, bytes: u64, mut take: impl FnMut(&[u8])) -> Result<bool> {
    let mut buffer = vec![0; CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(CHUNK_BYTES).max(1))];
    let mut offset = 0;
    while offset < bytes {
        let want = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(buffer.len());
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..want).filter(|rest| !rest.is_empty()) {
            match file.read_at(offset + done as u64, rest)? {
                0 => return Ok(false),
                read => done += read,
            }
        }
        take(buffer.get(..want).unwrap_or_default());
        offset += want as u64;
    }
    Ok(true)
}
