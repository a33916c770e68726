//! Merges that read or write fast tables: the minor compaction (a memtable to a fast table), the internal compaction
//! (fast tables to fast tables) and the eviction (fast tables to one table of level 0).
//!
//! A fast table is made in memory. If the tier is a directory, it is then written to a file of its own. The merges
//! change nothing except their outputs.

use super::flush::flush_to;
use super::look_ahead::Cut;
use super::merge::{Steps, merge_runs, retention};
use super::outputs::{Outputs, Store, Writer};
use super::runs::{Input, Run, Scan};
use crate::cache::{BlockCache, Charge, Warmth};
use crate::clock::Entropy;
use crate::error::Result;
use crate::fast_table::{
    Extent, FastScan, FastTable, FastTableFiles, FastTableMeta, FastTableOptions, FastTableWriter, TableOutput,
};
use crate::format::{EntryKind, SeqNo, TableId};
use crate::memory::{NewPiece, Region};
use crate::memtable::SealedEntries;
use crate::sync::Mutex;
use crate::table::{ChargedBuffers, KeyRange, TableMeta, TableStore, TableWriters};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes the fast tables of a database, each with an id and a random generation of its own.
pub(crate) struct FastTableMaker {
    entropy: Arc<dyn Entropy>,
    options: FastTableOptions,
    medium: FastMedium,
    /// The buffers in which a table is put together.
    buffers: Arc<ChargedBuffers>,
}

/// Where fast tables are kept.
pub(crate) enum FastMedium {
    /// In memory: in a region while that has room, else on the heap. The ids are those of no file.
    Memory { region: Option<TierRegion>, next: AtomicU64 },
    /// In files of their own, with ids that no other table has.
    Files { files: Arc<FastTableFiles>, tables: Arc<TableStore> },
}

/// The region of a tier in memory. The block cache is charged for the memory that the region takes beyond the capacity
/// of the tier: replaced tables that merges or readers still hold, and gaps between tables.
pub(crate) struct TierRegion {
    region: Arc<Region>,
    capacity_bytes: u64,
    beyond: Mutex<Charge>,
}

impl FastMedium {
    /// Creates a medium in memory for tables of `bytes` in all. `cache` has less room while the tables take more.
    pub(crate) fn memory(bytes: u64, cache: &Arc<BlockCache>) -> Self {
        let region = Region::new(bytes).map(|region| TierRegion {
            region,
            capacity_bytes: bytes,
            beyond: Mutex::new(Charge::new(cache, 0)),
        });
        FastMedium::Memory { region, next: AtomicU64::new(1) }
    }
}

impl TierRegion {
    /// Charges the block cache for the memory that the region takes beyond the capacity.
    fn count(&self) {
        let mut beyond = self.beyond.lock();
        let bytes = self.region.memory_bytes().saturating_sub(self.capacity_bytes);
        if bytes != beyond.bytes() {
            beyond.set(bytes);
        }
    }
}

impl FastTableMaker {
    pub(crate) fn new(
        entropy: Arc<dyn Entropy>,
        options: FastTableOptions,
        medium: FastMedium,
        buffers: &Arc<ChargedBuffers>,
    ) -> Self {
        FastTableMaker { entropy, options, medium, buffers: Arc::clone(buffers) }
    }

    /// Returns how its tables are arranged.
    pub(crate) fn options(&self) -> FastTableOptions {
        self.options
    }

    /// Returns the files of the tables; `None` for tables in memory.
    pub(crate) fn files(&self) -> Option<&Arc<FastTableFiles>> {
        match &self.medium {
            FastMedium::Memory { .. } => None,
            FastMedium::Files { files, .. } => Some(files),
        }
    }

    /// Returns a writer of the next table, and the generation of that table.
    fn writer(&self) -> (FastTableWriter, u64) {
        let id = match &self.medium {
            FastMedium::Memory { next, .. } => TableId(next.fetch_add(1, Ordering::Relaxed)),
            FastMedium::Files { tables, .. } => tables.take_id(),
        };
        let generation = self.entropy.next_u64();
        (FastTableWriter::with_buffers(id, generation, self.options, self.buffers.pool()), generation)
    }

    /// Finishes a table and keeps it.
    async fn keep(&self, writer: FastTableWriter, generation: u64) -> Result<(Arc<FastTable>, TableMeta)> {
        // At this point the buffers hold the whole table.
        self.buffers.count();
        match &self.medium {
            FastMedium::Memory { region, .. } => {
                let room = |bytes| MadeInMemory::with_room(region.as_ref().map(|tier| &tier.region), bytes);
                let (made, meta) = writer.finish(room);
                let id = meta.table.id;
                let extent = made.extent(id);
                region.iter().for_each(TierRegion::count);
                Ok((FastTable::open(extent, id, generation)?, meta.table))
            }
            FastMedium::Files { files, .. } => {
                let (bytes, FastTableMeta { table: meta, .. }) = writer.finish(Vec::with_capacity);
                files.write(meta.id, &bytes).await?;
                let table = files.open(&meta).inspect_err(|_| drop(files.remove(meta.id)))?;
                Ok((table, meta))
            }
        }
    }

    /// Updates the charges for the memory of tables and buffers, some of which may be gone.
    pub(crate) fn count_memory(&self) {
        self.buffers.count();
        if let FastMedium::Memory { region: Some(region), .. } = &self.medium {
            region.count();
        }
    }

    /// Removes a table that no edit names. A file that cannot be removed now is removed as an orphan by the next open.
    pub(crate) fn remove(&self, id: TableId) {
        if let FastMedium::Files { files, .. } = &self.medium {
            let _ = files.remove(id);
        }
    }
}

/// A fast table that is written to memory.
enum MadeInMemory {
    Region(NewPiece),
    Heap(Vec<u8>),
}

impl MadeInMemory {
    /// Begins a table in the region if that has a place for `bytes`, else on the heap.
    fn with_room(region: Option<&Arc<Region>>, bytes: usize) -> Self {
        match region.and_then(|region| region.begin(bytes)) {
            Some(piece) => MadeInMemory::Region(piece),
            None => MadeInMemory::Heap(Vec::with_capacity(bytes)),
        }
    }

    fn extent(self, id: TableId) -> Extent {
        match self {
            MadeInMemory::Region(piece) => Extent::in_memory(piece.done(), id),
            MadeInMemory::Heap(bytes) => Extent::in_memory(bytes, id),
        }
    }
}

impl TableOutput for MadeInMemory {
    fn append(&mut self, bytes: &[u8]) {
        match self {
            MadeInMemory::Region(piece) => piece.append(bytes),
            MadeInMemory::Heap(heap) => TableOutput::append(heap, bytes),
        }
    }
    fn overwrite(&mut self, first: &[u8]) {
        match self {
            MadeInMemory::Region(piece) => piece.overwrite(first),
            MadeInMemory::Heap(heap) => TableOutput::overwrite(heap, first),
        }
    }
}

/// Fast tables, by age and by key.
#[derive(Clone, Default)]
pub(crate) struct FastInputs {
    /// They overlap. Each is a run of its own.
    pub(crate) unsorted: Vec<Arc<FastTable>>,
    /// In key order, disjoint.
    pub(crate) sorted: Vec<Arc<FastTable>>,
}

impl FastInputs {
    fn runs(&self, range: &Arc<KeyRange>) -> Vec<Run<Arc<FastTable>>> {
        let unsorted = self.unsorted.iter().map(|table| vec![Arc::clone(table)]);
        unsorted.chain([self.sorted.clone()]).map(|run| Run::new(run, range)).collect()
    }
}

/// Writes all entries of a memtable to one fast table, like [`super::flush`]. Returns `None` if there are no entries.
pub(crate) async fn flush_fast(
    entries: &mut impl SealedEntries,
    maker: &FastTableMaker,
    snapshots: &[SeqNo],
) -> Result<Option<Arc<FastTable>>> {
    let store = FastStore::new(maker);
    flush_to(entries, &store, snapshots).await?;
    let mut made = store.take();
    assert!(made.len() <= 1, "a minor compaction makes one table");
    Ok(made.pop())
}

/// Merges the entries of the inputs in `range` to fast tables of about `table_bytes`, in key order. Tombstones stay,
/// because they hide entries in lower levels. `snapshots` and `steps` are those of [`super::merge`].
pub(crate) async fn compact_fast(
    inputs: &FastInputs,
    range: &Arc<KeyRange>,
    (maker, table_bytes): (&FastTableMaker, u64),
    snapshots: &[SeqNo],
    steps: &dyn Steps,
) -> Result<Vec<Arc<FastTable>>> {
    let store = FastStore::new(maker);
    let outputs = Outputs::new(&store, 0, Cut::Size(table_bytes));
    merge_runs(inputs.runs(range), retention(snapshots, false), outputs, steps).await?;
    Ok(store.take())
}

/// Writes the entries of the inputs in `range` to one table of level 0. Returns `None` if there are no entries. On an
/// error the output is removed. `snapshots` and `steps` are those of [`super::merge`].
pub(crate) async fn evict(
    inputs: &FastInputs,
    range: &Arc<KeyRange>,
    store: &TableWriters,
    snapshots: &[SeqNo],
    steps: &dyn Steps,
) -> Result<Option<TableMeta>> {
    // One table, whatever its size, like a flush: level 0 counts tables, and readers look into each of them.
    let outputs = Outputs::new(store, 0, Cut::Size(u64::MAX));
    let mut tables = merge_runs(inputs.runs(range), retention(snapshots, false), outputs, steps).await?;
    assert!(tables.len() <= 1, "an eviction writes one table");
    Ok(tables.pop())
}

/// Makes fast tables, and keeps those that are finished.
struct FastStore<'a> {
    maker: &'a FastTableMaker,
    made: Arc<Mutex<Vec<Arc<FastTable>>>>,
}

impl<'a> FastStore<'a> {
    fn new(maker: &'a FastTableMaker) -> Self {
        FastStore { maker, made: Arc::default() }
    }

    /// Takes the finished tables, in the order of their keys.
    fn take(&self) -> Vec<Arc<FastTable>> {
        std::mem::take(&mut *self.made.lock())
    }
}

impl<'a> Store for FastStore<'a> {
    type Writer = FastWriter<'a>;
    async fn create(&self, _: usize) -> Result<FastWriter<'a>> {
        let (writer, generation) = self.maker.writer();
        Ok(FastWriter { writer, generation, maker: self.maker, made: Arc::clone(&self.made) })
    }
    fn remove(&self, id: TableId) -> Result<()> {
        self.made.lock().retain(|table| table.meta().id != id);
        self.maker.remove(id);
        Ok(())
    }
    fn path(&self, id: TableId) -> PathBuf {
        match self.maker.files() {
            Some(files) => files.path(id),
            None => PathBuf::from(format!("fast-table-{id}")),
        }
    }
}

/// A fast table that is being made.
struct FastWriter<'a> {
    writer: FastTableWriter,
    generation: u64,
    maker: &'a FastTableMaker,
    made: Arc<Mutex<Vec<Arc<FastTable>>>>,
}

impl Writer for FastWriter<'_> {
    #[inline]
    fn add(&mut self, key: &[u8], shared: usize, seq: SeqNo, kind: EntryKind, value: &[u8]) -> bool {
        self.writer.add(key, shared, seq, kind, value);
        false
    }
    fn expect(&mut self, _: Warmth) {}
    async fn write(&mut self) -> Result<()> {
        Ok(())
    }
    fn bytes(&self) -> u64 {
        self.writer.bytes()
    }
    async fn finish(self) -> Result<TableMeta> {
        let (table, meta) = self.maker.keep(self.writer, self.generation).await?;
        self.made.lock().push(table);
        Ok(meta)
    }
    async fn abandon(self) {}
}

impl Input for Arc<FastTable> {
    type Scan = FastScan;
    fn meta(&self) -> &TableMeta {
        FastTable::meta(self)
    }
    fn scan(&self, range: &Arc<KeyRange>) -> FastScan {
        FastTable::scan(self, range)
    }
    fn samples(&self, most: usize) -> Result<Vec<(Box<[u8]>, u64)>> {
        FastTable::samples(self, most)
    }
}

impl Scan for FastScan {
    #[inline]
    fn advance_in_chunk(&mut self) -> Result<bool> {
        FastScan::advance_in_chunk(self)
    }
    async fn enter_next_chunk(&mut self) -> Result<bool> {
        FastScan::enter_next_chunk(self)
    }
    fn key(&self) -> &[u8] {
        FastScan::key(self)
    }
    fn seq(&self) -> SeqNo {
        FastScan::seq(self)
    }
    fn kind(&self) -> EntryKind {
        FastScan::kind(self)
    }
    fn value(&self) -> &[u8] {
        FastScan::value(self)
    }
    fn warmth(&self) -> Warmth {
        Warmth::Warm
    }
}
