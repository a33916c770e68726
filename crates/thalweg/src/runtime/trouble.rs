//! [`Trouble`]: background work that fails at present: why, since when, how often, and when it is tried again.
//!
//! **Backing off.** The first retry comes after 50 ms; each failure in a row doubles that, up to 10 s. A full disk is
//! asked at least once a second, because room may come from outside. Work that was done ends the trouble, and the next
//! failure begins at 50 ms again.
//!
//! Locks: one, held for a clone or a change. Who tells of success takes none while there is no trouble.

use crate::error::{Error, ErrorKind};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Work that the background does, and tries again when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BackgroundWork {
    /// Memtables to tables, and what else the manifest must be told of.
    Flush,
    /// Compactions of one partition.
    Compaction,
    /// A settle round, which makes replaced files free to go.
    SettleRound,
    /// Making a log segment ready for use.
    LogSegment,
    /// Removing the file of a replaced table. It stays until the next open.
    Removal,
    /// Splitting a partition, or merging two. Nothing waits for it.
    Reshape,
}

impl fmt::Display for BackgroundWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BackgroundWork::Flush => "flush",
            BackgroundWork::Compaction => "compaction",
            BackgroundWork::SettleRound => "settle round",
            BackgroundWork::LogSegment => "preparation of a log segment",
            BackgroundWork::Removal => "removal of a table",
            BackgroundWork::Reshape => "split or merge of partitions",
        })
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) work: BackgroundWork,
    /// The latest failure.
    pub(crate) error: Error,
    pub(crate) since_ns: u64,
    pub(crate) last_ns: u64,
    /// Failures in a row.
    pub(crate) times: u64,
    /// When it is tried again, if nothing changes before; `None`: when somebody asks for it.
    pub(crate) retry_ns: Option<u64>,
    /// Somebody has asked for another try since the failure, and waits for what comes of it.
    pub(crate) is_asked: bool,
}

const RETRY_MIN_NS: u64 = 50_000_000;
const RETRY_MAX_NS: u64 = 10_000_000_000;
const RETRY_FULL_MAX_NS: u64 = 1_000_000_000;

/// How long the retry waits after so many failures in a row, the last of which is `error`.
fn delay_ns(times: u64, error: &Error) -> u64 {
    let most = if error.kind() == ErrorKind::NoSpace { RETRY_FULL_MAX_NS } else { RETRY_MAX_NS };
    let doublings = u32::try_from(times.saturating_sub(1)).unwrap_or(u32::MAX).min(20);
    (RETRY_MIN_NS << doublings).min(most)
}

/// One kind of work, and its trouble if it has one.
#[derive(Debug)]
pub(crate) struct TroubleCell {
    work: BackgroundWork,
    is_set: AtomicBool,
    now: Mutex<Option<Trouble>>,
}

impl TroubleCell {
    pub(crate) fn new(work: BackgroundWork) -> Self {
        TroubleCell { work, is_set: AtomicBool::new(false), now: Mutex::new(None) }
    }

    /// The work failed, and is tried again. Gives the trouble that it is in, with the time of the retry.
    pub(crate) fn failed(&self, error: Error, now_ns: u64) -> Trouble {
        self.fail(error, now_ns, true)
    }

    /// As [`TroubleCell::failed`], for work that is tried again only when somebody asks for it.
    pub(crate) fn failed_until_asked(&self, error: Error, now_ns: u64) -> Trouble {
        self.fail(error, now_ns, false)
    }

    fn fail(&self, error: Error, now_ns: u64, is_retried: bool) -> Trouble {
        let mut now = self.lock();
        let (since_ns, before) = now.as_ref().map_or((now_ns, 0), |trouble| (trouble.since_ns, trouble.times));
        let times = before.saturating_add(1);
        let retry_ns = is_retried.then(|| now_ns.saturating_add(delay_ns(times, &error)));
        let trouble = Trouble { work: self.work, error, since_ns, last_ns: now_ns, times, retry_ns, is_asked: false };
        *now = Some(trouble.clone());
        self.is_set.store(true, Ordering::Release);
        trouble
    }

    /// Somebody asks for another try at once, and is no longer told of the failures so far.
    pub(crate) fn ask(&self) {
        if let Some(trouble) = self.lock().as_mut() {
            trouble.is_asked = true;
        }
    }

    /// The work was done. Whether it had been in trouble.
    pub(crate) fn ended(&self) -> bool {
        if !self.is_set.load(Ordering::Acquire) {
            return false;
        }
        let mut now = self.lock();
        self.is_set.store(false, Ordering::Release);
        now.take().is_some()
    }

    pub(crate) fn get(&self) -> Option<Trouble> {
        if self.is_set.load(Ordering::Acquire) { self.lock().clone() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::Arc;

    fn waits(error: &Error, times: usize) -> Vec<u64> {
        let cell = TroubleCell::new(BackgroundWork::Flush);
        let failed = (0..times).map(|_| cell.failed(error.clone(), 7));
        failed.map(|trouble| (trouble.retry_ns.unwrap() - 7) / 1_000_000).collect()
    }

    #[test]
    fn retries_back_off_to_a_bound_which_is_lower_for_a_full_disk() {
        let damage = Error::corruption(Path::new("t"), 0, "a", "b");
        assert_eq!(waits(&damage, 10), [50, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        let full = Error::NoSpace { path: Arc::from(Path::new("t")) };
        assert_eq!(waits(&full, 7), [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(delay_ns(u64::MAX, &damage), RETRY_MAX_NS);
    }

    #[test]
    fn success_ends_the_trouble_and_the_next_begins_anew() {
        let cell = TroubleCell::new(BackgroundWork::Compaction);
        assert!(!cell.ended() && cell.get().is_none());
        cell.failed(Error::Closed, 100);
        let second = cell.failed(Error::Closed, 300);
        assert_eq!((second.since_ns, second.last_ns, second.times), (100, 300, 2));
        assert!(cell.ended() && cell.get().is_none());
        let anew = cell.failed(Error::Closed, 500);
        assert_eq!((anew.since_ns, anew.times, anew.retry_ns), (500, 1, Some(500 + RETRY_MIN_NS)));
    }
}
