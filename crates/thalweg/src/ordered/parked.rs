//! [`ParkedJobs`]: compaction jobs that failed and wait for their next try.
//!
//! A parked job stays reserved in its partition, so that no coroutine runs into the same error meanwhile. It blocks no
//! coroutine: other jobs go on, also in its partition.
//!
//! Locks: `jobs` is held for a push or a look.

use super::partition::Partition;
use crate::compaction::RunningJob;
use crate::sync::{Mutex, MutexGuard};
use std::sync::Arc;

/// A job that failed.
pub(super) struct Parked {
    pub(super) partition: Arc<Partition>,
    pub(super) claim: RunningJob,
    /// When it is tried again.
    pub(super) retry_at_ns: u64,
    /// [`crate::runtime::Health::room`] from before it began, if it found the disk full.
    pub(super) room: Option<u64>,
}

impl Parked {
    fn is_due(&self, now_ns: u64, room: u64) -> bool {
        // A job of a dropped partition is due at once, because it keeps that partition in memory.
        now_ns >= self.retry_at_ns || self.room.is_some_and(|then| then != room) || self.partition.is_dropped()
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct ParkedJobs {
    jobs: Mutex<Vec<Parked>>,
}

impl ParkedJobs {
    /// The jobs, locked.
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Parked>> {
        self.jobs.lock()
    }

    /// Takes out the jobs that may be tried again, `now` being the time and how often room has come. Returns them, and
    /// when the next of the others is due.
    pub(super) fn take_due(&self, now: impl FnOnce() -> (u64, u64)) -> (Vec<Parked>, Option<u64>) {
        let mut jobs = self.lock();
        if jobs.is_empty() {
            return (Vec::new(), None);
        }
        let (now_ns, room) = now();
        let due = jobs.extract_if(.., |parked| parked.is_due(now_ns, room)).collect();
        (due, jobs.iter().map(|parked| parked.retry_at_ns).min())
    }
}
