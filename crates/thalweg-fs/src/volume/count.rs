//! [`InodeCount`]: how many inodes there are, and how the number is put right while operations go on.
//!
//! An operation changes rows and then the number. A recount needs a snapshot of the rows and the number that belongs to
//! it: no operation may be between the two. So operations commit under a shared lock, and a recount takes the lock
//! alone for the moment of its snapshot. The difference between its count and the number of that moment is then added
//! to the current number.
//!
//! Locks: `commits`, below those of inodes and above the store's; `recounts`, above it.

use crate::error::Result;
use crate::planted::{Bug, planted};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

/// How many inodes there are.
pub(crate) struct InodeCount {
    count: AtomicI64,
    commits: RwLock<()>,
    /// Held over a recount: two would both add their difference.
    recounts: Mutex<()>,
}

impl InodeCount {
    pub(super) fn new(count: u64) -> Self {
        let count = AtomicI64::new(i64::try_from(count).unwrap_or(i64::MAX));
        InodeCount { count, commits: RwLock::default(), recounts: Mutex::default() }
    }

    pub(super) fn get(&self) -> u64 {
        u64::try_from(self.count.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Commits a change of rows that adds `difference` inodes.
    pub(super) fn change(&self, difference: i64, commit: impl FnOnce() -> Result<()>) -> Result<()> {
        let _shared = self.commits.read().unwrap_or_else(PoisonError::into_inner);
        commit()?;
        self.count.fetch_add(difference, Ordering::Relaxed);
        Ok(())
    }

    /// Corrects the number by `count` of a `snapshot`, while it `is_due`. Returns the difference; `None` if there was
    /// nothing to do, or `count` gave up.
    pub(crate) fn recount<S>(
        &self,
        is_due: impl FnOnce() -> bool,
        snapshot: impl FnOnce() -> Result<S>,
        count: impl FnOnce(S) -> Result<Option<u64>>,
    ) -> Result<Option<i64>> {
        let _one = self.recounts.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_due() {
            return Ok(None);
        }
        let alone = self.commits.write().unwrap_or_else(PoisonError::into_inner);
        let (rows, before) = (snapshot()?, self.count.load(Ordering::Relaxed));
        drop(alone);
        let Some(counted) = count(rows)? else { return Ok(None) };
        let difference = i64::try_from(counted).unwrap_or(i64::MAX).saturating_sub(before);
        if !planted(Bug::TotalsNotRecounted) {
            self.count.fetch_add(difference, Ordering::Relaxed);
        }
        Ok(Some(difference))
    }
}
