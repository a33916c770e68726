//! [`NoJob`]: remembers that a partition wants no compaction, until something of the partition has changed.
//!
//! Every event that may make a job possible wakes all coroutines without work, and each asks all partitions. Without
//! this, after a job in one of sixteen partitions, four coroutines would look at all tables of the other fifteen, which
//! have not changed.
//!
//! Whether there is a job depends on the levels, the running jobs and the policy. If tables have many dead entries
//! ([`Policy::has_dead`]), it also depends on the readers, and nothing is remembered. The policy depends on the
//! partition's part of all bytes, which changes a little whenever any partition does: see [`Policy::is_like`].
//!
//! Locks: `found` is taken after the partition's `running`, and nothing under it.

use crate::compaction::{Job, Levels, Policy, RunningJob};
use crate::format::{SeqNo, TableId};
use crate::sync::Mutex;
use std::sync::{Arc, Weak};

/// See the module. Each partition has one.
#[derive(Default)]
pub(super) struct NoJob {
    found: Mutex<Option<Found>>,
}

/// The state for which no job was found.
struct Found {
    /// Weak, so that it keeps no table. While it is here, no other levels can have its address.
    levels: Weak<Levels>,
    policy: Policy,
    running: Vec<Option<TableId>>,
}

/// One table of each job: no two have the same.
fn claims(running: &[RunningJob]) -> impl Iterator<Item = Option<TableId>> + '_ {
    running.iter().map(|job| job.tables.first().copied())
}

impl NoJob {
    fn is_known(&self, levels: &Arc<Levels>, policy: &Policy, running: &[RunningJob]) -> bool {
        self.found.lock().as_ref().is_some_and(|found| {
            found.levels.as_ptr() == Arc::as_ptr(levels)
                && found.policy.is_like(policy)
                && found.running.iter().copied().eq(claims(running))
        })
    }

    fn remember(&self, levels: &Arc<Levels>, policy: Policy, running: &[RunningJob]) {
        if !Policy::has_dead(levels) {
            let (levels, running) = (Arc::downgrade(levels), claims(running).collect());
            *self.found.lock() = Some(Found { levels, policy, running });
        }
    }

    /// The job that the policy asks for; see [`Policy::pick`].
    pub(super) fn pick(
        &self,
        policy: Policy,
        levels: &Arc<Levels>,
        running: &[RunningJob],
        all_see: &dyn Fn(SeqNo) -> bool,
    ) -> Option<Job> {
        if self.is_known(levels, &policy, running) {
            return None;
        }
        let job = policy.pick(levels, running, all_see);
        if job.is_none() {
            self.remember(levels, policy, running);
        }
        job
    }

    /// Whether the policy asks for a job.
    pub(super) fn wants_job(
        &self,
        policy: Policy,
        levels: &Arc<Levels>,
        running: &[RunningJob],
        all_see: &dyn Fn(SeqNo) -> bool,
    ) -> bool {
        if self.is_known(levels, &policy, running) {
            return false;
        }
        let is_wanted = policy.wants_job(levels, running, all_see);
        if !is_wanted {
            self.remember(levels, policy, running);
        }
        is_wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::LeveledOptions;

    fn policy(level1_bytes: u64, level0_patience: usize) -> Policy {
        Policy::Leveled(LeveledOptions {
            level0_trigger: 4,
            level0_patience,
            level0_urgent: 36,
            level1_bytes,
            growth_factor: 10,
            table_bytes: 1 << 20,
            table_bytes_max: 1 << 20,
            job_bytes_max: 1 << 30,
            levels_max: 7,
        })
    }

    #[test]
    fn what_was_found_is_known_until_levels_jobs_or_policy_change() {
        let (no_job, levels) = (NoJob::default(), Arc::new(Levels::default()));
        assert!(!no_job.is_known(&levels, &policy(6400, 24), &[]));
        assert!(no_job.pick(policy(6400, 24), &levels, &[], &|_| true).is_none());
        assert!(no_job.is_known(&levels, &policy(6400, 24), &[]));
        assert!(no_job.is_known(&levels, &policy(6499, 24), &[]) && no_job.is_known(&levels, &policy(6301, 24), &[]));
        assert!(!no_job.is_known(&levels, &policy(6501, 24), &[]) && !no_job.is_known(&levels, &policy(6299, 24), &[]));
        assert!(!no_job.is_known(&levels, &policy(6400, 23), &[]));
        assert!(!no_job.is_known(&levels, &policy(6400, 24), &[RunningJob::fast()]));
        // Equal, but others.
        let others = Arc::new(Levels::default());
        assert!(!no_job.is_known(&others, &policy(6400, 24), &[]));
        assert!(!no_job.wants_job(policy(6400, 24), &others, &[], &|_| true));
        assert!(no_job.is_known(&others, &policy(6400, 24), &[]) && !no_job.is_known(&levels, &policy(6400, 24), &[]));
    }
}
