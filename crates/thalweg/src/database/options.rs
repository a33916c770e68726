//! [`Options`]: everything a builder can set, with defaults and limits.

use super::{Compression, DamagePolicy, DurabilityBackend};
use crate::compaction::LeveledOptions;
use crate::error::{Error, Result};
use crate::lineage::Settling;
use crate::log::LogOptions;
use crate::ordered::OrderedOptions;
use crate::table::{TableOptions, TableReads, TableWrites};
use std::time::Duration;

/// When a write returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is published: it survives the death of the process at once, and a power cut once the log was synced,
    /// at most `log_sync_interval` later (and the sync's own time).
    #[default]
    Buffered,
    /// When it survives a power cut.
    Sync,
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
    pub(super) memtable_bytes: usize,
    pub(super) sealed_memtables_max: usize,
    pub(super) block_cache_bytes: u64,
    pub(super) block_bytes: usize,
    pub(super) compression: Compression,
    pub(super) compression_per_level: Vec<Compression>,
    pub(super) filter_bits_per_key: u32,
    pub(super) table_bytes: u64,
    pub(super) level0_trigger: usize,
    pub(super) level1_bytes: u64,
    pub(super) growth_factor: u64,
    pub(super) compaction_workers: usize,
    pub(super) table_writes: TableWrites,
    pub(super) table_reads: TableReads,
    pub(super) io_depth: usize,
    pub(super) sync_delay: Duration,
    #[cfg(feature = "simulation")]
    pub(super) manifest_rotation_bytes: Option<u64>,
    #[cfg(feature = "simulation")]
    pub(super) removed_piece_bytes: Option<u64>,
}

const MIB: u64 = 1 << 20;

/// Compaction coroutines that share a worker. They take subtasks of one large job, or else whole jobs, of which each
/// more delays the one that relieves level 0. With read-ahead and a write queue one keeps its processor busy; a second
/// fills the gaps while the first waits for reads, syncs and its edit.
const COMPACTIONS_A_WORKER_MAX: usize = 2;

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
            memtable_bytes: 32 << 20,
            sealed_memtables_max: 3,
            block_cache_bytes: 128 * MIB,
            block_bytes: 4 << 10,
            compression: Compression::Lz4,
            compression_per_level: Vec::new(),
            filter_bits_per_key: 10,
            table_bytes: 64 * MIB,
            level0_trigger: 4,
            level1_bytes: 256 * MIB,
            growth_factor: 8,
            compaction_workers: 1,
            table_writes: TableWrites::default(),
            table_reads: TableReads::default(),
            io_depth: 8,
            sync_delay: Duration::ZERO,
            #[cfg(feature = "simulation")]
            manifest_rotation_bytes: None,
            #[cfg(feature = "simulation")]
            removed_piece_bytes: None,
        }
    }
}

impl Options {
    /// Refuses what cannot work, naming the option and what it takes.
    pub(super) fn validate(&self) -> Result<()> {
        let segment = self.log_segment_bytes;
        let rules = [
            (
                segment >= 64 << 10 && segment.is_multiple_of(32 << 10),
                "log_segment_bytes: a multiple of 32 KiB from 64 KiB",
            ),
            (segment <= 1 << 30, "log_segment_bytes: at most 1 GiB"),
            (self.log_bytes_max >= 2 * u64::from(segment), "log_bytes_max: at least two segments"),
            (self.memtable_bytes >= 1 << 10, "memtable_bytes: at least 1 KiB"),
            (self.sealed_memtables_max >= 1, "sealed_memtables_max: at least 1"),
            (self.block_bytes >= 64 && self.block_bytes <= 16 << 20, "block_bytes: 64 B to 16 MiB"),
            (self.filter_bits_per_key <= 64, "filter_bits_per_key: 0 (none) to 64"),
            (self.table_bytes >= 1 << 10, "table_bytes: at least 1 KiB"),
            (self.level0_trigger >= 1, "level0_trigger: at least 1"),
            (self.level1_bytes >= 1 << 10, "level1_bytes: at least 1 KiB"),
            (self.growth_factor >= 2, "growth_factor: at least 2"),
            (self.compaction_workers >= 1 && self.compaction_workers <= 64, "compaction_workers: 1 to 64"),
            (self.io_depth >= 1 && self.io_depth <= 1024, "io_depth: 1 to 1024"),
            (self.settle_interval != Duration::ZERO, "settle_interval: above zero"),
            (self.log_sync_interval != Some(Duration::ZERO), "log_sync_interval: above zero, or None"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(Error::invalid_input(format!("an option is out of range: {rule}"))),
            None => Ok(()),
        }
    }

    pub(super) fn log(&self) -> LogOptions {
        LogOptions { segment_bytes: self.log_segment_bytes, sync_interval: self.log_sync_interval }
    }

    pub(super) fn settling(&self) -> Settling {
        Settling {
            backend: self.backend,
            interval_ns: u64::try_from(self.settle_interval.as_nanos()).unwrap_or(u64::MAX),
            retained_bytes_max: self.retained_bytes_max,
            log_bytes_max: self.log_bytes_max,
        }
    }

    pub(super) fn tables(&self) -> TableOptions {
        TableOptions {
            block_bytes: self.block_bytes,
            compression: self.compression,
            compression_per_level: self.compression_per_level.clone(),
            filter_bits_per_key: self.filter_bits_per_key,
            writes: self.table_writes,
            reads: self.table_reads,
            io_depth: self.io_depth,
        }
    }

    /// `k = max(q / c, 1)` (PMB-16), but no more than [`COMPACTIONS_A_WORKER_MAX`].
    pub(super) fn compactions_a_worker(&self) -> usize {
        (self.io_depth / self.compaction_workers.max(1)).clamp(1, COMPACTIONS_A_WORKER_MAX)
    }

    pub(super) fn ordered(&self) -> OrderedOptions {
        OrderedOptions {
            memtable_bytes: self.memtable_bytes,
            sealed_max: self.sealed_memtables_max,
            level0_stop: self.level0_trigger.saturating_mul(5).max(12),
            log_bytes_max: self.log_bytes_max,
            compactors: self.compactions_a_worker().saturating_mul(self.compaction_workers),
            leveled: LeveledOptions {
                level0_trigger: self.level0_trigger,
                level1_bytes: self.level1_bytes,
                growth_factor: self.growth_factor,
                table_bytes: self.table_bytes,
                levels_max: 7,
            },
        }
    }
}
