//! [`pick_tidy`]: chooses the job of a partition while nobody writes to the database.

use super::partition::{Partition, SuperVersion};
use crate::compaction::{Job, Policy, RunningJob, TIDY_PART};
use crate::format::SeqNo;
use std::iter;

/// The job for a partition of a database that nobody writes to. The packs of level 0 of a directory keyspace are merged
/// if they have more than a tenth of what the levels below have, and many of their directories are in other packs, too.
/// (A tombstone counts as the entry that it removes.) Otherwise they stay, and the levels below are tidied. `large`:
/// also picks jobs of a large partition.
pub(super) fn pick_tidy(
    partition: &Partition,
    super_version: &SuperVersion,
    running: &[RunningJob],
    large: bool,
    all_see: &dyn Fn(SeqNo) -> bool,
) -> Option<Job> {
    match &partition.generation.directories {
        None => partition.policy().pick_tidy(&super_version.levels, running, large, all_see),
        Some(index) => {
            let (level0, below) = super_version.levels.split_first()?;
            let (weight, bytes_below) = Policy::level0_weight(&super_version.levels);
            let is_due = running.is_empty() && weight > bytes_below / TIDY_PART;
            if is_due && index.is_scattered(level0) == Some(true) {
                return partition.policy().eager().pick(&super_version.levels, running, all_see);
            }
            let levels: Vec<_> = iter::once(Vec::new()).chain(below.iter().cloned()).collect();
            partition.policy().pick_tidy(&levels, running, large, all_see)
        }
    }
}

/// Lets [`pick_tidy`] know whether the directories of a partition are scattered. Not called under the locks of
/// [`pick_tidy`]: a look may take a hundred milliseconds.
pub(super) fn look_for_tidy(partition: &Partition) {
    if let Some(index) = &partition.generation.directories {
        index.look(partition.super_version().levels.first().map_or(&[], Vec::as_slice));
    }
}

/// Whether the last look is at the packs that are in level 0 now.
pub(super) fn has_looked(partition: &Partition, super_version: &SuperVersion) -> bool {
    let level0 = super_version.levels.first().map_or(&[][..], Vec::as_slice);
    partition.generation.directories.as_ref().is_none_or(|index| index.is_scattered(level0).is_some())
}
