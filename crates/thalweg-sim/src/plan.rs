//! [`Plan`]: the choices of a seed before anything runs: options of the database, clients, and shapes of data.
//!
//! Options are tiny, so that a few hundred writes flush, compact, recycle and move through several levels.

use crate::rng::Rng;
use crate::tier_plan::TierPlan;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use thalweg::{
    Builder, CompactionPolicy, Compression, Database, DirectoryStructures, Durability, DurabilityBackend, Overlap,
};

static BACKEND: OnceLock<DurabilityBackend> = OnceLock::new();

/// Sets the durability back-end of every later plan, on a file system whose files share one journal.
///
/// # Panics
/// When it was called before in this process.
pub fn use_backend(backend: DurabilityBackend) {
    assert!(BACKEND.set(backend).is_ok(), "the back-end is chosen once");
}

/// The choices of one seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of clients; a lone client is checked most strictly.
    pub clients: usize,
    /// Operations of a client in a round.
    pub operations: u64,
    /// One operation in this many is a checkpoint, which is opened and compared.
    pub checkpoint_one_in: u64,
    /// Distinct keys of a client in a keyspace.
    pub keys: u64,
    /// Values above this many bytes are rare.
    pub value_bytes: u64,
    /// Whether some values are larger than a log segment.
    pub huge_values: bool,
    /// The percentage of writes that wait until they are durable.
    pub sync_percent: u64,
    /// The percentage of the other batches that give a ticket.
    pub tickets_percent: u64,
    /// The kernel writes something back in one step of this many.
    pub writeback_one_in: u64,
    /// The file system refuses direct reads.
    pub refuse_medium_reads: bool,
    /// The file system has no hard links.
    pub refuse_hard_links: bool,
    /// Files cannot be mapped for stores.
    pub refuse_mappings: bool,
    /// The file system above the database has no sync of directories.
    pub is_mounted: bool,
    /// The number of open files that the storage reports as allowed.
    pub open_files_told: Option<u64>,
    /// Whether keyspaces are cleared; twins then differ.
    pub clears: bool,
    /// Whether keyspaces come and go often.
    pub churns: bool,
    /// All writes go to one partition, so that only its memtables need the log.
    pub one_partition: bool,
    /// The number of reads in 1000 that come back short.
    pub short_reads_per_mille: u32,
    /// All files share one journal.
    pub share_journal: bool,
    /// The file system does not report its free space.
    pub hide_free_bytes: bool,
    /// The room of memory for files: it decides how tables are written.
    pub file_room_bytes: u64,
    /// The longest time of a sync. `None`: syncs take no time, and time may pass while a task can run.
    sync_ms_max: Option<u64>,
    /// Coroutines hand their syncs to a ring, and their worker continues.
    pub has_rings: bool,
    durability: Durability,
    backend: DurabilityBackend,
    settle_interval_ms: u64,
    retained_bytes_max: Option<u64>,
    compression: Compression,
    log_sync_interval_ms: Option<u64>,
    log_segment_bytes: u32,
    log_bytes_max: u64,
    memtable_bytes: usize,
    sealed_memtables_max: usize,
    /// The small limit on the bytes of all memtables, if there is one: a replay then has to flush.
    memtables_bytes_max: Option<u64>,
    block_cache_bytes: u64,
    block_bytes: usize,
    filter_bits_per_key: u32,
    policy: (CompactionPolicy, Overlap),
    table_bytes: u64,
    level0_trigger: usize,
    /// `level0_patience`, divided by `level0_trigger`.
    level0_patience: usize,
    level1_bytes: u64,
    growth_factor: u64,
    partitions_max: usize,
    /// The percentage of changes and reads that go to the directory keyspace; 0: there is none.
    pub files_percent: u64,
    /// Whether several entries of directories are read at once.
    pub reads_many_files: bool,
    directory_level0_trigger: usize,
    /// The numbers of highest and lowest bits of the hashes of names: few bits, so that many names have equal hashes or
    /// fences.
    name_hash_bits: Option<(u32, u32)>,
    pack_block_bytes: usize,
    directory_structures: DirectoryStructures,
    /// Whether most keys are removed again and again, so that partitions merge.
    pub wanes: bool,
    compaction_workers: usize,
    manifest_rotation_bytes: Option<u64>,
    /// The size of the pieces in which files of replaced tables are cut.
    removed_piece_bytes: u64,
    /// Whether clients have keyspaces compacted.
    pub compacts_ranges: bool,
    /// The fast tier.
    pub tier: TierPlan,
    /// Whether a read-only open precedes each open, and must find the same content.
    pub reads_first: bool,
    /// The seed by which each open after the first draws options of its own.
    changing_options: Option<u64>,
}

/// A random policy, leveled or vLSM with equal chance.
fn random_policy(mut rng: Rng) -> (CompactionPolicy, Overlap) {
    if rng.one_in(2) {
        return (CompactionPolicy::Leveled, Overlap::Count);
    }
    let phi = *rng.choose(&[1, 2, 4, 16]);
    let overlap = *rng.choose(&[Overlap::Count, Overlap::Ratio]);
    let debt_bytes = *rng.choose(&[0, 0, 3 << 10, 20 << 10]);
    (CompactionPolicy::Vlsm { phi, debt_bytes }, overlap)
}

/// The paper's structures in one plan of eight, with an f-cache for no page, a few lines, or a page.
fn random_structures(mut rng: Rng) -> DirectoryStructures {
    let f_cache_bytes = *rng.choose(&[0, 300, 4 << 10]);
    if rng.one_in(8) { DirectoryStructures::Paper { f_cache_bytes } } else { DirectoryStructures::Ordered }
}

/// Hashes of four bits in one plan of four. In a third of the others, hashes such that parts of listings end between
/// equal fences.
fn random_hash_bits(rng: &Rng) -> Option<(u32, u32)> {
    if rng.aside(27).one_in(4) { Some((4, 0)) } else { rng.aside(35).one_in(3).then_some((2, 6)) }
}

impl Plan {
    /// A random plan.
    pub fn random(rng: &mut Rng) -> Self {
        let log_segment_bytes = *rng.choose(&[64_u32, 64, 96, 128]) << 10;
        Plan {
            clients: *rng.choose(&[1, 1, 2, 3, 4]),
            operations: rng.between(20, 120),
            checkpoint_one_in: *rng.choose(&[60, 200, 400]),
            keys: *rng.choose(&[4, 12, 40]),
            value_bytes: *rng.choose(&[30, 100, 300, 1200]),
            huge_values: rng.one_in(8),
            sync_percent: *rng.choose(&[0, 5, 25, 60]),
            tickets_percent: *rng.aside(30).choose(&[0, 0, 30, 80]),
            writeback_one_in: *rng.choose(&[2, 20, 1_000_000]),
            refuse_medium_reads: rng.one_in(6),
            refuse_hard_links: rng.one_in(6),
            refuse_mappings: rng.aside(2).one_in(3),
            is_mounted: rng.aside(20).one_in(4),
            open_files_told: *rng.aside(22).choose(&[None, Some(16), Some(40), Some(100)]),
            clears: rng.aside(23).one_in(4),
            churns: rng.aside(34).one_in(4),
            one_partition: rng.aside(3).one_in(4),
            short_reads_per_mille: *rng.choose(&[0, 0, 100]),
            share_journal: rng.aside(3).one_in(2),
            hide_free_bytes: rng.aside(91).one_in(2),
            file_room_bytes: *rng.aside(48).choose(&[0, 1 << 10, 64 << 10, 1 << 20, 1 << 30]),
            sync_ms_max: *rng.aside(11).choose(&[None, None, Some(2), Some(15), Some(60)]),
            has_rings: rng.aside(12).one_in(2),
            durability: *rng.choose(&[Durability::Buffered, Durability::Buffered, Durability::Sync]),
            backend: *rng.aside(4).choose(&[
                DurabilityBackend::SettleRounds,
                DurabilityBackend::SettleRounds,
                DurabilityBackend::SyncEachFile,
            ]),
            settle_interval_ms: *rng.aside(5).choose(&[1, 5, 20, 100, 1000]),
            retained_bytes_max: *rng.aside(6).choose(&[None, None, Some(4 << 10), Some(32 << 10)]),
            compression: *rng.choose(&[Compression::None, Compression::Lz4]),
            log_sync_interval_ms: *rng.choose(&[None, Some(1), Some(10), Some(100)]),
            log_segment_bytes,
            log_bytes_max: u64::from(log_segment_bytes) * rng.between(2, 6),
            memtable_bytes: *rng.choose(&[1 << 10, 2 << 10, 4 << 10, 8 << 10]),
            sealed_memtables_max: *rng.choose(&[1, 2, 3]),
            memtables_bytes_max: *rng.aside(42).choose(&[None, None, Some(0), Some(4 << 10), Some(16 << 10)]),
            block_cache_bytes: *rng.choose(&[0, 1 << 10, 16 << 10]),
            block_bytes: *rng.choose(&[64, 128, 512]),
            filter_bits_per_key: *rng.choose(&[0, 2, 10]),
            policy: random_policy(rng.aside(8)),
            table_bytes: *rng.choose(&[1 << 10, 2 << 10, 4 << 10]),
            level0_trigger: *rng.choose(&[1, 2, 4]),
            level0_patience: *rng.aside(47).choose(&[1, 1, 2, 4]),
            level1_bytes: *rng.aside(24).choose(&[4 << 10, 4 << 10, 12 << 10]),
            growth_factor: *rng.choose(&[2, 3, 4]),
            partitions_max: *rng.aside(9).choose(&[1, 2, 4, 16]),
            files_percent: *rng.aside(25).choose(&[0, 0, 30, 85]),
            reads_many_files: rng.aside(27).one_in(2),
            directory_level0_trigger: *rng.aside(26).choose(&[1, 2, 4, 16]),
            name_hash_bits: random_hash_bits(rng),
            pack_block_bytes: *rng.aside(28).choose(&[1, 200, 800, 4 << 10]),
            directory_structures: random_structures(rng.aside(29)),
            wanes: rng.aside(10).one_in(2),
            compaction_workers: *rng.choose(&[1, 1, 2]),
            removed_piece_bytes: *rng.aside(7).choose(&[300, 300, 300, 1 << 10, 8 << 20]),
            manifest_rotation_bytes: *rng.aside(1).choose(&[None, None, None, Some(300), Some(1 << 10), Some(4 << 10)]),
            compacts_ranges: rng.aside(36).one_in(2),
            tier: TierPlan::random(rng),
            reads_first: rng.aside(46).one_in(4),
            changing_options: rng.aside(37).one_in(3).then(|| rng.aside(38).next_u64()),
        }
        .with_chosen_backend()
    }

    /// Returns the plan without the choices that would change the histories of the first seeds in `tests/seeds.rs`.
    pub fn as_it_was(self) -> Self {
        Plan { compacts_ranges: false, tier: TierPlan::NONE, changing_options: None, ..self.with_defaults() }
    }

    /// Returns the plan with the default memory of memtables and default fast tier of a database, in every open.
    pub fn with_defaults(self) -> Self {
        Plan { memtables_bytes_max: None, tier: self.tier.with_defaults(), reads_first: false, ..self }
    }

    /// Returns the plan with the options of open `number`. Options are not stored, so each open may have others.
    pub fn of_open(&self, number: u64) -> Self {
        let Some(seed) = self.changing_options.filter(|_| number > 0) else { return self.clone() };
        let mut rng = Rng::new(seed ^ number);
        let other = Plan::random(&mut rng);
        Plan {
            settle_interval_ms: other.settle_interval_ms,
            retained_bytes_max: other.retained_bytes_max,
            compression: other.compression,
            memtable_bytes: other.memtable_bytes,
            sealed_memtables_max: other.sealed_memtables_max,
            memtables_bytes_max: self.memtables_bytes_max.and(other.memtables_bytes_max),
            block_cache_bytes: other.block_cache_bytes,
            block_bytes: other.block_bytes,
            filter_bits_per_key: other.filter_bits_per_key,
            policy: other.policy,
            table_bytes: other.table_bytes,
            level0_trigger: other.level0_trigger,
            level0_patience: other.level0_patience,
            level1_bytes: other.level1_bytes,
            growth_factor: other.growth_factor,
            partitions_max: other.partitions_max,
            directory_level0_trigger: other.directory_level0_trigger,
            pack_block_bytes: other.pack_block_bytes,
            directory_structures: other.directory_structures,
            compaction_workers: other.compaction_workers,
            removed_piece_bytes: other.removed_piece_bytes,
            manifest_rotation_bytes: other.manifest_rotation_bytes,
            tier: TierPlan {
                in_persistent_memory: self.tier.in_persistent_memory,
                mode: self.tier.mode.and(other.tier.mode),
                merges: self.tier.merges,
                moves: self.tier.moves,
                ..other.tier
            },
            ..self.clone()
        }
    }

    /// The plan of the checks of every operation of the disk: one client, a short and busy workload.
    pub fn fixed(operations: u64) -> Self {
        Plan {
            clients: 1,
            operations,
            checkpoint_one_in: 1_000_000,
            keys: 12,
            value_bytes: 150,
            huge_values: false,
            sync_percent: 30,
            tickets_percent: 30,
            writeback_one_in: 50,
            refuse_medium_reads: false,
            refuse_hard_links: false,
            refuse_mappings: false,
            is_mounted: false,
            clears: false,
            open_files_told: Some(40),
            churns: false,
            one_partition: false,
            short_reads_per_mille: 0,
            share_journal: true,
            hide_free_bytes: false,
            file_room_bytes: 1 << 20,
            sync_ms_max: None,
            has_rings: false,
            durability: Durability::Buffered,
            backend: DurabilityBackend::SettleRounds,
            settle_interval_ms: 20,
            retained_bytes_max: None,
            compression: Compression::None,
            log_sync_interval_ms: Some(10),
            log_segment_bytes: 64 << 10,
            log_bytes_max: 128 << 10,
            memtable_bytes: 1 << 10,
            sealed_memtables_max: 1,
            memtables_bytes_max: None,
            block_cache_bytes: 4 << 10,
            block_bytes: 256,
            filter_bits_per_key: 10,
            policy: (CompactionPolicy::Leveled, Overlap::Count),
            table_bytes: 2 << 10,
            level0_trigger: 2,
            level0_patience: 2,
            level1_bytes: 4 << 10,
            growth_factor: 2,
            partitions_max: 4,
            files_percent: 30,
            reads_many_files: true,
            directory_level0_trigger: 2,
            name_hash_bits: None,
            pack_block_bytes: 4 << 10,
            directory_structures: DirectoryStructures::Ordered,
            wanes: false,
            compaction_workers: 1,
            manifest_rotation_bytes: Some(1 << 10),
            removed_piece_bytes: 700,
            compacts_ranges: true,
            tier: TierPlan::NONE,
            reads_first: false,
            changing_options: None,
        }
        .with_chosen_backend()
    }

    /// As [`Plan::fixed`], but most of it is in the directory keyspace, which is cleared now and then. Its merges reach
    /// several levels; directories have several blocks, names have equal hashes, and some values are in extents.
    pub fn directories(operations: u64) -> Self {
        Plan {
            keys: 31,
            value_bytes: 700,
            clears: true,
            memtable_bytes: 4 << 10,
            level1_bytes: 3 << 10,
            files_percent: 85,
            name_hash_bits: Some((4, 0)),
            pack_block_bytes: 600,
            compacts_ranges: false,
            ..Plan::fixed(operations)
        }
    }

    /// The plans of the checks of every operation of the disk, each with its name.
    pub fn workloads(operations: u64) -> [(&'static str, Plan); 5] {
        let tier = Plan {
            tier: TierPlan { bytes: Some((8 << 10, 256 << 10)), ..TierPlan::NONE },
            files_percent: 0,
            compacts_ranges: false,
            ..Plan::fixed(operations)
        };
        [
            ("mixed", Plan::fixed(operations)),
            ("directories", Plan::directories(operations)),
            // Each replay flushes.
            (
                "little memory",
                Plan { memtable_bytes: 8 << 10, memtables_bytes_max: Some(0), ..Plan::fixed(operations) },
            ),
            ("fast tier", tier.clone()),
            ("fast tier in files", Plan { tier: tier.tier.in_files(), ..tier }),
        ]
    }

    /// The plan of `damage`: as small as possible with tables in several levels.
    pub fn small() -> Self {
        Plan {
            keys: 8,
            value_bytes: 40,
            tickets_percent: 0,
            block_bytes: 128,
            table_bytes: 1 << 10,
            level1_bytes: 1 << 10,
            manifest_rotation_bytes: None,
            removed_piece_bytes: 8 << 20,
            pack_block_bytes: 200,
            ..Plan::fixed(60)
        }
    }

    /// Like [`Plan::small`], with a fast tier in files.
    pub fn small_tier() -> Self {
        let tier = TierPlan { bytes: Some((32 << 10, 256 << 10)), ..TierPlan::NONE };
        Plan { tier: tier.in_files(), ..Plan::small() }
    }

    fn with_chosen_backend(self) -> Self {
        match BACKEND.get() {
            Some(&backend) => Plan { backend, share_journal: true, ..self },
            None => self,
        }
    }

    /// The default durability of writes.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The longest time of a sync.
    pub fn sync_ns_max(&self) -> u64 {
        self.sync_ms_max.unwrap_or(0) * 1_000_000
    }

    /// The longest time that a record waits for its sync to be issued, if that is bounded and syncs take time.
    pub fn log_sync_interval_ns(&self) -> Option<u64> {
        self.sync_ms_max.and(self.log_sync_interval_ms).map(|ms| ms * 1_000_000)
    }

    /// Bytes of a log segment.
    pub fn log_segment_bytes(&self) -> u32 {
        self.log_segment_bytes
    }

    /// A builder with this plan's options. `tier`: the directory of a fast tier in files.
    pub fn builder(&self, path: &Path, tier: &Path) -> Builder {
        let mut builder = Database::builder(path);
        if let Some(bytes) = self.manifest_rotation_bytes {
            builder = builder.manifest_rotation_bytes(bytes);
        }
        if let Some(bytes) = self.memtables_bytes_max {
            builder = builder.memtables_bytes_max(bytes);
        }
        if let Some((highest, lowest)) = self.name_hash_bits {
            builder = builder.name_hash_bits(highest, lowest);
        }
        builder = self.tier.applied(builder, tier, self.memtable_bytes);
        builder = builder.removed_piece_bytes(self.removed_piece_bytes).pack_block_bytes(self.pack_block_bytes);
        builder
            .durability(self.durability)
            .backend(self.backend)
            .settle_interval(Duration::from_millis(self.settle_interval_ms))
            .retained_bytes_max(self.retained_bytes_max)
            .compression(self.compression)
            .log_sync_interval(self.log_sync_interval_ms.map(Duration::from_millis))
            .log_segment_bytes(self.log_segment_bytes)
            .log_bytes_max(self.log_bytes_max)
            .memtable_bytes(self.memtable_bytes)
            .sealed_memtables_max(self.sealed_memtables_max)
            .block_cache_bytes(self.block_cache_bytes)
            .block_bytes(self.block_bytes)
            .filter_bits_per_key(self.filter_bits_per_key)
            .compaction_policy(self.policy.0)
            .vlsm_overlap(self.policy.1)
            .table_bytes(self.table_bytes)
            .level0_trigger(self.level0_trigger)
            .level0_patience(self.level0_trigger * self.level0_patience)
            .directory_level0_trigger(self.directory_level0_trigger)
            .directory_structures(self.directory_structures)
            .level1_bytes(self.level1_bytes * self.tier.level1_times())
            .growth_factor(self.growth_factor)
            .partitions_max(self.partitions_max)
            .compaction_workers(self.compaction_workers)
    }
}
