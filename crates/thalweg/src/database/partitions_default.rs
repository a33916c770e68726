//! [`partitions_max`]: into how many partitions splits may make one, where the caller says nothing.

/// Splits make at most this many.
const PARTITIONS_MAX: usize = 16;
/// Each has at least this much of the memory for active memtables. With less its tables are small: opening, syncing and
/// removing so many costs more than narrow chains save (`docs/vlsm.md` has the measurements).
const PARTITION_MEMTABLE_BYTES: usize = 2 << 20;
/// Fewer than this are not worth it.
const PARTITIONS_MIN: usize = 4;
/// With a fast tier, as an eviction takes all that a partition has. Twice as many slow down reads by a tenth, with
/// memtables of 4 MiB, and half as many have evictions that writers wait for.
const TIER_PARTITIONS: usize = 8;

/// See the module. `memtable_bytes`: the memory for active memtables of all partitions that splits make of one.
pub(super) fn partitions_max(memtable_bytes: usize, is_vlsm: bool, has_tier: bool) -> usize {
    match memtable_bytes / PARTITION_MEMTABLE_BYTES {
        _ if is_vlsm => 1,
        _ if has_tier => TIER_PARTITIONS,
        ..PARTITIONS_MIN => 1,
        partitions => partitions.min(PARTITIONS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_two_mib_of_a_memtable_or_there_are_no_splits() {
        let by_mib = [1, 4, 7, 8, 16, 32, 64].map(|mib| partitions_max(mib << 20, false, false));
        assert_eq!(by_mib, [1, 1, 1, 4, 8, 16, 16]);
        assert_eq!(partitions_max(64 << 20, true, true), 1);
        assert_eq!(partitions_max(1 << 20, false, true), 8);
    }
}
