//! [`check_pack`]: checks everything in a pack, for `thalweg check`.

use super::block::{Block, Content};
use super::contents::Walk;
use super::extent::extent_bytes;
use super::open_pack::{OpenPack, entry_hash};
use super::{ALIGNMENT, block_length};
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::format::{EntryKey, EntryKind, SeqNo, Slice, key};
use crate::memory::Buffer;
use crate::storage::Storage;
use crate::table::format::damage::Damage;
use crate::table::format::properties::Properties;
use crate::table::meta::TableMeta;
use crate::table::read::file_reads::Pages;
use std::cmp::Ordering;
use std::path::Path;

/// Checks the pack at `path`: checksums, hashes, fingerprints, fences, the order of entries, what the filter passes,
/// the counts of its properties, and what the manifest says.
pub(in crate::table) fn check_pack(storage: &dyn Storage, path: &Path, meta: &TableMeta) -> Result<()> {
    let pack = OpenPack::open_live(storage, path, meta, &BlockCache::new(0), &Pages::all_there(), &mut |_, _| {})?;
    let mut counted = Properties::new(meta.id, pack.properties.filter_bits_per_key);
    let mut last = SeqNo::MAX;
    let in_contents = |damage: Damage| damage.in_block(path, pack.footer.index.offset);
    let contents = pack.contents()?;
    let mut walk = Walk::new(&contents, pack.footer.data_end()).map_err(in_contents)?;
    let mut blocks = Vec::new();
    while let Some(directory) = walk.next(&contents, &mut blocks).map_err(in_contents)? {
        for (number, listed) in blocks.iter().enumerate() {
            let (offset, block_bytes) = listed.place();
            let bytes = read_block(&pack, offset)?;
            let block = pack.decode(&bytes, offset, directory)?;
            counted.data_bytes = check_block(&pack, &block, offset + bytes.len() as u64, (&mut counted, &mut last))?;
            counted.data_blocks += 1;
            let fence = if number == 0 { 0 } else { pack.hash_key.hash(block.item(0)?.name).fence() };
            if listed.fence.hash != fence || bytes.len() != block_bytes {
                let expected = format!("a block of {} bytes and of fence {fence:#x} at {offset}", bytes.len());
                let found = format!("{block_bytes} bytes and {:#x}", listed.fence.hash);
                return Err(Error::corruption(path, pack.footer.index.offset, expected, found));
            }
        }
    }
    if counted != pack.properties {
        let (expected, found) = (format!("{:?}", pack.properties), format!("{counted:?}"));
        return Err(Error::corruption(path, pack.footer.properties.offset, expected, found));
    }
    Ok(())
}

fn read_block(pack: &OpenPack, offset: u64) -> Result<Slice> {
    let mut head = [0; ALIGNMENT];
    pack.file.read_exact_at(offset, &mut head)?;
    let bytes = block_length(&head);
    Buffer::filled(bytes, |buffer| pack.file.read_exact_at(offset, buffer)).map(Slice::from)
}

/// Checks the block that follows the `counted` ones. Its extents begin at `extent`; `last` is the sequence number of
/// the previous entry. Returns the offset at which its extents end.
fn check_block(
    pack: &OpenPack,
    block: &Block<'_>,
    mut extent: u64,
    (counted, last): (&mut Properties, &mut SeqNo),
) -> Result<u64> {
    let directory = block.directory();
    let damaged = |expected: String, found: String| block.damaged(expected, found);
    for (number, fingerprint) in block.fingerprints().enumerate() {
        let item = block.item(number)?;
        let key = EntryKey::new(directory, item.name, &pack.hash_key);
        if key.hash.fingerprint() != fingerprint {
            return Err(damaged(format!("fingerprint {:?}", key.hash.fingerprint()), format!("{fingerprint:?}")));
        }
        if !pack.may_have(entry_hash(&key)) {
            return Err(damaged("a name that the filter passes".into(), item.name.escape_ascii().to_string()));
        }
        let (kind, value_bytes) = match item.content {
            Content::Remove => (EntryKind::Remove, 0),
            Content::Inline(value) => (EntryKind::Put, value.len()),
            Content::Extent(value_bytes) => (EntryKind::Put, value_bytes as usize),
        };
        if let Content::Extent(value_bytes) = item.content {
            pack.read_extent(extent, value_bytes)?;
            extent += extent_bytes(value_bytes as usize) as u64;
        }
        let key = key.to_bytes();
        let shared = key::shared_bytes(&counted.key_max, &key);
        if counted.entries > 0 && key::compare((&counted.key_max, *last), (&key, item.seq)) != Ordering::Less {
            return Err(damaged("entries in order".into(), format!("item {number} out of order")));
        }
        counted.count(&key, shared, item.seq, kind, value_bytes);
        *last = item.seq;
    }
    Ok(extent)
}
