//! Step 3 of Algorithm 1: which partitions leave the tier (PMB-11).

use super::costs::Costs;
use super::description::{Activity, Partition, Tier};
use super::mode::EvictionRule;
use super::options::{Options, part_of};
use super::rank;

/// Why a partition leaves the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvictionCause {
    /// The tier is full.
    Room,
    /// Its tables pin more of the log than `log_bytes_max` (PMB-A13).
    Log,
}

/// A partition that leaves the tier: all its fast tables are compacted below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Eviction {
    /// Its place among the partitions that were described.
    pub(crate) index: usize,
    pub(crate) cause: EvictionCause,
}

/// Returns the evictions that the tier needs now, in order: for the log, the oldest first; then for room, the least
/// worth first.
pub(super) fn evictions(options: &Options, costs: &Costs, tier: &Tier, partitions: &[Partition]) -> Vec<Eviction> {
    let rule = options.mode.eviction();
    if rule == EvictionRule::Never {
        return Vec::new();
    }
    let mut chosen = for_log(options, tier, partitions);
    let leaving: u64 = chosen.iter().map(|index| partitions[*index].staying_bytes()).sum();
    let all: u64 = partitions.iter().map(Partition::staying_bytes).sum();
    let staying = all - leaving;
    let mut evictions: Vec<Eviction> =
        chosen.iter().map(|index| Eviction { index: *index, cause: EvictionCause::Log }).collect();
    if staying < part_of(tier.capacity_bytes, options.evict_part) {
        return evictions;
    }
    chosen.sort_unstable();
    let candidates = (0..partitions.len())
        .filter(|index| partitions[*index].staying_bytes() > 0 && chosen.binary_search(index).is_err());
    let for_room = match rule {
        EvictionRule::Never => Vec::new(),
        EvictionRule::Whole => candidates.collect(),
        EvictionRule::Coldest => {
            let ranked = by_worth(options, costs, partitions, candidates.collect());
            let target = part_of(tier.capacity_bytes, keep_part(options, partitions));
            needed(partitions, ranked, staying, target)
        }
    };
    evictions.extend(for_room.into_iter().map(|index| Eviction { index, cause: EvictionCause::Room }));
    evictions
}

/// Returns the partitions that pin the log from too far back, the oldest first. The log stays too long if any one of
/// them stays.
fn for_log(options: &Options, tier: &Tier, partitions: &[Partition]) -> Vec<usize> {
    let Some(log_bytes_max) = options.log_bytes_max else { return Vec::new() };
    let oldest_allowed = tier.log_end.saturating_sub(log_bytes_max);
    let pins = |index: usize| partitions[index].log_from.filter(|_| partitions[index].activity != Activity::Evicting);
    let mut pinning: Vec<usize> =
        (0..partitions.len()).filter(|index| pins(*index).is_some_and(|from| from < oldest_allowed)).collect();
    pinning.sort_by_key(|index| pins(*index));
    pinning
}

/// `τ_t`, as a part of the capacity: a tier that mostly serves reads fills slowly and may keep more.
fn keep_part(options: &Options, partitions: &[Partition]) -> f64 {
    let reads: f64 = partitions.iter().map(|partition| partition.rates.gets + partition.rates.seeks).sum();
    let writes: f64 = partitions.iter().map(|partition| partition.rates.writes).sum();
    let mostly_reads = reads > options.mostly_reads_part * (reads + writes);
    if mostly_reads { options.keep_part_mostly_reads } else { options.keep_part }
}

/// Sorts the candidates, those that are least worth keeping first; equal ones stay in the order of the descriptions.
fn by_worth(options: &Options, costs: &Costs, partitions: &[Partition], candidates: Vec<usize>) -> Vec<usize> {
    let horizon = rank::horizon_seconds(partitions);
    let worth = |index: usize| rank::worth(options, costs, horizon, &partitions[index]).sum();
    let mut ranked: Vec<(f64, usize)> = candidates.into_iter().map(|index| (worth(index), index)).collect();
    ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    ranked.into_iter().map(|(_, index)| index).collect()
}

/// Returns as many partitions from the start of `ranked` as bring the tier down from `staying` to `target` bytes.
/// Leaves out a partition that may stay because a later one is large.
fn needed(partitions: &[Partition], ranked: Vec<usize>, staying: u64, target: u64) -> Vec<usize> {
    let mut left = staying;
    let mut chosen = Vec::new();
    for index in ranked {
        if left <= target {
            break;
        }
        left -= partitions[index].bytes();
        chosen.push(index);
    }
    let mut kept = vec![false; chosen.len()];
    for (place, index) in chosen.iter().enumerate().rev() {
        let with = left.saturating_add(partitions[*index].bytes());
        if with <= target {
            (kept[place], left) = (true, with);
        }
    }
    chosen.into_iter().zip(kept).filter(|(_, kept)| !kept).map(|(index, _)| index).collect()
}
