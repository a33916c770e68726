//! The options of the database: everything is small, so that it always flushes, compacts and recycles log segments.

use crate::random::Random;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg::{Builder, CompactionPolicy, Compression, Database, DurabilityBackend, FastTier, TableWrites};

/// The durability back-ends, by the name that the command line knows.
pub const BACKENDS: [(&str, DurabilityBackend); 3] = [
    ("settle-rounds", DurabilityBackend::SettleRounds),
    ("sync-each-file", DurabilityBackend::SyncEachFile),
    ("paper", DurabilityBackend::Paper),
];

/// The stream of random numbers for the capacity of the fast tier. No write has this number.
const FAST_TIER_STREAM: u64 = u64::MAX;

/// The options that do not follow from the seed.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// How edits become durable.
    pub backend: DurabilityBackend,
    /// The directory of the fast tier, if there is one.
    pub fast_tier: Option<PathBuf>,
}

/// Finds the back-end of that name, for the command line.
///
/// # Errors
/// The known names.
pub fn backend_named(name: &str) -> Result<DurabilityBackend, String> {
    let found = BACKENDS.iter().find(|(known, _)| *known == name);
    found.map(|(_, backend)| *backend).ok_or_else(|| {
        let names: Vec<&str> = BACKENDS.iter().map(|(known, _)| *known).collect();
        format!("there is no back-end {name:?}; there is {}", names.join(", "))
    })
}

/// The options of a seed.
pub fn builder(path: &Path, seed: u64, choice: &Choice) -> Builder {
    let mut random = Random::of(seed, 0);
    let table_writes =
        random.pick(&[TableWrites::Automatic, TableWrites::PageCache, TableWrites::Direct, TableWrites::Direct]);
    let interval_ms = random.pick(&[Some(5), Some(30), Some(100), None]);
    let compression = if random.percent(50) { Compression::Lz4 } else { Compression::None };
    let builder = Database::builder(path)
        .backend(choice.backend)
        .memtable_bytes(random.pick(&[64, 128, 128, 256]) << 10)
        .log_segment_bytes(random.pick(&[64, 128, 256, 512]) << 10)
        .log_bytes_max(2 << 20)
        .table_bytes(random.pick(&[32, 64, 128, 256]) << 10)
        .level1_bytes(random.pick(&[64, 128, 128, 256]) << 10)
        .growth_factor(4)
        .partitions_max(random.pick(&[1, 4, 16, 16]))
        .compaction_workers(1 + random.below(2) as usize)
        .table_writes(table_writes)
        .log_sync_interval(interval_ms.map(Duration::from_millis))
        .compression(compression)
        .block_cache_bytes(4 << 20)
        .settle_interval(Duration::from_millis(random.pick(&[10, 50, 200, 1000])))
        .compaction_policy(if random.percent(50) { CompactionPolicy::Leveled } else { CompactionPolicy::VLSM })
        .directory_level0_trigger(random.pick(&[2, 2, 4, 16]));
    match &choice.fast_tier {
        Some(directory) => {
            // At least four memtables, and small enough to fill up again and again.
            let bytes = Random::of(seed, FAST_TIER_STREAM).pick(&[1, 1, 2, 8]) << 20;
            builder.fast_tier(FastTier::Directory(directory.clone()), bytes)
        }
        None => builder,
    }
}
