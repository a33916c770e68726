//! [`partitions_max`]: into how many partitions splits may make one, by default.

/// The most partitions that splits make of one.
const PARTITIONS_MAX: usize = 16;
/// Each partition has at least this much of the memory for active memtables. With less, its tables are small. To open,
/// sync and remove many small tables costs more than narrow chains save (`docs/decisions.md` has the measurements).
const PARTITION_MEMTABLE_BYTES: usize = 2 << 20;
/// Fewer partitions than this are not worth the splits.
const PARTITIONS_MIN: usize = 4;
/// With a fast tier each partition has at least this much of it. An eviction takes everything that a partition has in
/// the tier. The fewer partitions there are, the longer writers wait for an eviction. The more there are, the smaller
/// their tables and the slower are reads (`docs/fast-tier-results.md` has the measurements).
const PARTITION_TIER_BYTES: u64 = 8 << 20;
/// With a fast tier, however small, there may be at least this many partitions.
const TIER_PARTITIONS_MIN: u64 = 8;

/// Returns the default. `memtable_bytes`: the memory for active memtables of all partitions that splits make of one.
/// `tier_bytes`: the capacity of the fast tier, if there is one.
pub(super) fn partitions_max(memtable_bytes: usize, is_vlsm: bool, tier_bytes: Option<u64>) -> usize {
    if is_vlsm {
        return 1;
    }
    if let Some(bytes) = tier_bytes {
        return (bytes / PARTITION_TIER_BYTES).clamp(TIER_PARTITIONS_MIN, PARTITIONS_MAX as u64) as usize;
    }
    match memtable_bytes / PARTITION_MEMTABLE_BYTES {
        ..PARTITIONS_MIN => 1,
        partitions => partitions.min(PARTITIONS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_two_mib_of_a_memtable_or_there_are_no_splits() {
        let by_mib = [1, 4, 7, 8, 16, 32, 64].map(|mib| partitions_max(mib << 20, false, None));
        assert_eq!(by_mib, [1, 1, 1, 4, 8, 16, 16]);
        assert_eq!(partitions_max(64 << 20, true, None), 1);
    }

    #[test]
    fn a_partition_has_eight_mib_of_a_tier_and_there_are_eight_at_least() {
        let by_mib = [1, 64, 96, 128, 4096].map(|mib| partitions_max(1 << 20, false, Some(mib << 20)));
        assert_eq!(by_mib, [8, 8, 12, 16, 16]);
        assert_eq!(partitions_max(1 << 20, true, Some(1 << 30)), 1);
    }
}
