//! Compaction: policies, the merge, and writing memtables and merges to tables.

use crate::error::Result;
use crate::format::{Cursor, SeqNo, TableId};
use crate::table::{Table, TableMeta, TableStore};
use std::collections::HashSet;
use std::sync::Arc;

/// The tables of one partition: level 0 in flush order (oldest first, may overlap), the others sorted and disjoint.
pub(crate) type Levels = Vec<Vec<Arc<Table>>>;

/// The shape that the classic leveled policy keeps (LevelDB's and RocksDB's).
#[derive(Clone, Debug)]
pub(crate) struct LeveledOptions {
    /// Level 0 is compacted into level 1 when it has this many tables.
    pub(crate) level0_trigger: usize,
    /// Bytes of level 1.
    pub(crate) level1_bytes: u64,
    /// Each level below is this many times larger.
    pub(crate) growth_factor: u64,
    /// An output table is closed at this many bytes.
    pub(crate) table_bytes: u64,
    /// Levels, level 0 included.
    pub(crate) levels_max: usize,
}

/// One compaction.
pub(crate) struct Job {
    /// Inputs of `level`, and what they overlap in `level + 1`.
    pub(crate) level: usize,
    pub(crate) upper: Vec<Arc<Table>>,
    pub(crate) lower: Vec<Arc<Table>>,
    /// The one upper table goes down as it is.
    pub(crate) trivial_move: bool,
    /// No deeper level has keys of the job's range: tombstones that nobody can see any more are dropped.
    pub(crate) bottom: bool,
}

/// The job that the shape of `levels` asks for most, on tables that are not `busy`, or `None`.
#[allow(unused_variables, clippy::unimplemented)]
pub(crate) fn pick(options: &LeveledOptions, levels: &Levels, busy: &HashSet<TableId>) -> Option<Job> {
    unimplemented!()
}

/// Merges the job's inputs to new tables. `snapshots`: the sequence numbers readers may be pinned at, ascending, the
/// visible one last; of the versions of a key only the newest at or below each is kept. `cancelled` is asked now and
/// then. On an error every output so far is removed.
#[allow(unused_variables, clippy::unimplemented)]
pub(crate) async fn merge(
    job: &Job,
    options: &LeveledOptions,
    store: &TableStore,
    snapshots: &[SeqNo],
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<TableMeta>> {
    unimplemented!()
}

/// Writes all entries of a memtable to one table (`None` when it has none), dropping versions no snapshot can see.
/// Tombstones stay.
#[allow(unused_variables, clippy::unimplemented)]
pub(crate) async fn flush(
    entries: &mut (dyn Cursor + Send),
    store: &TableStore,
    snapshots: &[SeqNo],
) -> Result<Option<TableMeta>> {
    unimplemented!()
}
