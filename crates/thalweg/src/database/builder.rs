//! [`Builder`]: opens a database with options.

use super::check::CheckReport;
use super::fast_tier::{FastTier, FastTierOptions};
use super::handle::Database;
use super::open;
use super::options::{CompactionPolicy, Durability, Options};
use super::read_only::ReadOnlyDatabase;
use super::status::RunningStatus;
#[cfg(feature = "experiments")]
use super::{CompactionScheduling, DirectoryStructures, DurabilityBackend, FastTierForms, FastTierMode, Overlap};
use super::{Compression, DamagePolicy, TableReads, TableWrites};
use crate::clock::{Clock, SystemClock, SystemEntropy};
use crate::error::{Error, Result};
use crate::runtime::threads::ThreadScheduler;
use crate::runtime::{Environment, Runtime, Scheduler};
use crate::storage::LinuxStorage;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Opens a database with options. Options are not stored: each open may choose others.
///
/// The open makes the path absolute and resolves its links. Later changes of the working directory or of a link do no
/// harm. Do not rename the directory of an open database: the engine opens files by path.
///
/// ```
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-builder-{}", std::process::id()));
/// let db = thalweg::Database::builder(&dir)
///     .memtable_bytes(8 << 20)
///     .durability(thalweg::Durability::Sync)
///     .open()?;
/// db.keyspace("orders")?.insert("1", "one thalweg")?;
/// # drop(db); let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Builder {
    path: PathBuf,
    pub(super) options: Options,
    environment: Option<Environment>,
    runtime: Option<Runtime>,
}

macro_rules! option {
    ($(#[$meta:meta])* $name:ident: $type:ty) => {
        $(#[$meta])*
        pub fn $name(mut self, $name: $type) -> Self {
            self.options.$name = $name;
            self
        }
    };
}

impl Builder {
    pub(super) fn new(path: &Path) -> Self {
        Builder { path: path.to_path_buf(), options: Options::default(), environment: None, runtime: None }
    }

    option!(
        /// Whether a missing database is created (default: yes).
        create_if_missing: bool
    );
    option!(
        /// The durability of writes that do not choose one (default: [`Durability::Buffered`]).
        durability: Durability
    );
    #[cfg(feature = "experiments")]
    option!(
        /// How table files and edits become durable (default: [`DurabilityBackend::SettleRounds`]).
        backend: DurabilityBackend
    );
    option!(
        /// The time from the first edit of the set of live files to the settle round that makes it and later ones
        /// durable (default: 1 s). The round releases the log of flushed memtables. It frees the space of replaced
        /// tables over one more interval. The durability of writes does not depend on it.
        settle_interval: Duration
    );
    option!(
        /// The most bytes of replaced tables on disk (default, `None`: four times the bytes of the live tables, but at
        /// least 256 MiB, and at most the larger of 1 GiB and a tenth of the live tables). At half of this limit a
        /// settle round begins at once, and removable tables are removed at once. Beyond the limit (and beyond 256 MiB)
        /// writers are slowed down. Compactions of level 0 read at most two thirds of the limit (of 1 GiB by default).
        /// If `level0_trigger` tables and all of level 1 are more than that, the limit may be exceeded.
        retained_bytes_max: Option<u64>
    );
    option!(
        /// How an open treats damage (default: [`DamagePolicy::Strict`]).
        damage_policy: DamagePolicy
    );
    option!(
        /// The interval at which the log is synced in the background: a power cut loses at most the writes of one
        /// interval and one sync (default: 100 ms). `None`: no such syncs, as in LevelDB and RocksDB by default.
        log_sync_interval: Option<Duration>
    );
    option!(
        /// Bytes of a log segment: a multiple of 32 KiB, 64 KiB to 1 GiB (default: 16 MiB).
        log_segment_bytes: u32
    );
    option!(
        /// The bytes of log beyond which the memtables that need its oldest segment are flushed, even small ones; at
        /// least two segments (default: 512 MiB).
        log_bytes_max: u64
    );
    /// Keeps level 0 of ordered keyspaces in a fast tier of `bytes`, at least four memtables (default: no fast tier).
    /// Memtables become tables of the tier. These are compacted there, and evicted to level 0 on disk when the tier is
    /// full (`docs/fast-tier.md`). The tier's memory is not part of [`Builder::memory_budget`]. The log of a tier in
    /// memory is kept: after a crash an open replays it.
    pub fn fast_tier(mut self, medium: FastTier, bytes: u64) -> Self {
        self.options.fast_tier = Some(FastTierOptions { medium, capacity_bytes: bytes });
        self
    }

    /// The most bytes of log that a fast tier in memory may pin, at least two segments (default: three times the bytes
    /// of the tier), in addition to [`Builder::log_bytes_max`]. Near it, the partition that pins the oldest segment is
    /// evicted.
    pub fn fast_tier_log_bytes_max(mut self, fast_tier_log_bytes_max: u64) -> Self {
        self.options.fast_tier_log_bytes_max = Some(fast_tier_log_bytes_max);
        self
    }

    /// The techniques of PM-Blade that the fast tier uses (default: [`FastTierMode::Full`], all of them).
    #[cfg(feature = "experiments")]
    pub fn fast_tier_mode(mut self, fast_tier_mode: FastTierMode) -> Self {
        self.options.fast_tier_mode = Some(fast_tier_mode);
        self
    }

    #[cfg(feature = "experiments")]
    option!(
        /// How the cost models of the fast tier are computed (default: [`FastTierForms::Sound`]).
        fast_tier_forms: FastTierForms
    );

    /// The bytes at which a partition's memtable is sealed and flushed (default: 32 MiB, or 8 MiB with vLSM, and at
    /// most an eighth of a `memory_budget` that was set). The partitions that splits made of one share this number:
    /// when their memtables together reach it, the largest is sealed.
    pub fn memtable_bytes(mut self, memtable_bytes: usize) -> Self {
        self.options.memtable_bytes = Some(memtable_bytes);
        self
    }

    option!(
        /// The number of a partition's sealed memtables at which writers wait for a flush (default: 3).
        sealed_memtables_max: usize
    );
    /// The memory of the database in bytes, for all its keyspaces together; at least 4 MiB (default: a quarter of the
    /// memory of the machine, or of the control group's limit if that is less; at least 64 MiB).
    ///
    /// A quarter of it is for memtables. The rest is for the block cache, filters and indexes of tables, and indexes
    /// of directory keyspaces: the cache shrinks when these grow, to an eighth at least. `docs/memory.md` lists the
    /// memory outside the budget, and the bytes for each entry. If several databases share a process, give each its
    /// part.
    pub fn memory_budget(mut self, memory_budget: u64) -> Self {
        self.options.memory_budget = Some(memory_budget);
        self
    }

    /// A fixed size of the block cache in bytes, shared by all keyspaces (default: the part of
    /// [`Builder::memory_budget`] that nothing else takes).
    pub fn block_cache_bytes(mut self, block_cache_bytes: u64) -> Self {
        self.options.block_cache_bytes = Some(block_cache_bytes);
        self
    }

    option!(
        /// Bytes of a table's data block, before compression (default: 4 KiB).
        block_bytes: usize
    );
    option!(
        /// How table blocks are compressed (default: [`Compression::Lz4`]). Directory keyspaces are never compressed.
        compression: Compression
    );
    option!(
        /// How table blocks are compressed, by level. The first entry is for level 0, which flushes write, the next for
        /// level 1 and so on. The last is also for every level below. A list that is not empty replaces
        /// [`Builder::compression`] (default: empty). Directory keyspaces are never compressed.
        ///
        /// Upper levels are small and rewritten soon. To leave them uncompressed saves processor time and costs little
        /// space. A table that moves down a level without a rewrite stays as it is.
        ///
        /// ```
        /// use thalweg::{Compression, Database};
        /// # let directory = std::env::temp_dir().join(format!("thalweg-levels-{}", std::process::id()));
        /// // Levels 0 and 1 as they are, LZ4 from level 2 on.
        /// let levels = vec![Compression::None, Compression::None, Compression::Lz4];
        /// let database = Database::builder(&directory).compression_per_level(levels).open()?;
        /// # drop(database);
        /// # std::fs::remove_dir_all(&directory).ok();
        /// # Ok::<(), thalweg::Error>(())
        /// ```
        compression_per_level: Vec<Compression>
    );
    option!(
        /// Bits of a table's filter for each key; 0: no filters (default: 10).
        filter_bits_per_key: u32
    );
    option!(
        /// The shape in which the levels are kept (default: [`CompactionPolicy::Leveled`]).
        compaction_policy: CompactionPolicy
    );
    #[cfg(feature = "experiments")]
    option!(
        /// How vLSM measures the overlap of a table of level 1 (default: [`Overlap::Count`]).
        vlsm_overlap: Overlap
    );

    /// The bytes at which compactions close a table (default: 64 MiB; 8 MiB with vLSM, whose tables of level 1 may end
    /// at a part of this size).
    pub fn table_bytes(mut self, table_bytes: u64) -> Self {
        self.options.table_bytes = Some(table_bytes);
        self
    }

    #[cfg(feature = "experiments")]
    option!(
        /// How directory keyspaces find an entry (default: [`DirectoryStructures::Ordered`]).
        directory_structures: DirectoryStructures
    );
    option!(
        /// The least size of level 1 in bytes (default: 256 MiB; 1 KiB and more). Level 1 aims at a quarter of all
        /// bytes below level 0, and has at most three times this size. With a fast tier it has at least
        /// `level0_trigger` times the bytes of the tier. With vLSM it has `growth_factor` times `table_bytes`.
        level1_bytes: u64
    );
    option!(
        /// The greatest ratio of a level's size to the size of the level above, below level 1 (default: 8; 2 and more).
        /// The number of levels follows from it, and all have the same ratio. With vLSM it is the ratio of levels below
        /// level 2, and the number of tables of level 1.
        growth_factor: u64
    );
    /// The greatest number of partitions that splits may make of each partition that a keyspace was created with, 1 to
    /// 1024. 1 means no splits. The default is one for every 2 MiB of [`Builder::memtable_bytes`], at most 16, but 1
    /// where these are fewer than 4. With a fast tier it is one for every 8 MiB of the tier, 8 to 16. With vLSM it is
    /// 1.
    ///
    /// The partitions share the memory for active memtables, and divide the sizes of level 1 and of tables. So, as the
    /// database grows, fewer bytes are compacted before a memtable finds room, and no byte is written more often. A
    /// smaller number than at an earlier open merges no partitions.
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("thalweg-splits-{}", std::process::id()));
    /// let database = thalweg::Database::builder(&directory).partitions_max(32).open()?;
    /// # drop(database);
    /// # std::fs::remove_dir_all(&directory).ok();
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn partitions_max(mut self, partitions_max: usize) -> Self {
        self.options.partitions_max = Some(partitions_max);
        self
    }

    /// The number of threads for compactions, 1 to 64 (default: one for each processor that the process may use, at
    /// most 4). With [`Builder::runtime`]: the number of its threads on which this database compacts (default: 1).
    pub fn compaction_workers(mut self, compaction_workers: usize) -> Self {
        self.options.compaction_workers = Some(compaction_workers);
        self
    }

    /// The number of compactions that take turns on each thread for compactions, as coroutines, 1 to 64 (default:
    /// `io_depth / compaction_workers`, but at least one and at most two; PMB-16). While one waits for the device,
    /// another runs. More of them take more memory, and compact more of a partition at once.
    pub fn compactions_a_worker(mut self, compactions_a_worker: usize) -> Self {
        self.options.compactions_a_worker = Some(compactions_a_worker);
        self
    }
    option!(
        /// Whether each thread for compactions stays on one processor of those that the process may use: the first
        /// thread on the first processor, and so on (default: no; PMB-16). It is for machines whose other processors
        /// have other work. Does nothing with [`Builder::runtime`].
        pin_compaction_workers: bool
    );
    /// How compactions share processors and the device (default: [`CompactionScheduling::PmBlade`], or as
    /// [`Builder::fast_tier_mode`] sets it). Does nothing to the threads of a [`Builder::runtime`].
    #[cfg(feature = "experiments")]
    pub fn compaction_scheduling(mut self, compaction_scheduling: CompactionScheduling) -> Self {
        self.options.compaction_scheduling = Some(compaction_scheduling);
        self
    }

    /// The threads for background work, shared with other databases (default: the database has its own).
    pub fn runtime(mut self, runtime: &Runtime) -> Self {
        self.runtime = Some(runtime.clone());
        self.options.has_own_threads = false;
        self
    }

    option!(
        /// Whether tables are written through the page cache or past it (default: [`TableWrites::Automatic`]).
        table_writes: TableWrites
    );
    option!(
        /// Whether tables that are in the page cache are read through mappings of their files, for which a handler of
        /// `SIGBUS` is installed (default: [`TableReads::Automatic`]).
        table_reads: TableReads
    );
    option!(
        /// The number of operations at the device, of background work and of reads that miss the cache, at which table
        /// writes wait, 1 to 1024 (default: 8). One table write is always admitted.
        io_depth: usize
    );
    #[cfg(feature = "experiments")]
    option!(
        /// For measurements: whether reads, writes and syncs are handed to the kernel's io_uring (default: yes). If
        /// not, the same threads make plain calls (`pread`, `pwrite`, `fdatasync`), and each thread waits for its own
        /// call. Does not change the threads of a [`Builder::runtime`].
        io_uring: bool
    );
    #[cfg(feature = "experiments")]
    option!(
        /// For measurements: the time by which each flush of the device is delayed (default: zero). It is added to
        /// every sync of log, tables, manifests and directories, and counts as the sync's time. A background sync by
        /// io_uring delays no worker.
        sync_delay: Duration
    );

    /// The seams to open with, for simulation.
    #[cfg(feature = "simulation")]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self.options.has_own_threads = false;
        self
    }

    /// The bytes of the log that recovery relies on, by file: for simulation. Changes nothing.
    #[cfg(feature = "simulation")]
    pub fn used_log_ranges(mut self) -> Result<Vec<(PathBuf, std::ops::Range<u64>)>> {
        let environment = self.take_environment()?;
        let ranges = super::check::used_log_ranges(&environment, &self.path);
        environment.scheduler.shutdown();
        ranges
    }

    /// For simulation: replaces a manifest once it has grown by `bytes` bytes.
    #[cfg(feature = "simulation")]
    pub fn manifest_rotation_bytes(mut self, bytes: u64) -> Self {
        self.options.manifest_rotation_bytes = Some(bytes);
        self
    }

    /// For simulation: limits all memtables together to `bytes` bytes.
    #[cfg(feature = "simulation")]
    pub fn memtables_bytes_max(mut self, bytes: u64) -> Self {
        self.options.memtables_bytes_max = Some(bytes);
        self
    }

    /// For simulation: cuts the files of replaced tables into pieces of `bytes` bytes.
    #[cfg(feature = "simulation")]
    pub fn removed_piece_bytes(mut self, bytes: u64) -> Self {
        self.options.removed_piece_bytes = Some(bytes);
        self
    }

    /// For simulation: sets how many bits of a name's hash are used by directory keyspaces that this database creates:
    /// the `highest` bits, 1 to 32, and the `lowest` ones, 0 to 31. With few bits many names have equal hashes, or
    /// differ in the lowest bits alone. A keyspace keeps its numbers of bits.
    #[cfg(feature = "simulation")]
    pub fn name_hash_bits(mut self, highest: u32, lowest: u32) -> Self {
        self.options.name_hash_bits = Some((highest, lowest));
        self
    }

    /// For simulation: ends a block of a pack once it has `bytes` bytes. With few bytes small directories have several.
    #[cfg(feature = "simulation")]
    pub fn pack_block_bytes(mut self, bytes: usize) -> Self {
        self.options.pack_block_bytes = Some(bytes);
        self
    }

    fn take_environment(&mut self) -> Result<Environment> {
        if let Some(environment) = self.environment.take() {
            return Ok(environment);
        }
        self.path = LinuxStorage::resolve(&self.path)?;
        let (clock, scheduler): (Arc<dyn Clock>, Arc<dyn Scheduler>) = match self.runtime.take() {
            Some(runtime) => (runtime.clock(), runtime.tenant(self.options.compaction_workers())),
            None => {
                let clock = Arc::new(SystemClock::default());
                (clock.clone(), Arc::new(ThreadScheduler::with_crew(clock, self.options.crew())?))
            }
        };
        Ok(Environment { storage: Arc::new(LinuxStorage), clock, entropy: Arc::new(SystemEntropy), scheduler })
    }

    /// Checks the options as an open does, without opening anything.
    ///
    /// # Errors
    /// `InvalidInput`: it names the option and its range.
    pub fn validate(&self) -> Result<()> {
        self.options.validate()
    }

    /// The options that decide speed, space and durability, as an open uses them: name and value, defaults filled in.
    /// For logs and reports; names and values may change between versions.
    pub fn described(&self) -> Vec<(&'static str, String)> {
        self.options.described()
    }

    /// Opens the database for reading and writing, and recovers it after a crash.
    ///
    /// # Errors
    /// `Locked` when it is open elsewhere; `NoDatabase` when it is missing and may not be created; `Corruption` when
    /// files are damaged (nothing was changed); `InvalidInput` for options out of range; `Io`, `NoSpace`.
    pub fn open(mut self) -> Result<Database> {
        self.options.validate()?;
        let environment = self.take_environment()?;
        let scheduler = Arc::clone(&environment.scheduler);
        let opened = open::open(environment, &self.path, self.options);
        opened.map(Database::from_engine).inspect_err(|_| scheduler.shutdown())
    }

    /// Opens the database for reading only: replays the log in memory, and never creates, writes, truncates or removes
    /// a file. Several readers may have it open at once; a writer excludes them. [`Builder::fast_tier`] names the
    /// directory of a fast tier that was moved.
    ///
    /// # Errors
    /// As for [`Builder::open`].
    pub fn open_read_only(mut self) -> Result<ReadOnlyDatabase> {
        self.options.validate()?;
        let environment = self.take_environment()?;
        let scheduler = Arc::clone(&environment.scheduler);
        let opened = open::open_read_only(environment, &self.path, self.options);
        opened.map(|engine| ReadOnlyDatabase::from(Database::from_engine(engine))).inspect_err(|_| scheduler.shutdown())
    }

    /// Returns the latest statistics of the process that has the database open for writing; `None` if no process has
    /// written any. Takes no lock and changes nothing, so it works where every open gets `Locked`. If no process has
    /// the database open, they are the last statistics of an earlier one.
    ///
    /// # Errors
    /// `Io`.
    pub fn running_status(mut self) -> Result<Option<RunningStatus>> {
        let environment = self.take_environment()?;
        let status = super::status::read(&*environment.storage, &self.path);
        environment.scheduler.shutdown();
        status
    }

    /// Reads and verifies every byte that the database uses, without changing one. Calls `fault` with each fault: the
    /// first of each table, and those of log and manifest for which an open would be refused.
    ///
    /// # Errors
    /// `Locked`, `NoDatabase`, `Io`. Damage is not an error but a fault.
    pub fn check(mut self, fault: &mut dyn FnMut(Error)) -> Result<CheckReport> {
        self.options.validate()?;
        let environment = self.take_environment()?;
        let fast_tier = self.options.fast_tier().and_then(|tier| tier.directory()).map(|(path, _)| path);
        let report = super::check::check(&environment, &self.path, fast_tier, fault);
        environment.scheduler.shutdown();
        report
    }
}

impl Database {
    /// Options to open the database in the directory `path` with.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// Opens the database in the directory `path` with default options, creating it if it is missing.
    ///
    /// # Errors
    /// See [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Self::builder(path).open()
    }

    /// Reads and verifies every byte that the database in `path` uses, without changing one. Calls `fault` with each
    /// fault.
    ///
    /// # Errors
    /// See [`Builder::check`].
    pub fn check(path: impl AsRef<Path>, fault: &mut dyn FnMut(Error)) -> Result<CheckReport> {
        Self::builder(path).check(fault)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("path", &self.path).field("options", &self.options).finish_non_exhaustive()
    }
}
