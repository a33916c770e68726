//! Entry points for fuzzers: read any bytes as a pack or as a block of one, in every way. They must never panic or
//! loop, and must allocate no more than the file has.

use super::fuzz::{Bytes, OneFile};
use crate::cache::BlockCache;
use crate::format::{EntryKey, NameHash, SeqNo, Slice, TableId};
use crate::table::pack::block::{Block, Content};
use crate::table::pack::check::check_pack;
use crate::table::pack::contents::PackSpan;
use crate::table::pack::open_pack::{OpenPack, entry_hash};
use crate::table::pack::scan::PackScan;
use crate::table::pack::{Format, Place, block_length};
use crate::table::range::KeyRange;
use crate::table::read::file_reads::Pages;
use crate::table::read::table::Table;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Waker};

/// The most directories of a pack, and the most names of a directory, that are looked up.
const LOOKUPS_MAX: usize = 64;

/// The directory of a block.
const DIRECTORY: u64 = 5;

/// Reads `bytes` as a block of a pack: as they are, and with the right checksum.
pub(crate) fn fuzz_pack_block(bytes: &[u8]) {
    for format in [Format::One, Format::Two] {
        let place = Place { path: Path::new("fuzzed"), pack: TableId(7), offset: 64, format };
        let mut sealed = bytes.to_vec();
        if let Some(block) = sealed.get_mut(..block_length(bytes).max(8)) {
            let checksum = place.block_checksum(block, DIRECTORY);
            block.iter_mut().zip(checksum.to_le_bytes()).for_each(|(byte, right)| *byte = right);
        }
        [bytes, &sealed].into_iter().for_each(|bytes| read_block(bytes, place));
    }
}

fn read_block(bytes: &[u8], place: Place<'_>) {
    if let Ok(block) = Block::decode(bytes, place, DIRECTORY) {
        let all = bytes.len();
        let _ = (block.directory(), block.fingerprints().count(), block.extents_before(block.head().len()));
        for number in 0..=block.head().len() {
            if let Ok(item) = block.item(number) {
                let bytes = if let Content::Inline(value) = item.content { value.len() } else { 0 };
                assert!(item.name.len() + bytes < all, "an item is within its block");
            }
        }
    }
}

/// Reads `bytes` as a pack: opens it, lists and looks up entries, scans and checks it.
pub(crate) fn fuzz_pack(bytes: &[u8]) {
    let file = Arc::new(Bytes(Arc::from(bytes)));
    let mut directories = Vec::new();
    let mut visit = |directory, span| directories.push((directory, span));
    let Ok(pack) = OpenPack::open(file.clone(), &BlockCache::new(16 << 10), &Pages::all_there(), &mut visit) else {
        return;
    };
    let meta = pack.properties.to_meta(bytes.len() as u64, 0);
    let storage = Arc::new(OneFile(file));
    let _ = check_pack(&*storage, Path::new("fuzzed"), &meta);
    let table = Table::of_pack(storage, pack, bytes.len() as u64);
    for (directory, span) in directories.into_iter().take(LOOKUPS_MAX) {
        read_directory(&table, directory, span);
    }
    drive(scan(&table));
}

/// Lists a directory block by block, and looks up what was listed.
fn read_directory(table: &Arc<Table>, directory: u64, span: PackSpan) {
    let (mut from, mut names) = (NameHash(0), vec![Slice::from_long(b"never there")]);
    while let Ok(fences) = table.fences_above(span, from, 1) {
        let next = fences.first().map(|fence| NameHash(u64::from(*fence) << 32));
        assert!(next.is_none_or(|next| next > from), "a listing goes on");
        let listed = table.visit_entries(span, directory, (from, next), &mut |name, version| {
            let _ = table.pack_value(version.value);
            if names.len() < LOOKUPS_MAX {
                names.push(name);
            }
        });
        let (Ok(()), Some(next)) = (listed, next) else { break };
        from = next;
    }
    let Ok(pack) = table.pack() else { return };
    for name in names {
        let key = EntryKey::new(directory, &name, &pack.hash_key);
        if let Ok(Some(version)) = table.newest_of(span, (&key, entry_hash(&key)), SeqNo::MAX) {
            let _ = table.pack_value(version.value);
        }
    }
}

async fn scan(table: &Arc<Table>) {
    let mut scan = PackScan::new(table, &Arc::<KeyRange>::default());
    loop {
        let in_chunk = scan.advance_in_chunk();
        let Ok(is_there) = in_chunk else { return };
        if !is_there && !matches!(scan.enter_next_chunk().await, Ok(true)) {
            return;
        }
        if scan.read_value().await.is_err() {
            return;
        }
        let _ = (scan.key(), scan.seq(), scan.kind(), scan.value());
    }
}

/// Drives a future to its end.
fn drive(future: impl Future<Output = ()>) {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    while future.as_mut().poll(&mut context).is_pending() {}
}
