//! [`check`]: checks everything in a table file, for `thalweg check`.

use super::verify::{file_checksum, open_medium};
use crate::error::{Error, Result};
use crate::format::key;
use crate::runtime::Environment;
use crate::storage::OpenMode;
use crate::table::format::block::{Block, BlockCursor};
use crate::table::format::damage::Damage;
use crate::table::format::filter;
use crate::table::format::properties::Properties;
use crate::table::meta::TableMeta;
use crate::table::pack::check::check_pack;
use crate::table::pack::open_pack::OpenPack;
use crate::table::read::file::TableFile;
use std::cmp::Ordering;
use std::path::Path;

/// Reads every byte of the table and checks all that can be checked: checksums of blocks and of the whole file, the
/// order of entries, restarts, index, filter, properties, and what the manifest says. Returns the first fault as an
/// error that names file and offset.
pub(crate) fn check(environment: &Environment, path: &Path, meta: &TableMeta) -> Result<()> {
    if is_pack(environment, path)? {
        check_pack(&*environment.storage, path, meta)?;
    } else {
        check_table(environment, path, meta)?;
    }
    let file = open_medium(&*environment.storage, path)?;
    let found = file.map(|(file, _)| file_checksum(&*file, meta.bytes)).transpose()?.flatten();
    if found != Some(meta.checksum) {
        let found = found.map_or_else(|| "a shorter file".into(), |found| format!("{found:#018x}"));
        return Err(Error::corruption(path, 0, format!("file checksum {:#018x}", meta.checksum), found));
    }
    Ok(())
}

/// Whether the file is there and ends as a pack does.
fn is_pack(environment: &Environment, path: &Path) -> Result<bool> {
    match environment.storage.open(path, OpenMode::Read) {
        Ok(Some(file)) => OpenPack::is_pack(&*file),
        Ok(None) => Ok(false),
        Err(error) if error.is_missing() => Ok(false),
        Err(error) => Err(error),
    }
}

fn check_table(environment: &Environment, path: &Path, meta: &TableMeta) -> Result<()> {
    let table_file = TableFile::open_live(&*environment.storage, path, meta)?;
    let mut counted = Properties::new(meta.id, table_file.properties.filter_bits_per_key);
    let blocks = table_file.index.blocks();
    for at in 0..blocks {
        let Some(handle) = table_file.index.handle(at) else { break };
        let content = table_file.read_block(handle)?;
        let checked = Block::parse(content).and_then(|block| {
            block.check_restarts()?;
            check_block(&table_file, at, block, &mut counted)
        });
        checked.map_err(table_file.damaged(handle))?;
        counted.data_blocks += 1;
        counted.data_bytes = handle.end().unwrap_or(u64::MAX);
    }
    if counted != table_file.properties {
        let (expected, found) = (format!("{:?}", table_file.properties), format!("{counted:?}"));
        return Err(Error::corruption(path, table_file.footer.properties.offset, expected, found));
    }
    Ok(())
}

/// Checks the entries of data block `at`, and adds them to `counted`.
fn check_block(
    table_file: &TableFile,
    at: usize,
    block: Block,
    counted: &mut Properties,
) -> std::result::Result<(), Damage> {
    let mut cursor = BlockCursor::new(block);
    cursor.seek_to_first()?;
    let before = at.checked_sub(1).and_then(|before| table_file.index.last_key(before));
    if before.is_some_and(|before| key::compare(before, (cursor.key(), cursor.seq())) != Ordering::Less) {
        return Err(Damage::new(0, "a key after the block before", "one that is not"));
    }
    loop {
        let shared = key::shared_bytes(&counted.key_max, cursor.key());
        let new_key = counted.count(cursor.key(), shared, cursor.seq(), cursor.kind(), cursor.value_bytes().len());
        let passes = |filter: &filter::Filter| filter.may_contain(filter::hash(cursor.key()));
        if new_key && !table_file.filter.as_ref().is_none_or(passes) {
            let expected = format!("key \"{}\" in the filter", cursor.key().escape_ascii());
            return Err(Damage::new(cursor.offset(), expected, "a filter without it"));
        }
        if cursor.at_last() {
            break;
        }
        cursor.next()?;
    }
    let last = table_file.index.last_key(at);
    if last != Some((cursor.key(), cursor.seq())) {
        let found = format!("\"{}\"", cursor.key().escape_ascii());
        return Err(Damage::new(cursor.offset(), "the last key that the index names", found));
    }
    Ok(())
}
