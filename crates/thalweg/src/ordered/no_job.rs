//! [`NoJob`]: that a partition wants no compaction, remembered until something of it has changed.
//!
//! Whatever may make a job possible wakes every coroutine without work, and each asks all partitions: after a job in
//! one of sixteen, four coroutines would look at all tables of the other fifteen, which are as they were.
//!
//! Whether there is a job depends on the levels, the running jobs and the policy; and where tables have many dead
//! entries, on which readers there are ([`Policy::has_dead`]): that is not remembered. The policy is for the part that
//! the partition has of all bytes, which changes a little whenever any partition does: see [`Policy::is_like`].
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

/// For what no job was found.
struct Found {
    /// Weak, so that it keeps no table, and is of no other levels as long as it is here.
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
