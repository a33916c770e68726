//! [`LoneTables`], [`LoneTable`]: tables by themselves, without an engine, to compare layouts (PMB-E1, PMB-E4).

use crate::cache::{BlockCache, Warmth};
use crate::clock::SystemEntropy;
use crate::error::Result;
use crate::fast_table::{Extent, FastCursor, FastLayout, FastTable, FastTableOptions, FastTableWriter};
use crate::format::{Cursor, EntryKind, SeqNo, Slice, TableId, key};
use crate::metrics::Metrics;
use crate::runtime::{Environment, Runtime};
use crate::storage::LinuxStorage;
use crate::table::{
    Compression, PackWrites, PointKey, Table, TableCursor, TableMeta, TableOptions, TableReads, TableStore,
    TableWriters, TableWrites,
};
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// The blocks of all tables of a [`LoneTables`] fit into its cache.
const CACHE_BYTES: u64 = 4 << 30;

/// How a [`LoneTable`] arranges its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableLayout {
    /// The table of the fast tier, in groups of 8.
    Prefixed,
    /// The same, in groups of 16.
    Prefixed16,
    /// An array of pairs and one of their offsets.
    Array,
    /// The same, each pair compressed with LZ4.
    ArrayLz4,
    /// The same, eight pairs compressed at once.
    ArrayLz4Group,
    /// A table file of the engine, whose blocks the block cache has once they were read.
    File,
}

impl TableLayout {
    /// All layouts.
    pub const ALL: [TableLayout; 6] = [
        TableLayout::Prefixed,
        TableLayout::Prefixed16,
        TableLayout::Array,
        TableLayout::ArrayLz4,
        TableLayout::ArrayLz4Group,
        TableLayout::File,
    ];

    fn fast(self) -> Option<(FastLayout, usize)> {
        match self {
            TableLayout::Prefixed => Some((FastLayout::Prefixed, 8)),
            TableLayout::Prefixed16 => Some((FastLayout::Prefixed, 16)),
            TableLayout::Array => Some((FastLayout::Array, 8)),
            TableLayout::ArrayLz4 => Some((FastLayout::ArrayLz4, 8)),
            TableLayout::ArrayLz4Group => Some((FastLayout::ArrayLz4Group, 8)),
            TableLayout::File => None,
        }
    }
}

/// Makes tables of every layout.
pub struct LoneTables {
    store: Arc<TableStore>,
    filter_bits_per_key: u32,
    next_id: AtomicU64,
}

impl fmt::Debug for LoneTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoneTables").finish_non_exhaustive()
    }
}

/// One table.
pub struct LoneTable(Kind);

enum Kind {
    Fast(Arc<FastTable>),
    File(Arc<Table>),
}

impl fmt::Debug for LoneTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoneTable").finish_non_exhaustive()
    }
}

impl LoneTables {
    /// Returns a maker of tables. It writes files into `directory`, which must exist, through the page cache.
    pub fn new(directory: &Path, filter_bits_per_key: u32) -> Result<Self> {
        let runtime = Runtime::new(1)?;
        let (clock, scheduler) = (runtime.clock(), runtime.tenant(1));
        let environment =
            Environment { storage: Arc::new(LinuxStorage), clock, entropy: Arc::new(SystemEntropy), scheduler };
        let options = TableOptions {
            block_bytes: 4 << 10,
            pack_block_bytes: 4 << 10,
            compression: Compression::None,
            compression_per_level: Vec::new(),
            filter_bits_per_key,
            writes: TableWrites::PageCache,
            may_be_late: false,
            reads: TableReads::default(),
            io_depth: 8,
            defers_writes: true,
            pack_writes: PackWrites::default(),
        };
        let (cache, metrics) = (BlockCache::new(CACHE_BYTES), Arc::<Metrics>::default());
        let store = TableStore::new(environment, directory.to_path_buf(), options, cache, metrics, TableId(1));
        Ok(LoneTables { store, filter_bits_per_key, next_id: AtomicU64::new(1) })
    }

    /// Makes a table of these keys and values. Keys ascend. The entries get the sequence number `seq`.
    pub fn build(&self, layout: TableLayout, entries: &[(Vec<u8>, Vec<u8>)], seq: u64) -> Result<LoneTable> {
        let Some((layout, group_entries)) = layout.fast() else {
            return Ok(LoneTable(Kind::File(self.store.open_written(self.write_file(entries, SeqNo(seq))?))));
        };
        let id = TableId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let options = FastTableOptions { layout, group_entries, filter_bits_per_key: self.filter_bits_per_key };
        let mut writer = FastTableWriter::new(id, id.0, options);
        let mut before: &[u8] = &[];
        for (key, value) in entries {
            writer.add(key, key::shared_bytes(before, key), SeqNo(seq), EntryKind::Put, value);
            before = key;
        }
        let (bytes, meta) = writer.finish(Vec::with_capacity);
        Ok(LoneTable(Kind::Fast(FastTable::open(Extent::in_memory(bytes, id), id, meta.generation)?)))
    }

    fn write_file(&self, entries: &[(Vec<u8>, Vec<u8>)], seq: SeqNo) -> Result<TableMeta> {
        let (queue, serve) = self.store.write_queue();
        let writers = TableWriters::new(Arc::clone(&self.store), queue);
        let written = async move {
            let mut writer = writers.create(0).await?;
            let mut before: &[u8] = &[];
            for (key, value) in entries {
                writer.expect(Warmth::Warm);
                if writer.add(key, key::shared_bytes(before, key), seq, EntryKind::Put, value) {
                    writer.write().await?;
                }
                before = key;
            }
            writer.finish().await
        };
        drive(written, serve)
    }
}

/// Drives `work` and the coroutine that serves it.
fn drive<T>(work: impl Future<Output = T>, serve: impl Future<Output = ()>) -> T {
    let (mut work, mut serve) = (std::pin::pin!(work), std::pin::pin!(serve));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = work.as_mut().poll(&mut context) {
            return value;
        }
        let _ = serve.as_mut().poll(&mut context);
    }
}

impl LoneTable {
    /// The length of the table.
    pub fn bytes(&self) -> u64 {
        match &self.0 {
            Kind::Fast(table) => table.bytes(),
            Kind::File(table) => table.meta().bytes,
        }
    }

    /// Returns the value of `key`, from the first of `tables` that has it.
    pub fn get(tables: &[LoneTable], key: &[u8]) -> Result<Option<Slice>> {
        let point = PointKey::new(key, SeqNo::MAX);
        for LoneTable(table) in tables {
            let found = match table {
                Kind::Fast(table) => table.find(&point)?,
                Kind::File(table) => table.find(&point)?,
            };
            if let Some(version) = found {
                return Ok(Some(version.value));
            }
        }
        Ok(None)
    }

    /// A cursor over the table. It keeps the table alive.
    pub fn cursor(&self) -> LoneCursor {
        LoneCursor(match &self.0 {
            Kind::Fast(table) => KindCursor::Fast(Box::new(table.cursor())),
            Kind::File(table) => KindCursor::File(Box::new(table.cursor())),
        })
    }
}

/// A position in a [`LoneTable`].
pub struct LoneCursor(KindCursor);

enum KindCursor {
    Fast(Box<FastCursor>),
    File(Box<TableCursor>),
}

impl fmt::Debug for LoneCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoneCursor").finish_non_exhaustive()
    }
}

impl LoneCursor {
    /// Returns the bytes of up to `count` keys and values from `key` on.
    pub fn scan(&mut self, key: &[u8], count: usize) -> Result<usize> {
        match &mut self.0 {
            KindCursor::Fast(cursor) => scan(&mut **cursor, key, count),
            KindCursor::File(cursor) => scan(&mut **cursor, key, count),
        }
    }
}

fn scan(cursor: &mut impl Cursor, key: &[u8], count: usize) -> Result<usize> {
    let mut bytes = 0;
    cursor.seek(key, SeqNo::MAX)?;
    for _ in 0..count {
        let Some(entry) = cursor.entry() else { break };
        bytes += entry.key.len() + entry.value.into_slice().len();
        cursor.next()?;
    }
    Ok(bytes)
}
