//! [`Tier`]: the fast tier of a database, level 0 kept in memory (PMB-1), shared by all ordered keyspaces; and
//! [`TierReads`]: the bytes that a partition has in the tier, and its reads and flushes as the models count them.

use super::micro_run::micro_run;
use crate::clock::Clock;
use crate::compaction::FastTableMaker;
use crate::error::{Error, ErrorKind};
use crate::fast_table::FastTableFiles;
use crate::fast_tier::{Calibration, Costs, FastTierForms, FastTierMode, Flushed, Model, Options, Statistics};
use crate::format::TableId;
use crate::keyspaces::{TierDrain, TierRoom};
use crate::runtime::{Event, Health, Space};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};

/// A partition is split when it has 1/`SPLIT_PARTS` of the tier. An eviction takes everything that a partition has
/// there, and gives the room back at its end: the partitions of a young database would be too large for that.
const SPLIT_PARTS: u64 = 16;

/// See the module.
pub(crate) struct Tier {
    pub(crate) room: Arc<TierRoom>,
    pub(super) maker: FastTableMaker,
    /// Bytes at which an internal compaction closes a table.
    pub(super) table_bytes: u64,
    pub(super) model: Model,
    pub(super) calibration: Calibration,
    measured: Once,
    clock: Arc<dyn Clock>,
    /// Keeps the tier empty as long as the tier lives.
    _drain: Option<TierDrain>,
    /// Wakes the coroutines that ask the model.
    wanted: OnceLock<Arc<Event>>,
}

impl std::fmt::Debug for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tier").field("room", &self.room).finish_non_exhaustive()
    }
}

impl Tier {
    /// A tier in which no partition has anything yet. An internal compaction closes a table at `table_bytes`. With a
    /// `drain` the tier is emptied and stays empty.
    pub(crate) fn new(
        room: Arc<TierRoom>,
        maker: FastTableMaker,
        table_bytes: u64,
        (mode, forms): (FastTierMode, FastTierForms),
        clock: Arc<dyn Clock>,
        drain: Option<TierDrain>,
    ) -> Arc<Self> {
        // A tier in files pins no log.
        let log_bytes_max = maker.files().is_none().then(|| room.log_evict_bytes());
        let options = Options { mode, forms, rank: forms.rank(), log_bytes_max, ..Options::default() };
        Arc::new(Tier {
            room,
            maker,
            table_bytes,
            model: Model::new(options),
            calibration: Calibration::new(Costs::default()),
            measured: Once::new(),
            clock,
            _drain: drain,
            wanted: OnceLock::new(),
        })
    }

    /// Sets the event that wakes the coroutines which ask the model.
    pub(super) fn set_wanted(&self, wanted: &Arc<Event>) {
        let is_first = self.wanted.set(Arc::clone(wanted)).is_ok();
        assert!(is_first, "one coroutine asks the model");
    }

    /// The files of its tables; `None` if its tables are in memory.
    pub(crate) fn files(&self) -> Option<&Arc<FastTableFiles>> {
        self.maker.files()
    }

    /// Whether its tables are in files, and edits name them.
    pub(crate) fn is_persistent(&self) -> bool {
        self.maker.files().is_some()
    }

    /// Whether memtables bypass the tier where they can, and its tables are evicted. This holds while a caller waits
    /// for it, while its medium is full, and while the log that the tier pins takes the last room of the disk.
    pub(super) fn is_passed_by(&self, space: &Space) -> bool {
        self.room.is_drained() || !self.is_persistent() && space.is_short()
    }

    /// Bytes at which a partition is split, if it would be split at `bytes` without a tier.
    pub(super) fn split_bytes(&self, bytes: u64) -> u64 {
        bytes.min(self.room.capacity_bytes() / SPLIT_PARTS)
    }

    /// Measures what reads and merges cost here, the first time it is called. Takes about two milliseconds.
    pub(super) fn measure_once(&self) {
        self.measured.call_once(|| {
            let measured = micro_run(&*self.clock, self.maker.options(), self.calibration.costs());
            debug_assert!(measured.is_ok(), "a table that was just made is read");
            measured.into_iter().for_each(|costs| self.calibration.begin_with(costs));
        });
    }

    /// Wakes the coroutines that compact and evict.
    pub(super) fn wake(&self) {
        if let Some(wanted) = self.wanted.get() {
            wanted.notify_all();
        }
    }

    /// Notes that a table failed with this error. If the directory of the tier is full, memtables bypass the tier where
    /// they can, and something is evicted.
    pub(super) fn note_full(&self, error: &Error) {
        if self.is_persistent() && error.kind() == ErrorKind::NoSpace {
            self.room.set_refused(true);
            self.wake();
        }
    }

    /// Removes tables that no edit names, because their edit was refused. If the database is poisoned they stay: the
    /// edit may be in the manifest, and recovery finds out.
    pub(super) fn discard(&self, health: &Health, made: &[TableId]) {
        if health.check().is_ok() {
            made.iter().for_each(|id| self.maker.remove(*id));
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }
}

/// See the module. It lives as long as its partition.
pub(crate) struct TierReads {
    pub(super) statistics: Statistics,
    tier: Arc<Tier>,
    /// Bytes that the partition has in the tier, or [`RETIRED`].
    bytes: AtomicU64,
}

/// The value of `bytes` once they no longer count.
const RETIRED: u64 = u64::MAX;

impl TierReads {
    /// The reads of a new partition. If a split makes it, it takes over half of the rates of `parent`.
    pub(super) fn new(tier: &Arc<Tier>, parent: Option<&TierReads>) -> Arc<Self> {
        let now_ns = tier.now_ns();
        let statistics = match parent {
            None => Statistics::new(now_ns),
            Some(parent) => Statistics::inherited(now_ns, parent.statistics.rates(now_ns).times(0.5)),
        };
        Arc::new(TierReads { statistics, tier: Arc::clone(tier), bytes: AtomicU64::new(0) })
    }

    /// Counts a point read that looks into fast tables.
    #[inline]
    pub(super) fn count_get(&self) {
        if self.statistics.count_get() {
            self.ask_the_model();
        }
    }

    /// Counts a range that looks into fast tables.
    pub(super) fn count_seek(&self) {
        if self.statistics.count_seek() {
            self.ask_the_model();
        }
    }

    /// Notes that a memtable has become a fast table.
    pub(super) fn flushed(&self, table: Flushed) {
        self.statistics.flushed(table);
    }

    /// Counts `bytes` as those that the partition has in the tier, unless these are retired.
    pub(super) fn count_bytes(&self, bytes: u64) {
        let counted = |before| (before != RETIRED).then_some(bytes);
        if let Ok(before) = self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, counted) {
            self.tier.room.replace_live_bytes(before, bytes);
        }
    }

    /// Notes that fast tables have left the partition.
    pub(super) fn tables_left(&self) {
        self.tier.room.count_replacement();
    }

    /// Removes the bytes of the partition from the count, for ever: only readers of a cleared keyspace hold them from
    /// now on. A late writer may still seal a memtable of it.
    pub(super) fn retire(&self) {
        let before = self.bytes.swap(RETIRED, Ordering::AcqRel);
        if before != RETIRED {
            self.tier.room.replace_live_bytes(before, 0);
        }
    }

    #[cold]
    fn ask_the_model(&self) {
        self.tier.wake();
    }
}
