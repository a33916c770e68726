//! Verification: of a whole file against the manifest ([`verify_durably`], recovery), and of everything in it
//! ([`check`], `thalweg check`).

use crate::error::{Error, Result};
use crate::format::key;
use crate::runtime::Environment;
use crate::storage::{File, OpenMode, Storage};
use crate::table::TableMeta;
use crate::table::format::block::{Block, BlockCursor};
use crate::table::format::damage::Damage;
use crate::table::format::filter;
use crate::table::format::properties::Properties;
use crate::table::read::file::{Opened, is_missing};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// The file is read in pieces of this size, at multiples of it: what direct I/O likes.
const CHUNK_BYTES: usize = 1 << 20;

/// Checks that the file at `path` is `meta.bytes` long and has checksum `meta.checksum`, reading the medium itself.
/// `Ok(false)` when it does not, or is missing; errors are those of the disk.
pub(crate) fn verify_file(environment: &Environment, path: &Path, meta: &TableMeta) -> Result<bool> {
    Ok(verify(environment, path, meta)?.is_some())
}

/// As [`verify_file`], and makes sure that the medium has what was verified: where it could only be read through the
/// page cache, that may hold what a failed sync lost and left clean, so the same bytes are written again and synced.
pub(crate) fn verify_durably(environment: &Environment, path: &Path, meta: &TableMeta) -> Result<bool> {
    match verify(environment, path, meta)? {
        None => Ok(false),
        Some(OpenMode::ReadMedium) => Ok(true),
        Some(_) => write_again(&*environment.storage, path, meta),
    }
}

/// How the file was read that was found whole; `None` when it is not.
fn verify(environment: &Environment, path: &Path, meta: &TableMeta) -> Result<Option<OpenMode>> {
    let Some((file, mode)) = open_medium(&*environment.storage, path)? else { return Ok(None) };
    let is_whole = file.bytes()? == meta.bytes && file_checksum(&*file, meta.bytes)? == Some(meta.checksum);
    Ok(is_whole.then_some(mode))
}

/// Writes what the page cache has of a file to where it is, and syncs it. `Ok(false)` when that was not the whole table
/// any more: its pages may have gone since they were verified, and what is read then is the medium's.
fn write_again(storage: &dyn Storage, path: &Path, meta: &TableMeta) -> Result<bool> {
    let refused = || Error::io("open", path, std::io::ErrorKind::Unsupported.into());
    let file = storage.open(path, OpenMode::ReadWrite)?.ok_or_else(refused)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut checksum = Box::<Xxh3>::default();
    let mut offset = 0;
    while offset < meta.bytes {
        let count = usize::try_from(meta.bytes - offset).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let chunk = buffer.get_mut(..count).unwrap_or_default();
        file.read_exact_at(offset, chunk)?;
        checksum.update(chunk);
        file.write_all_at(offset, chunk)?;
        offset += count as u64;
    }
    file.sync()?;
    Ok(checksum.digest() == meta.checksum)
}

/// The file past the page cache, or through it where that is refused, and which; `None` when it is missing.
fn open_medium(storage: &dyn Storage, path: &Path) -> Result<Option<(Arc<dyn File>, OpenMode)>> {
    for mode in [OpenMode::ReadMedium, OpenMode::Read] {
        match storage.open(path, mode) {
            Ok(Some(file)) => return Ok(Some((file, mode))),
            Ok(None) => {}
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// xxh3-64 of the first `bytes` of the file; `None` when it ends before.
fn file_checksum(file: &dyn File, bytes: u64) -> Result<Option<u64>> {
    let mut checksum = Box::<Xxh3>::default();
    let mut buffer = vec![0; CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(CHUNK_BYTES).max(1))];
    let mut offset = 0;
    while offset < bytes {
        let want = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(buffer.len());
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..want).filter(|rest| !rest.is_empty()) {
            match file.read_at(offset + done as u64, rest)? {
                0 => return Ok(None),
                read => done += read,
            }
        }
        checksum.update(buffer.get(..want).unwrap_or_default());
        offset += want as u64;
    }
    Ok(Some(checksum.digest()))
}

/// Reads every byte of the table and checks all that can be checked: checksums of blocks and of the whole file, the
/// order of entries, restarts, index, filter, properties, and what the manifest says. The first fault is the error,
/// naming file and offset.
pub(crate) fn check(environment: &Environment, path: &Path, meta: &TableMeta) -> Result<()> {
    let opened = Opened::open_live(&*environment.storage, path, meta)?;
    let mut counted = Properties::new(meta.id, opened.properties.filter_bits_per_key);
    let blocks = opened.index.blocks();
    for at in 0..blocks {
        let Some(handle) = opened.index.handle(at) else { break };
        let content = opened.read_block(handle)?;
        let checked = Block::parse(content).and_then(|block| {
            block.check_restarts()?;
            check_block(&opened, at, block, &mut counted)
        });
        checked.map_err(opened.damaged(handle))?;
        counted.data_blocks += 1;
        counted.data_bytes = handle.end().unwrap_or(u64::MAX);
    }
    if counted != opened.properties {
        let (expected, found) = (format!("{:?}", opened.properties), format!("{counted:?}"));
        return Err(Error::corruption(path, opened.footer.properties.offset, expected, found));
    }
    let file = open_medium(&*environment.storage, path)?;
    let found = file.map(|(file, _)| file_checksum(&*file, meta.bytes)).transpose()?.flatten();
    if found != Some(meta.checksum) {
        let found = found.map_or_else(|| "a shorter file".into(), |found| format!("{found:#018x}"));
        return Err(Error::corruption(path, 0, format!("file checksum {:#018x}", meta.checksum), found));
    }
    Ok(())
}

/// Checks and counts the entries of data block `at`.
fn check_block(opened: &Opened, at: usize, block: Block, counted: &mut Properties) -> std::result::Result<(), Damage> {
    let mut cursor = BlockCursor::new(block);
    cursor.seek_to_first()?;
    let before = at.checked_sub(1).and_then(|before| opened.index.last_key(before));
    if before.is_some_and(|before| key::compare(before, (cursor.key(), cursor.seq())) != Ordering::Less) {
        return Err(Damage::new(0, "a key after the block before", "one that is not"));
    }
    loop {
        let shared = key::shared_bytes(&counted.key_max, cursor.key());
        let new_key = counted.count(cursor.key(), shared, cursor.seq(), cursor.kind(), cursor.value_bytes().len());
        let passes = |filter: &filter::Filter| filter.may_contain(filter::hash(cursor.key()));
        if new_key && !opened.filter.as_ref().is_none_or(passes) {
            let expected = format!("key \"{}\" in the filter", cursor.key().escape_ascii());
            return Err(Damage::new(cursor.offset(), expected, "a filter without it"));
        }
        if cursor.at_last() {
            break;
        }
        cursor.next()?;
    }
    let last = opened.index.last_key(at);
    if last != Some((cursor.key(), cursor.seq())) {
        let found = format!("\"{}\"", cursor.key().escape_ascii());
        return Err(Damage::new(cursor.offset(), "the last key that the index names", found));
    }
    Ok(())
}
