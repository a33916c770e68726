//! [`Entry`]: entries of test tables, and the tables made of them; [`Medium`]: where these lie.

use crate::error::Result;
use crate::fast_table::{Extent, FastLayout, FastTable, FastTableMeta, FastTableOptions, FastTableWriter};
use crate::format::key::shared_bytes;
use crate::format::{Cursor, EntryKind, SeqNo, TableId};
use crate::storage::simulated::SimulatedDisk;
use crate::storage::{OpenMode, Storage};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub(super) const GENERATION: u64 = 0x1122_3344_5566_7788;
pub(super) const ID: TableId = TableId(7);
pub(super) const PATH: &str = "fast-table-7";

/// Fields in the order of internal keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) seq: Reverse<u64>,
    /// `None`: a tombstone.
    pub(super) value: Option<Vec<u8>>,
}

impl Entry {
    pub(super) fn kind(&self) -> EntryKind {
        if self.value.is_some() { EntryKind::Put } else { EntryKind::Remove }
    }
    pub(super) fn value(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default()
    }
}

pub(super) fn put(key: &[u8], seq: u64, value: &[u8]) -> Entry {
    Entry { key: key.to_vec(), seq: Reverse(seq), value: Some(value.to_vec()) }
}

pub(super) fn tombstone(key: &[u8], seq: u64) -> Entry {
    Entry { key: key.to_vec(), seq: Reverse(seq), value: None }
}

/// Every layout, with both sizes of groups, with a filter and without.
pub(super) fn all_options() -> Vec<FastTableOptions> {
    let layouts = [
        (FastLayout::Prefixed, 8),
        (FastLayout::Prefixed, 16),
        (FastLayout::Array, 8),
        (FastLayout::ArrayLz4, 8),
        (FastLayout::ArrayLz4Group, 8),
    ];
    let with = |bits| {
        layouts.map(|(layout, group_entries)| FastTableOptions { layout, group_entries, filter_bits_per_key: bits })
    };
    [with(10), with(0)].concat()
}

pub(super) fn write(entries: &[Entry], options: FastTableOptions) -> (Vec<u8>, FastTableMeta) {
    let mut writer = FastTableWriter::new(ID, GENERATION, options);
    let mut before: &[u8] = &[];
    for entry in entries {
        let shared = if writer.is_empty() { 0 } else { shared_bytes(before, &entry.key) };
        writer.add(&entry.key, shared, SeqNo(entry.seq.0), entry.kind(), entry.value());
        before = &entry.key;
    }
    let estimate = writer.bytes() as f64;
    let (bytes, meta) = writer.finish(Vec::with_capacity);
    assert_eq!(meta.table.bytes, bytes.len() as u64);
    if options.layout == FastLayout::Prefixed && entries.len() > 5000 {
        let ratio = bytes.len() as f64 / estimate;
        assert!((0.8..1.2).contains(&ratio), "{} bytes, estimated as {estimate}", bytes.len());
    }
    (bytes, meta)
}

/// Where a table of a test lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    InPlace,
    /// In a file of a simulated disk that is read through a mapping.
    Mapped,
    /// In a file that cannot be mapped, and whose reads may be short.
    ByPosition,
}

impl Medium {
    pub(super) const ALL: [Medium; 3] = [Medium::InPlace, Medium::Mapped, Medium::ByPosition];
    pub(super) const PAGED: [Medium; 2] = [Medium::Mapped, Medium::ByPosition];

    /// A disk for tables of this medium.
    pub(super) fn disk(self) -> SimulatedDisk {
        let disk = SimulatedDisk::new(1);
        disk.refuse_mappings(self == Medium::ByPosition);
        disk.set_short_reads(if self == Medium::ByPosition { 300 } else { 0 });
        disk
    }

    /// Opens a table with these bytes, which errors call by [`PATH`].
    pub(super) fn open(self, bytes: Vec<u8>) -> Result<Arc<FastTable>> {
        if self == Medium::InPlace {
            return open(bytes);
        }
        let disk = self.disk();
        assert!(disk.write_file(Path::new(PATH), &bytes));
        open_file(&disk)
    }
}

/// Opens the table in the file [`PATH`].
pub(super) fn open_file(disk: &SimulatedDisk) -> Result<Arc<FastTable>> {
    let file = disk.open(Path::new(PATH), OpenMode::Read)?.unwrap();
    let bytes = file.bytes()?;
    FastTable::open(Extent::paged(file, bytes, Arc::default()), ID, GENERATION)
}

pub(super) fn open(bytes: Vec<u8>) -> Result<Arc<FastTable>> {
    FastTable::open(Extent::in_memory(bytes, ID), ID, GENERATION)
}

/// Returns the entry that the cursor stands at.
pub(super) fn here(cursor: &impl Cursor) -> Option<Entry> {
    cursor.valid().then(|| Entry {
        key: cursor.key().to_vec(),
        seq: Reverse(cursor.seq().0),
        value: (cursor.kind() == EntryKind::Put).then(|| cursor.value().to_vec()),
    })
}

/// Returns a key: few different ones, with shared beginnings, zeros, and the empty one.
pub(super) fn random_key(random: &mut fastrand::Rng) -> Vec<u8> {
    let starts = [&b""[..], b"a", b"river/", b"river/bed/deep/and/long/enough/to/tie/in/any/prefix/"];
    let mut key = random.choice(starts).map_or(Vec::new(), <[u8]>::to_vec);
    key.extend((0..random.usize(..6)).map(|_| *random.choice(b"ab\x00\xff").unwrap_or(&0)));
    key
}

/// Returns `count` entries or fewer, in order, each once.
pub(super) fn random_entries(random: &mut fastrand::Rng, count: usize) -> Vec<Entry> {
    let mut sorted = BTreeMap::new();
    for _ in 0..count {
        let (key, seq) = (random_key(random), random.u64(1..=1000));
        let len = if random.u8(..50) == 0 { random.usize(..3000) } else { random.usize(..40) };
        let value = (random.u8(..5) > 0).then(|| vec![random.u8(..); len]);
        sorted.insert((key, Reverse(seq)), value);
    }
    sorted.into_iter().map(|((key, seq), value)| Entry { key, seq, value }).collect()
}
