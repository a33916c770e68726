//! Entry points for fuzzers: any bytes are read as a fast table, in every way. They must never panic or loop.

use super::extent::Extent;
use super::header::Known;
use super::identity::Identity;
use super::layout::{FastLayout, FastTableOptions};
use super::table::FastTable;
use super::writer::FastTableWriter;
use crate::format::codec::Decoder;
use crate::format::{Cursor, EntryKind, SeqNo, TableId, key};
use crate::storage::simulated::SimulatedDisk;
use crate::storage::{OpenMode, Storage};
use std::path::Path;
use std::sync::Arc;

/// Reads `bytes` as a fast table with the number and the generation that they state: in memory, once with its checksums
/// verified and once without, and in a file.
pub(crate) fn fuzz_fast_table(bytes: &[u8]) {
    let mut decoder = Decoder::new(bytes.get(16..).unwrap_or_default());
    let mut number = || decoder.u64().unwrap_or(0);
    let identity = Identity { table: TableId(number()), generation: number() };
    let in_memory = || Some(Extent::in_memory(bytes.to_vec(), identity.table));
    for (extent, verify) in [(in_memory(), true), (in_memory(), false), (paged(bytes), false)] {
        let Some(extent) = extent else { continue };
        if let Ok(table) = FastTable::open_with(extent, Known::Identity(identity), verify) {
            read_everything(&table);
        }
    }
}

/// Returns a table with these bytes in a mapped file.
fn paged(bytes: &[u8]) -> Option<Extent> {
    let (disk, path) = (SimulatedDisk::new(0), Path::new("table.fast"));
    disk.write_file(path, bytes);
    let file = disk.open(path, OpenMode::Read).ok()??;
    Some(Extent::paged(file, bytes.len() as u64, Arc::default()))
}

fn read_everything(table: &Arc<FastTable>) {
    let mut cursor = table.cursor();
    let mut keys = vec![(Vec::new(), SeqNo::MAX), (vec![0xff; 8], SeqNo(0))];
    let mut moved = cursor.seek_to_first();
    while moved.is_ok() && cursor.valid() {
        if keys.len() < 64 {
            keys.push((cursor.key().to_vec(), cursor.seq()));
        }
        let _ = cursor.value();
        moved = cursor.next();
    }
    let mut moved = cursor.seek_to_last();
    while moved.is_ok() && cursor.valid() {
        moved = cursor.prev();
    }
    let mut scan = table.scan(&Arc::default());
    while scan.advance_in_chunk().is_ok_and(|more| more) || scan.enter_next_chunk().is_ok_and(|more| more) {
        let _ = (scan.key(), scan.value());
    }
    for (key, seq) in keys {
        let _ = table.get(&key, seq);
        let _ = cursor.seek(&key, seq);
        let _ = cursor.seek_before(&key, seq);
    }
    let _ = (table.verify_all(), table.samples(3), table.distinct().estimate());
}

/// Returns a small table of each layout, for a fuzzer to begin with.
pub(crate) fn fast_table_seeds() -> Vec<Vec<u8>> {
    let layouts = [FastLayout::Prefixed, FastLayout::Array, FastLayout::ArrayLz4, FastLayout::ArrayLz4Group];
    layouts.map(seed).to_vec()
}

fn seed(layout: FastLayout) -> Vec<u8> {
    let options = FastTableOptions { layout, group_entries: 8, filter_bits_per_key: 10 };
    let mut writer = FastTableWriter::new(TableId(7), 0x1122_3344_5566_7788, options);
    let mut before = String::new();
    let mut add = |key: String, seq: u64, kind: EntryKind, value: &[u8]| {
        writer.add(key.as_bytes(), key::shared_bytes(before.as_bytes(), key.as_bytes()), SeqNo(seq), kind, value);
        before = key;
    };
    // Three spaces; some keys tie in the prefix, and one has versions over several groups.
    for river in ["danube/with a long name/", "rhine/", "thalweg/of a name that is longer than any prefix/"] {
        for at in 0..132_u64 {
            add(format!("{river}{at:03}"), at + 1, EntryKind::Put, &[at as u8; 3]);
        }
        (1..20).rev().for_each(|seq| add(format!("{river}200"), 1000 + seq, EntryKind::Put, b"version"));
        add(format!("{river}201"), 2000, EntryKind::Remove, b"");
    }
    writer.finish(Vec::with_capacity).0
}
