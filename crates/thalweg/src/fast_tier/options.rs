//! [`Options`]: thresholds and bounds of a fast tier.

use super::mode::{FastTierForms, FastTierMode, Rank};

/// See the module. Parts are between 0 and 1, and of the tier's capacity unless their comments say otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) mode: FastTierMode,
    pub(crate) forms: FastTierForms,
    pub(crate) rank: Rank,
    /// `τ_m`: evictions begin.
    pub(crate) evict_part: f64,
    /// `τ_t`: evictions end.
    pub(crate) keep_part: f64,
    /// `τ_t` while more than [`Options::mostly_reads_part`] of the operations are reads.
    pub(crate) keep_part_mostly_reads: f64,
    pub(crate) mostly_reads_part: f64,
    /// Step 2 begins at `capacity / (this × partitions)`, which is `τ_w`.
    pub(crate) write_threshold_divisor: u64,
    /// `κ`: the cores that reads must waste before step 1 merges for them.
    pub(crate) read_cores_min: f64,
    /// This many unsorted tables are merged whatever steps 1 and 2 say. If a merge with sorted ones would copy too
    /// much, four times as many are merged among each other instead. `None` never forces a merge.
    pub(crate) unsorted_tables_max: Option<u32>,
    /// Steps 1 and 2 merge when the unsorted tables have at least this part of the sorted bytes that are rewritten.
    pub(crate) unsorted_part_min: f64,
    /// The log that a volatile tier may pin, in bytes; `None` for a persistent one, which pins none.
    pub(crate) log_bytes_max: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: FastTierMode::default(),
            forms: FastTierForms::default(),
            rank: Rank::default(),
            evict_part: 0.85,
            keep_part: 0.80,
            keep_part_mostly_reads: 0.82,
            mostly_reads_part: 0.95,
            write_threshold_divisor: 4,
            read_cores_min: 1.0,
            unsorted_tables_max: Some(16),
            unsorted_part_min: 0.33,
            log_bytes_max: None,
        }
    }
}

impl Options {
    /// Returns `τ_w`: a partition with fewer bytes is not merged to save writes.
    pub(crate) fn write_threshold_bytes(&self, capacity_bytes: u64, partitions: usize) -> u64 {
        capacity_bytes / self.write_threshold_divisor.saturating_mul(partitions as u64).max(1)
    }
}

/// A part of a capacity, in bytes.
pub(super) fn part_of(capacity_bytes: u64, part: f64) -> u64 {
    (capacity_bytes as f64 * part) as u64
}
