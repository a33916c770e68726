//! [`Options`]: everything a builder can set, with defaults and limits.

use super::fast_tier::FastTierOptions;
use super::partitions_default;
use super::{Compression, DamagePolicy};
use crate::cache::BlockCache;
use crate::compaction::Overlap;
use crate::error::{Error, Result};
use crate::fast_tier::{FastTierForms, FastTierMode};
use crate::keyspaces::BackpressureLimits;
use crate::lineage::{DurabilityBackend, Settling};
use crate::log::LogOptions;
use crate::memtable::MemtablePool;
use crate::runtime::{CompactionScheduling, Space};
use crate::storage::Storage;
use crate::table::{PACK_BLOCK_BYTES, PACK_BYTES_MAX, TableOptions, TableReads, TableWrites};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The durability of a write when it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The write survives the death of the process, and a power cut once the log is synced: at most
    /// `log_sync_interval` and one sync later.
    #[default]
    Buffered,
    /// The write survives a power cut.
    Sync,
}

/// The options of one write. An option that is not set has the database's default.
///
/// Every call that takes options takes a [`Durability`] in their place too.
///
/// ```
/// use thalweg::{Durability, WriteOptions};
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-write-options-{}", std::process::id()));
/// # let db = thalweg::Database::open(&dir)?;
/// let orders = db.keyspace("orders")?;
/// let options = WriteOptions::new().durability(Durability::Sync);
/// orders.insert_with("1", "one thalweg", options)?;
/// orders.remove_with("1", Durability::Sync)?;
/// # db.close()?; let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    pub(super) durability: Option<Durability>,
    pub(super) frees_space: bool,
}

impl WriteOptions {
    /// Options with the database's defaults.
    pub const fn new() -> Self {
        WriteOptions { durability: None, frees_space: false }
    }

    /// Sets the durability of the write when it returns.
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Declares that the write frees space in the end, though it also inserts: a batch that removes a file's entry and
    /// rewrites its directory's row, for example. On a full disk such a batch is accepted like a removal, from the
    /// space that is kept for removals (`docs/space.md`).
    ///
    /// It has an effect only for a batch that removes something and has at most 80 KiB ([`WriteBatch::bytes`]).
    /// Removals alone need no permission, and inserts alone get `NoSpace`. Do not set it for batches that insert more
    /// than they remove: when the kept space is used up, compactions cannot free any.
    ///
    /// [`WriteBatch::bytes`]: crate::WriteBatch::bytes
    ///
    /// ```
    /// use thalweg::WriteOptions;
    /// # fn main() -> thalweg::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("thalweg-doc-frees-space-{}", std::process::id()));
    /// # let db = thalweg::Database::open(&dir)?;
    /// let (files, rows) = (db.keyspace("files")?, db.keyspace("rows")?);
    /// let mut batch = db.batch();
    /// batch.remove(&files, "notes.txt")?;
    /// batch.insert(&rows, "directory 1", "0 entries")?;
    /// batch.commit_with(WriteOptions::new().frees_space(true))?;
    /// # db.close()?; let _ = std::fs::remove_dir_all(dir);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn frees_space(mut self, frees_space: bool) -> Self {
        self.frees_space = frees_space;
        self
    }
}

impl From<Durability> for WriteOptions {
    fn from(durability: Durability) -> Self {
        WriteOptions::new().durability(durability)
    }
}

/// The shape in which the levels of a keyspace are kept, with its gains and costs: `docs/leveled.md`, `docs/vlsm.md`.
///
/// Each open may choose another policy: it continues with the levels that it finds.
///
/// ```
/// use thalweg::{CompactionPolicy, Database};
/// # let directory = std::env::temp_dir().join(format!("thalweg-policy-{}", std::process::id()));
/// // Level 2 is 16 times as large as level 1, and levels may be 64 MiB too large for a while.
/// let policy = CompactionPolicy::Vlsm { phi: 16, debt_bytes: 64 << 20 };
/// let database = Database::builder(&directory).compaction_policy(policy).open()?;
/// # drop(database);
/// # std::fs::remove_dir_all(&directory).ok();
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactionPolicy {
    /// The classic leveled shape, as RocksDB's: level 0 gathers tables, and all of them are merged into level 1 at
    /// once.
    #[default]
    Leveled,
    /// vLSM's shape. Tables of level 0 go down one by one, or as many as fill one table. Level 1 is as small as
    /// `growth_factor` tables, and cut so that each table overlaps little of level 2. Chains of compactions are short,
    /// and more bytes are written in all.
    Vlsm {
        /// How many times larger level 2 is than level 1: 1 to 1024. The paper has 32. Beyond 64 few tables of level 1
        /// overlap little of level 2.
        phi: u64,
        /// Bytes by which a level may exceed its size before the level above waits, and that level 0 may move down
        /// beyond one table at once. 0: none. A larger debt writes fewer bytes in all and makes chains longer.
        debt_bytes: u64,
    },
}

impl CompactionPolicy {
    /// vLSM with Φ = 32, and without debt.
    pub const VLSM: CompactionPolicy = CompactionPolicy::Vlsm { phi: 32, debt_bytes: 0 };
}

/// How directory keyspaces find an entry; `docs/directory.md` compares the two. It is stored nowhere: each open may
/// choose another.
#[cfg(feature = "experiments")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirectoryStructures {
    /// By the order of hashes within packs.
    #[default]
    Ordered,
    /// As the PhatKV paper does (PHAT-3 to PHAT-6, PHAT-13): a hash table of names for each directory, blocks that
    /// cross no boundary of 4 KiB, and writes of 4 KiB.
    Paper {
        /// Bytes of the hash tables of a keyspace that are kept in memory. The others are in a file without a name, in
        /// the directory of the database.
        f_cache_bytes: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) create_if_missing: bool,
    pub(super) durability: Durability,
    pub(super) backend: DurabilityBackend,
    pub(super) settle_interval: Duration,
    pub(super) retained_bytes_max: Option<u64>,
    pub(super) damage_policy: DamagePolicy,
    pub(super) log_sync_interval: Option<Duration>,
    pub(super) log_segment_bytes: u32,
    pub(super) log_bytes_max: u64,
    pub(super) fast_tier: Option<FastTierOptions>,
    pub(super) fast_tier_log_bytes_max: Option<u64>,
    pub(super) fast_tier_mode: Option<FastTierMode>,
    pub(super) fast_tier_forms: FastTierForms,
    pub(super) memory_budget: Option<u64>,
    pub(super) memtable_bytes: Option<usize>,
    pub(super) sealed_memtables_max: usize,
    pub(super) block_cache_bytes: Option<u64>,
    pub(super) block_bytes: usize,
    pub(super) compression: Compression,
    pub(super) compression_per_level: Vec<Compression>,
    pub(super) filter_bits_per_key: u32,
    pub(super) compaction_policy: CompactionPolicy,
    pub(super) vlsm_overlap: Overlap,
    pub(super) table_bytes: Option<u64>,
    pub(super) level0_trigger: Option<usize>,
    pub(super) level0_patience: Option<usize>,
    pub(super) directory_level0_trigger: Option<usize>,
    #[cfg(feature = "experiments")]
    pub(super) directory_structures: DirectoryStructures,
    pub(super) level1_bytes: u64,
    pub(super) growth_factor: u64,
    pub(super) partitions_max: Option<usize>,
    pub(super) compaction_workers: Option<usize>,
    /// Whether the database has threads of its own.
    pub(super) has_own_threads: bool,
    pub(super) compactions_a_worker: Option<usize>,
    pub(super) pin_compaction_workers: bool,
    pub(super) compaction_scheduling: Option<CompactionScheduling>,
    pub(super) table_writes: TableWrites,
    pub(super) table_reads: TableReads,
    pub(super) io_depth: usize,
    pub(super) io_uring: bool,
    pub(super) sync_delay: Duration,
    #[cfg(feature = "simulation")]
    pub(super) manifest_rotation_bytes: Option<u64>,
    #[cfg(feature = "simulation")]
    pub(super) removed_piece_bytes: Option<u64>,
    #[cfg(feature = "simulation")]
    pub(super) memtables_bytes_max: Option<u64>,
    #[cfg(feature = "simulation")]
    pub(super) name_hash_bits: Option<(u32, u32)>,
    #[cfg(feature = "simulation")]
    pub(super) pack_block_bytes: Option<usize>,
}

const MIB: u64 = 1 << 20;

/// By default a database takes a quarter of the memory that its process may have, and at least 64 MiB.
const MEMORY_PART: u64 = 4;
const MEMORY_BUDGET_MIN: u64 = 64 * MIB;

/// Memtables have a quarter of a database's memory.
const MEMTABLES_PART: u64 = 4;

impl Default for Options {
    fn default() -> Self {
        Options {
            create_if_missing: true,
            durability: Durability::default(),
            backend: DurabilityBackend::default(),
            settle_interval: Duration::from_secs(1),
            retained_bytes_max: None,
            damage_policy: DamagePolicy::default(),
            log_sync_interval: Some(Duration::from_millis(100)),
            log_segment_bytes: 16 << 20,
            log_bytes_max: 512 * MIB,
            fast_tier: None,
            fast_tier_log_bytes_max: None,
            fast_tier_mode: None,
            fast_tier_forms: FastTierForms::default(),
            memory_budget: None,
            memtable_bytes: None,
            sealed_memtables_max: 3,
            block_cache_bytes: None,
            block_bytes: 4 << 10,
            compression: Compression::Lz4,
            compression_per_level: Vec::new(),
            filter_bits_per_key: 10,
            compaction_policy: CompactionPolicy::default(),
            vlsm_overlap: Overlap::default(),
            table_bytes: None,
            level0_trigger: None,
            level0_patience: None,
            directory_level0_trigger: None,
            #[cfg(feature = "experiments")]
            directory_structures: DirectoryStructures::default(),
            level1_bytes: 256 * MIB,
            growth_factor: 8,
            partitions_max: None,
            compaction_workers: None,
            has_own_threads: true,
            compactions_a_worker: None,
            pin_compaction_workers: false,
            compaction_scheduling: None,
            table_writes: TableWrites::default(),
            table_reads: TableReads::default(),
            io_depth: 8,
            io_uring: true,
            sync_delay: Duration::ZERO,
            #[cfg(feature = "simulation")]
            manifest_rotation_bytes: None,
            #[cfg(feature = "simulation")]
            removed_piece_bytes: None,
            #[cfg(feature = "simulation")]
            memtables_bytes_max: None,
            #[cfg(feature = "simulation")]
            name_hash_bits: None,
            #[cfg(feature = "simulation")]
            pack_block_bytes: None,
        }
    }
}

fn out_of_range(rule: impl std::fmt::Display) -> Error {
    Error::invalid_input(format!("an option is out of range: {rule}"))
}

impl Options {
    /// Refuses options that cannot work. The error names the option and its range.
    pub(super) fn validate(&self) -> Result<()> {
        let segment = self.log_segment_bytes;
        let phi = match self.compaction_policy {
            CompactionPolicy::Vlsm { phi, .. } => Some(phi),
            CompactionPolicy::Leveled => None,
        };
        let rules = [
            (
                segment >= 64 << 10 && segment.is_multiple_of(32 << 10),
                "log_segment_bytes: a multiple of 32 KiB from 64 KiB",
            ),
            (segment <= 1 << 30, "log_segment_bytes: at most 1 GiB"),
            (self.log_bytes_max >= 2 * u64::from(segment), "log_bytes_max: at least two segments"),
            (
                self.fast_tier_log_bytes_max.is_none_or(|bytes| bytes >= 2 * u64::from(segment)),
                "fast_tier_log_bytes_max: at least two segments",
            ),
            (self.memory_budget.is_none_or(|bytes| bytes >= 4 * MIB), "memory_budget: at least 4 MiB"),
            (self.memtable_bytes() >= 1 << 10, "memtable_bytes: at least 1 KiB"),
            (self.memtable_bytes() as u64 <= PACK_BYTES_MAX / 2, "memtable_bytes: at most 16 GiB"),
            (self.sealed_memtables_max >= 1, "sealed_memtables_max: at least 1"),
            ((1..=1024).contains(&self.partitions_max()), "partitions_max: 1 to 1024"),
            (self.block_bytes >= 64 && self.block_bytes <= 16 << 20, "block_bytes: 64 B to 16 MiB"),
            (self.filter_bits_per_key <= 64, "filter_bits_per_key: 0 (none) to 64"),
            (self.table_bytes() >= 1 << 10, "table_bytes: at least 1 KiB"),
            (self.level0_trigger() >= 1, "level0_trigger: at least 1"),
            (self.directory_level0_trigger() >= 1, "directory_level0_trigger: at least 1"),
            (self.level1_bytes >= 1 << 10, "level1_bytes: at least 1 KiB"),
            (self.growth_factor >= 2, "growth_factor: at least 2"),
            (phi.is_none() || self.growth_factor <= 1024, "growth_factor with the vLSM policy: 2 to 1024"),
            (phi.is_none_or(|phi| (1..=1024).contains(&phi)), "phi of the vLSM policy: 1 to 1024"),
            ((1..=64).contains(&self.compaction_workers()), "compaction_workers: 1 to 64"),
            ((1..=64).contains(&self.compactions_a_worker()), "compactions_a_worker: 1 to 64"),
            (self.io_depth >= 1 && self.io_depth <= 1024, "io_depth: 1 to 1024"),
            (self.settle_interval != Duration::ZERO, "settle_interval: above zero"),
            (self.log_sync_interval != Some(Duration::ZERO), "log_sync_interval: above zero, or None"),
        ];
        if let Some((_, rule)) = rules.iter().find(|(holds, _)| !holds) {
            return Err(out_of_range(rule));
        }
        let (least, tier) = (4 * self.memtable_bytes() as u64, self.fast_tier());
        match tier.filter(|tier| tier.capacity_bytes < least) {
            Some(FastTierOptions { capacity_bytes, .. }) => {
                let rule = "fast_tier: at least four times memtable_bytes";
                Err(out_of_range(format!("{rule}, {least} bytes, and {capacity_bytes} are given")))
            }
            None => Ok(()),
        }
    }

    /// See [`super::Builder::described`].
    pub(super) fn described(&self) -> Vec<(&'static str, String)> {
        let every = |interval: Option<Duration>| interval.map_or("none".to_owned(), |time| format!("{time:?}"));
        vec![
            ("durability", format!("{:?}", self.durability)),
            ("backend", format!("{:?}", self.backend)),
            ("log_sync_interval", every(self.log_sync_interval)),
            ("settle_interval", format!("{:?}", self.settle_interval)),
            ("log_segment_bytes", self.log_segment_bytes.to_string()),
            ("log_bytes_max", self.log_bytes_max.to_string()),
            ("fast_tier", self.fast_tier().map_or("none".into(), |tier| format!("{tier:?}"))),
            ("fast_tier_log_bytes_max", self.fast_tier_log_bytes_max().map_or("none".into(), |b| b.to_string())),
            #[cfg(feature = "experiments")]
            ("fast_tier_mode", format!("{:?}", self.mode())),
            #[cfg(feature = "experiments")]
            ("fast_tier_forms", format!("{:?}", self.fast_tier_forms)),
            ("memtable_bytes", self.memtable_bytes().to_string()),
            ("sealed_memtables_max", self.sealed_memtables_max.to_string()),
            ("memory_budget", self.memory_budget.map_or("default".into(), |bytes| bytes.to_string())),
            ("block_cache_bytes", self.block_cache_bytes.map_or("within memory_budget".into(), |b| b.to_string())),
            ("compression", format!("{:?}", self.compression).to_lowercase()),
            ("filter_bits_per_key", self.filter_bits_per_key.to_string()),
            ("compaction_policy", format!("{:?}", self.compaction_policy)),
            ("vlsm_overlap", format!("{:?}", self.vlsm_overlap)),
            ("table_bytes", self.table_bytes().to_string()),
            ("level0_trigger", self.level0_trigger().to_string()),
            ("level0_patience", self.level0_patience().to_string()),
            ("directory_level0_trigger", self.directory_level0_trigger().to_string()),
            ("level1_bytes", self.level1_bytes.to_string()),
            ("growth_factor", self.growth_factor.to_string()),
            ("partitions_max", self.partitions_max().to_string()),
            #[cfg(feature = "experiments")]
            ("directory_structures", format!("{:?}", self.directory_structures)),
            ("compaction_workers", self.compaction_workers().to_string()),
            ("compactions_a_worker", self.compactions_a_worker().to_string()),
            ("pin_compaction_workers", self.pin_compaction_workers.to_string()),
            ("compaction_scheduling", format!("{:?}", self.scheduling())),
            ("table_writes", format!("{:?}", self.table_writes)),
            ("table_reads", format!("{:?}", self.table_reads)),
            ("io_uring", self.io_uring.to_string()),
            ("sync_delay", format!("{:?}", self.sync_delay)),
        ]
    }

    pub(super) fn log(&self, space: Arc<Space>) -> LogOptions {
        LogOptions { segment_bytes: self.log_segment_bytes, sync_interval: self.log_sync_interval, space }
    }

    /// The space of a database in `root` with these options.
    pub(super) fn space(&self, storage: &Arc<dyn Storage>, root: &Path) -> Arc<Space> {
        Space::new(Arc::clone(storage), root, self.memtable_bytes() as u64, self.table_bytes())
    }

    pub(super) fn settling(&self) -> Settling {
        Settling {
            backend: self.backend,
            interval_ns: u64::try_from(self.settle_interval.as_nanos()).unwrap_or(u64::MAX),
            retained_bytes_max: self.retained_bytes_max,
            fast_retained_bytes_max: self.fast_retained_bytes_max(),
            log_bytes_max: self.log_bytes_max,
        }
    }

    pub(super) fn tables(&self) -> TableOptions {
        #[cfg(not(feature = "simulation"))]
        let pack_block_bytes = PACK_BLOCK_BYTES;
        #[cfg(feature = "simulation")]
        let pack_block_bytes = self.pack_block_bytes.unwrap_or(PACK_BLOCK_BYTES);
        TableOptions {
            block_bytes: self.block_bytes,
            pack_block_bytes,
            compression: self.compression,
            compression_per_level: self.compression_per_level.clone(),
            filter_bits_per_key: self.filter_bits_per_key,
            writes: self.table_writes,
            may_be_late: self.backend == DurabilityBackend::SettleRounds,
            pack_writes: self.pack_writes(),
            reads: self.table_reads,
            io_depth: self.io_depth,
            defers_writes: self.scheduling().defers_writes(),
        }
    }

    /// The techniques of the paper that the fast tier uses.
    pub(super) fn mode(&self) -> FastTierMode {
        self.fast_tier_mode.unwrap_or_default()
    }

    /// The tier that the caller asks for, if the mode has one.
    pub(super) fn fast_tier(&self) -> Option<&FastTierOptions> {
        self.fast_tier.as_ref().filter(|_| self.mode().uses_tier())
    }

    /// Bytes of the log that the fast tier may pin, if there is one.
    pub(super) fn fast_tier_log_bytes_max(&self) -> Option<u64> {
        let tier = self.fast_tier()?;
        Some(self.fast_tier_log_bytes_max.unwrap_or_else(|| tier.log_bytes_max(self.log_segment_bytes)))
    }

    pub(super) fn is_vlsm(&self) -> bool {
        matches!(self.compaction_policy, CompactionPolicy::Vlsm { .. })
    }

    pub(super) fn memtable_bytes(&self) -> usize {
        let most = self.memory_budget.map_or(u64::MAX, |budget| budget / MEMTABLES_PART / 2);
        let default: u64 = if self.is_vlsm() { 8 * MIB } else { 32 * MIB };
        let default = default.min(most).max(64 << 10);
        self.memtable_bytes.unwrap_or(usize::try_from(default).unwrap_or(usize::MAX))
    }

    /// The memory of the database: the number that was set, or a part of the memory that the process may have.
    pub(super) fn memory_budget(&self, storage: &dyn Storage) -> u64 {
        let default = || storage.memory_max().map_or(MEMORY_BUDGET_MIN, |most| most / MEMORY_PART);
        self.memory_budget.unwrap_or_else(|| default().max(MEMORY_BUDGET_MIN))
    }

    /// The bytes that all memtables may have together: room for one that is filled and one that is flushed at least.
    pub(super) fn memtables_bytes_max(&self, budget: u64) -> u64 {
        #[cfg(feature = "simulation")]
        if let Some(bytes) = self.memtables_bytes_max {
            return bytes;
        }
        (budget / MEMTABLES_PART).max(2 * self.memtable_bytes() as u64)
    }

    /// The memory for memtables of a database that is opened for reading: the budget that was set, or all that the
    /// process may have. The memtables keep the entries that are in the log and in no table.
    pub(super) fn replayed_pool(&self, storage: &dyn Storage) -> MemtablePool {
        let most = self.memory_budget.or_else(|| storage.memory_max());
        let most = most.and_then(|most| usize::try_from(most).ok());
        MemtablePool::bounded(0, most.unwrap_or(usize::MAX))
    }

    /// The block cache, of the size that was set or that memtables leave of the budget.
    pub(super) fn block_cache(&self, storage: &dyn Storage) -> Arc<BlockCache> {
        let budget = self.memory_budget(storage);
        let left = budget.saturating_sub(self.memtables_bytes_max(budget)).max(budget / MEMTABLES_PART);
        match self.block_cache_bytes {
            Some(bytes) => BlockCache::new(bytes),
            None => BlockCache::within_budget(left),
        }
    }

    pub(super) fn table_bytes(&self) -> u64 {
        self.table_bytes.unwrap_or(if self.is_vlsm() { 8 * MIB } else { 64 * MIB })
    }

    pub(super) fn partitions_max(&self) -> usize {
        let (bytes, is_vlsm) = (self.memtable_bytes(), self.is_vlsm());
        let tier_bytes = self.fast_tier.as_ref().map(|tier| tier.capacity_bytes);
        self.partitions_max.unwrap_or_else(|| partitions_default::partitions_max(bytes, is_vlsm, tier_bytes))
    }

    pub(super) fn backpressure(&self) -> BackpressureLimits {
        BackpressureLimits { sealed_max: self.sealed_memtables_max, log_bytes_max: self.log_bytes_max }
    }
}
