//! [`SettingsArgs`]: the flags that tune engines, which are also the keys of a variant of an engine.

use super::amount;
use crate::settings::{
    Backend, Compression, FastTierForms, FastTierMode, Io, Keyspace, Overlap, Policy, Scheduling, Structures, TableIo,
    Tuning,
};

/// How the engines are tuned.
#[derive(Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "How the engines are tuned")]
pub(super) struct SettingsArgs {
    /// Where settings that are not given come from [default: default]
    #[arg(long, value_name = "WHOSE")]
    pub tuning: Option<Tuning>,
    /// Size of a memtable
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    pub memtable: Option<u64>,
    /// Memtables of a partition, the active one included, before writers wait
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub memtables_max: Option<u32>,
    /// Size of a table
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    pub table: Option<u64>,
    /// Size of the block cache
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    pub cache: Option<u64>,
    /// Bits a key of the filters; 0: none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub filter_bits: Option<u32>,
    /// How tables are compressed
    #[arg(long, value_name = "CODEC")]
    pub compression: Option<Compression>,
    /// Flushes and compactions that may run at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub background_jobs: Option<u32>,
    /// Compactions that take turns on each thread (Thalweg only)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub compactions_a_worker: Option<u32>,
    /// Operations that the background may have at the device before table writes wait (Thalweg only)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub io_depth: Option<u32>,
    /// How compactions share processors and the device (Thalweg only)
    #[arg(long, value_name = "HOW")]
    pub scheduling: Option<Scheduling>,
    /// Keep each thread for compactions on one processor (Thalweg only)
    #[arg(long)]
    pub pin_workers: bool,
    /// Tables in level 0 that start a compaction
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub level0_trigger: Option<u32>,
    /// Tables in level 0 at which it is compacted while nobody reads (Thalweg only)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub level0_patience: Option<u32>,
    /// Size of level 1
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    pub level1: Option<u64>,
    /// How many times larger each level below level 1 is
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub growth_factor: Option<u32>,
    /// Into how many partitions one may be split as it grows (Thalweg only)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub partitions_max: Option<u32>,
    /// Memory for a fast tier, at least four memtables: level 0 is kept there first (Thalweg only)
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    pub fast_tier: Option<u64>,
    /// Keep the fast tier in files in the directory of the database, not in memory (Thalweg only)
    #[arg(long)]
    pub fast_tier_files: bool,
    /// How much of the log a fast tier in memory may pin (Thalweg only) [default: three times the tier, at least four
    /// segments]
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    pub fast_tier_log: Option<u64>,
    /// Which of PM-Blade's techniques the fast tier uses (Thalweg only) [default: full]
    #[arg(long, value_name = "MODE")]
    pub fast_tier_mode: Option<FastTierMode>,
    /// How the cost models of the fast tier are computed (Thalweg only) [default: sound]
    #[arg(long, value_name = "WHOSE")]
    pub fast_tier_forms: Option<FastTierForms>,
    /// Which kind of keyspace has the records: `directory` for the `metadata` workloads (Thalweg only)
    #[arg(long, value_name = "KIND")]
    pub keyspace: Option<Keyspace>,
    /// How a directory keyspace finds an entry: `paper` is with PhatKV's hash tables (Thalweg only)
    #[arg(long, value_name = "KIND")]
    pub structures: Option<Structures>,
    /// Memory for the hash tables of `--structures paper`
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    pub f_cache: Option<u64>,
    /// Which shape the levels are kept in (Thalweg only)
    #[arg(long, value_name = "NAME")]
    pub policy: Option<Policy>,
    /// vLSM: how many times larger level 2 is than level 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub phi: Option<u32>,
    /// vLSM: how it is measured what a table of level 1 lies over
    #[arg(long, value_name = "HOW")]
    pub overlap: Option<Overlap>,
    /// vLSM: how much too large a level may be for a while
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    pub debt: Option<u64>,
    /// Time between the log's periodic syncs: 100ms, 1s, none
    #[arg(long, value_name = "TIME", value_parser = amount::interval_ms)]
    pub log_sync_interval: Option<u64>,
    /// Whether tables go through the page cache
    #[arg(long, value_name = "HOW")]
    pub table_io: Option<TableIo>,
    /// How reads, writes and syncs are made: by io_uring, or by plain calls that a thread waits for (Thalweg only)
    #[arg(long, value_name = "HOW")]
    pub io: Option<Io>,
    /// How tables become durable (Thalweg only)
    #[arg(long, value_name = "NAME")]
    pub backend: Option<Backend>,
    /// Time between settle rounds (Thalweg only): 100ms, 1s
    #[arg(long, value_name = "TIME", value_parser = amount::interval_ms)]
    pub settle_interval: Option<u64>,
    /// How much longer each sync takes, as if the device's flushes did (Thalweg only): 500us, 5ms
    #[arg(long, value_name = "TIME", value_parser = amount::delay_us)]
    pub flush_delay: Option<u64>,
    /// Partitions of about equal size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub partitions: Option<u32>,
    /// Each write is durable before it returns
    #[arg(long)]
    pub sync: bool,
}
