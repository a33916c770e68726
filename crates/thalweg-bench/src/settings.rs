//! [`Settings`]: how an engine is tuned, in words that every engine understands.

use serde::{Deserialize, Serialize};

/// Where settings that are not given come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Tuning {
    /// Thalweg's defaults: 128 MiB cache, LZ4, the log synced every 100 ms. Other engines get the same sizes, filters
    /// and jobs, where they have such settings.
    #[default]
    #[serde(alias = "defaults")]
    #[value(alias = "defaults")]
    Default,
    /// The papers' settings, the same for every engine (NOB-E, PHAT-16, VLSM-12): 64 MiB memtables and tables, 1 GiB
    /// cache, filters of 10 bits a key, no compression, no periodic sync of the log.
    Paper,
    /// Each engine's own defaults, whatever they are.
    Own,
}

impl Tuning {
    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Tuning::Default => "default",
            Tuning::Paper => "paper",
            Tuning::Own => "own",
        }
    }
}

/// How tables are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4.
    Lz4,
    /// Snappy.
    Snappy,
}

/// Whether tables are written and read through the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TableIo {
    /// Through it.
    Cached,
    /// Past it.
    Direct,
}

/// How Thalweg makes its reads, writes and syncs (PHAT-13, PHAT-E8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Io {
    /// By `io_uring`: a thread has several in flight.
    Uring,
    /// By plain calls: a thread waits for each.
    Posix,
}

/// How Thalweg's compactions share processors and the device (PMB-13 to PMB-16, PMB-E9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// Coroutines that read and merge, and one on each worker that writes, behind a gate.
    PmBlade,
    /// Coroutines that also write.
    Coroutines,
    /// Threads that wait for each read and write.
    Threads,
}

/// Which of PM-Blade's techniques Thalweg's fast tier uses (PMB-E8, PMB-E10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FastTierMode {
    /// No tier, compactions as threads.
    Ssd,
    /// Arrays, no cost models, all evicted at once, compactions as threads.
    P,
    /// As `p`, with the cost models.
    Pi,
    /// As `pi`, with tables of prefixes.
    Pic,
    /// As `pic`, with compactions as coroutines: all of PM-Blade.
    Full,
    /// As `full` without the cost models, all evicted at once.
    Pm,
}

/// How the cost models of Thalweg's fast tier are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FastTierForms {
    /// As Thalweg reads them.
    Sound,
    /// As the paper has them.
    Paper,
}

/// How tables become durable: Thalweg's back-ends (NOB-E1: with and without syncs).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Many at once, in the background.
    SettleRounds,
    /// One by one, and the flush or compaction waits.
    SyncEachFile,
    /// NobLSM's own rule. A power cut may lose data.
    Paper,
    /// Not before the close. A power cut may lose all data.
    None,
}

/// Which kind of keyspace Thalweg has the records in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Keyspace {
    /// A sorted map.
    Ordered,
    /// Entries of directories (PhatKV): the first eight bytes of a key are the directory, the rest is the name. For the
    /// `metadata` workloads only.
    Directory,
}

/// How a directory keyspace of Thalweg finds an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Structures {
    /// By the order of hashes within packs.
    Ordered,
    /// As the `PhatKV` paper does: by a hash table of names for each directory (PHAT-3 to PHAT-6).
    Paper,
}

/// Which shape Thalweg keeps its levels in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The classic leveled shape.
    Leveled,
    /// Short and narrow chains of compactions (VLSM-1 to VLSM-10).
    Vlsm,
}

/// How vLSM measures the overlap of a table of level 1 with level 2 (VLSM-A1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// In tables of level 2.
    Count,
    /// In bytes of level 2 for each of its own.
    Ratio,
}

/// How an engine is tuned. `None` leaves a setting to the engine's own default; an engine that lacks a setting ignores
/// it, and lists it in [`crate::engine::Description::ignored`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Where settings that are not given come from.
    pub tuning: Tuning,
    /// Bytes of a memtable.
    pub memtable_bytes: Option<u64>,
    /// Memtables a partition may have, the active one included, before writers wait.
    pub memtables_max: Option<u32>,
    /// Bytes of a table.
    pub table_bytes: Option<u64>,
    /// Bytes of the block cache.
    pub cache_bytes: Option<u64>,
    /// Bits a key of the filters; 0: none.
    pub filter_bits_per_key: Option<u32>,
    /// How tables are compressed.
    pub compression: Option<Compression>,
    /// Flushes and compactions that may run at once.
    pub background_jobs: Option<u32>,
    /// Compactions that take turns on a thread.
    pub compactions_a_worker: Option<u32>,
    /// Operations that the background may have at the device before table writes wait.
    pub io_depth: Option<u32>,
    /// How compactions share processors and the device; Thalweg alone has a choice.
    pub scheduling: Option<Scheduling>,
    /// Whether each thread for compactions is kept on one processor; Thalweg alone does that.
    pub pin_workers: bool,
    /// Tables in level 0 that start a compaction.
    pub level0_trigger: Option<u32>,
    /// Tables in level 0 that start a compaction while nothing is read; Thalweg alone has this setting.
    pub level0_patience: Option<u32>,
    /// Bytes of level 1.
    pub level1_bytes: Option<u64>,
    /// How many times larger each level below level 1 is.
    pub growth_factor: Option<u32>,
    /// Into how many partitions one may be split as it grows.
    pub partitions_max: Option<u32>,
    /// Bytes of the fast tier; Thalweg alone has one.
    pub fast_tier_bytes: Option<u64>,
    /// The fast tier is in files in the directory of the database, not in memory.
    pub fast_tier_files: bool,
    /// Bytes of the log that the fast tier may pin.
    pub fast_tier_log_bytes: Option<u64>,
    /// Which of PM-Blade's techniques the fast tier uses.
    pub fast_tier_mode: Option<FastTierMode>,
    /// How the cost models of the fast tier are computed.
    pub fast_tier_forms: Option<FastTierForms>,
    /// Which kind of keyspace has the records; Thalweg alone has a choice.
    pub keyspace: Option<Keyspace>,
    /// How a directory keyspace finds an entry.
    pub structures: Option<Structures>,
    /// Memory in bytes for the paper's hash tables.
    pub f_cache_bytes: Option<u64>,
    /// Which shape the levels are kept in; Thalweg alone has a choice. With vLSM the tuning of the papers is VLSM-12's:
    /// memtables and tables of 8 MiB, and level 0 is compacted at each single table.
    pub policy: Option<Policy>,
    /// vLSM: how many times larger level 2 is than level 1 (Φ).
    pub phi: Option<u32>,
    /// vLSM: how overlap is measured.
    pub overlap: Option<Overlap>,
    /// vLSM: bytes by which a level may be too large for a while.
    pub debt_bytes: Option<u64>,
    /// Milliseconds between the log's periodic syncs; 0: none, as in LevelDB and RocksDB.
    pub log_sync_interval_ms: Option<u64>,
    /// Whether tables are written and read through the page cache. The papers' RocksDB bypasses it.
    pub table_io: Option<TableIo>,
    /// How reads, writes and syncs are made; Thalweg alone has a choice.
    pub io: Option<Io>,
    /// How tables become durable; Thalweg alone has a choice.
    pub backend: Option<Backend>,
    /// Milliseconds between settle rounds.
    pub settle_interval_ms: Option<u64>,
    /// Microseconds added to each sync, as if the device's flushes took longer; Thalweg alone has this setting.
    pub flush_delay_us: Option<u64>,
    /// Partitions (column families of equal key ranges); `None` or 1: one.
    pub partitions: Option<u32>,
    /// Each write is durable before it returns.
    pub sync: bool,
}

/// The number of Thalweg's default background jobs on this machine: one flush, and its compaction workers.
fn thalwegs_background_jobs() -> u32 {
    let described = thalweg::Database::builder("").described();
    let workers = described.iter().find(|(name, _)| *name == "compaction_workers");
    1 + workers.and_then(|(_, workers)| workers.parse::<u32>().ok()).unwrap_or(1)
}

impl Settings {
    /// Fills in the settings of the tuning. Settings that the tuning leaves to Thalweg's own defaults stay open.
    pub fn resolved(&self) -> Settings {
        let mut settings = self.clone();
        if settings.tuning == Tuning::Paper {
            let is_vlsm = settings.policy == Some(Policy::Vlsm);
            let table_bytes = if is_vlsm { 8 << 20 } else { 64 << 20 };
            settings.memtable_bytes.get_or_insert(table_bytes);
            settings.memtables_max.get_or_insert(4);
            settings.table_bytes.get_or_insert(table_bytes);
            settings.cache_bytes.get_or_insert(1 << 30);
            settings.filter_bits_per_key.get_or_insert(10);
            settings.compression.get_or_insert(Compression::None);
            settings.background_jobs.get_or_insert(2);
            settings.level0_trigger.get_or_insert(if is_vlsm { 1 } else { 4 });
            if !is_vlsm {
                settings.level1_bytes.get_or_insert(256 << 20);
            }
            settings.growth_factor.get_or_insert(8);
            settings.log_sync_interval_ms.get_or_insert(0);
        }
        settings
    }

    /// The settings for an engine that is compared with Thalweg. With [`Tuning::Default`] the engine gets Thalweg's
    /// default sizes, filters and jobs, and `codec`, the lightest codec that it has (`None`: it cannot compress).
    pub fn alike(&self, codec: Option<Compression>) -> Settings {
        let mut settings = self.resolved();
        if settings.tuning == Tuning::Default {
            let is_vlsm = settings.policy == Some(Policy::Vlsm);
            settings.memtable_bytes.get_or_insert(if is_vlsm { 8 << 20 } else { 32 << 20 });
            settings.memtables_max.get_or_insert(4);
            settings.table_bytes.get_or_insert(if is_vlsm { 8 << 20 } else { 64 << 20 });
            settings.cache_bytes.get_or_insert(128 << 20);
            settings.filter_bits_per_key.get_or_insert(10);
            settings.compression = settings.compression.or(codec);
            settings.background_jobs.get_or_insert_with(thalwegs_background_jobs);
            settings.level0_trigger.get_or_insert(if is_vlsm { 1 } else { 4 });
            if !is_vlsm {
                settings.level1_bytes.get_or_insert(256 << 20);
            }
            settings.growth_factor.get_or_insert(8);
        }
        settings
    }
}
