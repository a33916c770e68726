//! The meaning of [`Options`] for the keyspaces of each kind.

use super::CompactionPolicy;
#[cfg(feature = "experiments")]
use super::DirectoryStructures;
use super::options::Options;
use crate::compaction::{LeveledOptions, Policy, VlsmOptions};
#[cfg(feature = "experiments")]
use crate::directory::FHashOptions;
use crate::lineage::RETAINED_BYTES_MAX;
use crate::ordered::{OrderedOptions, Tier};
use crate::runtime::Space;
#[cfg(feature = "experiments")]
use crate::storage::Storage;
use crate::table::{PACK_BYTES_MAX, PackWrites};
#[cfg(feature = "experiments")]
use std::path::Path;
use std::sync::Arc;

/// Levels of a partition, level 0 included.
const LEVELS_MAX: usize = 7;

/// Tables in level 0 at which writers wait with vLSM, whose tables are small.
const VLSM_LEVEL0_STOP: usize = 24;

impl Options {
    pub(super) fn ordered(&self, space: Arc<Space>, tier: Option<Arc<Tier>>) -> OrderedOptions {
        let level0_stop_min = if self.is_vlsm() { VLSM_LEVEL0_STOP } else { 12 };
        OrderedOptions {
            memtable_bytes: self.memtable_bytes(),
            level0_stop: self.level0_stop().max(level0_stop_min),
            wake: Arc::default(),
            compactors: self.compactors(),
            partitions_max: self.partitions_max(),
            policy: self.policy(space.table_bytes()),
            space,
            tier,
            #[cfg(feature = "experiments")]
            f_hashes: None,
        }
    }

    /// The options of directory keyspaces. Level 0 gathers many packs, and one merge of all of them makes each
    /// directory one span. A merge of few packs would write each directory again and again.
    pub(super) fn directories(&self, space: Arc<Space>) -> OrderedOptions {
        // A directory keyspace has no fast tier.
        let ordered = self.ordered(space, None);
        let trigger = self.directory_level0_trigger();
        let table_bytes = ordered.policy.table_bytes().min(PACK_BYTES_MAX / 2);
        let times = (trigger / self.level0_trigger()).max(1) as u64;
        OrderedOptions {
            level0_stop: trigger.saturating_mul(2),
            partitions_max: 1,
            policy: Policy::Leveled(LeveledOptions {
                level0_trigger: trigger,
                level0_patience: trigger,
                // Half way to the number at which writers wait.
                level0_urgent: trigger.saturating_add(trigger / 2),
                level1_bytes: self.level1_bytes.saturating_mul(times),
                growth_factor: self.growth_factor,
                table_bytes,
                table_bytes_max: table_bytes,
                job_bytes_max: u64::MAX,
                levels_max: LEVELS_MAX,
            }),
            ..ordered
        }
    }

    fn policy(&self, table_bytes: u64) -> Policy {
        let job_bytes_max = self.retained_bytes_max.unwrap_or(RETAINED_BYTES_MAX) / 16 * 11;
        let level1_bytes = self.level1_bytes.max(self.level1_bytes_below_tier(job_bytes_max));
        match self.compaction_policy {
            CompactionPolicy::Leveled => Policy::Leveled(LeveledOptions {
                level0_trigger: self.level0_trigger(),
                level0_patience: self.level0_patience(),
                level0_urgent: self.level0_urgent(),
                level1_bytes,
                growth_factor: self.growth_factor,
                table_bytes,
                table_bytes_max: table_bytes,
                // The rest is for tables that other jobs have replaced, earlier or at the same time.
                job_bytes_max: job_bytes_max.max(self.level1_bytes.saturating_mul(2)),
                levels_max: LEVELS_MAX,
            }),
            CompactionPolicy::Vlsm { phi, debt_bytes } => Policy::Vlsm(VlsmOptions {
                table_bytes,
                growth_factor: self.growth_factor,
                phi,
                overlap: self.vlsm_overlap,
                debt_bytes,
                level0_trigger: self.level0_trigger(),
                levels_max: LEVELS_MAX,
            }),
        }
    }

    /// Bytes of level 1 that suit a fast tier: as many as level 0 gives it at once (see [`LeveledOptions`]), which are
    /// `level0_trigger` evictions of each partition. A smaller level 1 would be rewritten again and again on the way to
    /// level 2. Level 1 of one partition stays at most half of a job.
    fn level1_bytes_below_tier(&self, job_bytes_max: u64) -> u64 {
        let Some(tier) = self.fast_tier() else { return 0 };
        let given = tier.capacity_bytes.saturating_mul(self.level0_trigger() as u64);
        given.min((job_bytes_max / 2).saturating_mul(self.partitions_max() as u64))
    }

    pub(super) fn pack_writes(&self) -> PackWrites {
        #[cfg(feature = "experiments")]
        if let DirectoryStructures::Paper { .. } = self.directory_structures {
            return PackWrites::ByItem;
        }
        PackWrites::default()
    }

    /// How the f-hashes of a database in `root` are kept, if its directory keyspaces have them.
    #[cfg(feature = "experiments")]
    pub(super) fn f_hashes(&self, storage: &Arc<dyn Storage>, root: &Path) -> Option<Arc<FHashOptions>> {
        let DirectoryStructures::Paper { f_cache_bytes } = self.directory_structures else { return None };
        Some(FHashOptions::new(storage, root.to_path_buf(), usize::try_from(f_cache_bytes).unwrap_or(usize::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;
    use crate::storage::simulated::SimulatedDisk;
    use std::path::Path;

    #[test]
    fn level0_goes_first_before_writers_wait_for_it() {
        let disk: Arc<dyn Storage> = Arc::new(SimulatedDisk::new(1));
        for trigger in [1, 4, 100] {
            let options = Options { level0_trigger: Some(trigger), ..Options::default() };
            let space = || options.space(&disk, Path::new("/db"));
            for options in [options.ordered(space(), None), options.directories(space())] {
                let Policy::Leveled(leveled) = &options.policy else { unreachable!("the default policy") };
                assert!(leveled.level0_trigger <= leveled.level0_urgent, "{leveled:?}");
                assert!(leveled.level0_urgent < options.level0_stop, "{leveled:?}");
            }
        }
    }
}
