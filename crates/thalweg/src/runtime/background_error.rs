//! [`BackgroundError`]: background work that keeps failing: why, since when, how often, and when it is retried.
//!
//! **Backing off.** The first retry comes after 50 ms. After each further failure in a row, the delay is the time since
//! the first failure, up to 10 s. So a row of failures lasts at most twice as long as its cause, however often callers
//! request retries. On a full disk the delay is at most 1 s, because other processes may free space. Success ends the
//! row.
//!
//! Locks: one, held for a clone or a change. Reporting success takes no lock while nothing fails.

use crate::error::{Error, ErrorKind};
use crate::sync::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// A kind of background work, which is retried when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BackgroundWork {
    /// Writing memtables to tables, and recording changes of keyspaces and partitions in the manifest.
    Flush,
    /// Compacting the fast tier, and writing what is in it to tables.
    Eviction,
    /// The compactions of one partition.
    Compaction,
    /// A settle round, which makes edits durable, so that replaced files can be removed.
    SettleRound,
    /// Preparing a log segment for use.
    LogSegment,
    /// Removing the file of a replaced table. A file whose removal failed stays until the next open.
    Removal,
    /// Splitting a partition, or merging two. No call waits for it.
    Reshape,
}

impl fmt::Display for BackgroundWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BackgroundWork::Flush => "flush",
            BackgroundWork::Eviction => "eviction from the fast tier",
            BackgroundWork::Compaction => "compaction",
            BackgroundWork::SettleRound => "settle round",
            BackgroundWork::LogSegment => "preparation of a log segment",
            BackgroundWork::Removal => "removal of a table",
            BackgroundWork::Reshape => "split or merge of partitions",
        })
    }
}

/// The failures in a row of one kind of background work.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundError {
    pub(crate) work: BackgroundWork,
    /// The latest failure.
    pub(crate) error: Error,
    /// The time of the first failure in the row.
    pub(crate) since_ns: u64,
    /// The time of the latest failure.
    pub(crate) last_ns: u64,
    /// Failures in a row.
    pub(crate) times: u64,
    /// When the work is retried, if nothing triggers it earlier. `None`: only when a caller requests it.
    pub(crate) retry_at_ns: Option<u64>,
    /// Whether a caller has requested a retry since the latest failure, and waits for its outcome.
    pub(crate) is_retry_requested: bool,
}

const RETRY_MIN_NS: u64 = 50_000_000;
const RETRY_MAX_NS: u64 = 10_000_000_000;
const RETRY_FULL_MAX_NS: u64 = 1_000_000_000;

/// The delay of the retry after `error`, when the row of failures has lasted for `row_ns`.
fn delay_ns(row_ns: u64, error: &Error) -> u64 {
    let most = if error.kind() == ErrorKind::NoSpace { RETRY_FULL_MAX_NS } else { RETRY_MAX_NS };
    row_ns.clamp(RETRY_MIN_NS, most)
}

/// The last error of one kind of background work, until that work succeeds.
#[derive(Debug)]
pub(crate) struct LastError {
    work: BackgroundWork,
    is_set: AtomicBool,
    current: Mutex<Option<BackgroundError>>,
}

impl LastError {
    pub(crate) fn new(work: BackgroundWork) -> Self {
        LastError { work, is_set: AtomicBool::new(false), current: Mutex::default() }
    }

    /// Records a failure of work that is retried by itself. Returns the failures so far, with the time of the retry.
    pub(crate) fn record(&self, error: Error, now_ns: u64) -> BackgroundError {
        self.add(error, now_ns, true)
    }

    /// As [`LastError::record`], for work that is retried only when a caller requests it.
    pub(crate) fn record_until_requested(&self, error: Error, now_ns: u64) -> BackgroundError {
        self.add(error, now_ns, false)
    }

    fn add(&self, error: Error, now_ns: u64, is_retried: bool) -> BackgroundError {
        let mut current = self.current.lock();
        let (since_ns, before) = current.as_ref().map_or((now_ns, 0), |error| (error.since_ns, error.times));
        let times = before.saturating_add(1);
        let retry_at_ns = is_retried.then(|| now_ns.saturating_add(delay_ns(now_ns.saturating_sub(since_ns), &error)));
        let error = BackgroundError {
            work: self.work,
            error,
            since_ns,
            last_ns: now_ns,
            times,
            retry_at_ns,
            is_retry_requested: false,
        };
        *current = Some(error.clone());
        self.is_set.store(true, Ordering::Release);
        error
    }

    /// Notes that a caller has requested a retry and waits for its outcome. The failures so far are not that caller's
    /// error.
    pub(crate) fn request_retry(&self) {
        if let Some(error) = self.current.lock().as_mut() {
            error.is_retry_requested = true;
        }
    }

    /// Clears the error after the work succeeded. Returns whether there was one.
    pub(crate) fn clear(&self) -> bool {
        if !self.is_set.load(Ordering::Acquire) {
            return false;
        }
        let mut current = self.current.lock();
        self.is_set.store(false, Ordering::Release);
        current.take().is_some()
    }

    /// The error, while the work keeps failing.
    pub(crate) fn get(&self) -> Option<BackgroundError> {
        if self.is_set.load(Ordering::Acquire) { self.current.lock().clone() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::Arc;

    /// The delays in milliseconds when each retry fails at once.
    fn delays(error: &Error, times: usize) -> Vec<u64> {
        let last_error = LastError::new(BackgroundWork::Flush);
        let mut now_ns = 7;
        let mut fail = || {
            let retry_at_ns = last_error.record(error.clone(), now_ns).retry_at_ns.unwrap();
            let delay_ns = retry_at_ns - now_ns;
            now_ns = retry_at_ns;
            delay_ns / 1_000_000
        };
        (0..times).map(|_| fail()).collect()
    }

    #[test]
    fn retries_back_off_to_a_bound_which_is_lower_for_a_full_disk() {
        let damage = Error::corruption(Path::new("t"), 0, "a", "b");
        assert_eq!(delays(&damage, 11), [50, 50, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        let full = Error::NoSpace { path: Arc::from(Path::new("t")) };
        assert_eq!(delays(&full, 8), [50, 50, 100, 200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn retries_that_callers_request_do_not_lengthen_the_delay() {
        let last_error = LastError::new(BackgroundWork::Flush);
        let failures = (0..20).map(|number| last_error.record(Error::Closed, number * 1_000_000));
        assert_eq!(failures.last().unwrap().retry_at_ns, Some(19 * 1_000_000 + RETRY_MIN_NS));
    }

    #[test]
    fn success_ends_the_row_and_the_next_failure_begins_a_new_one() {
        let last_error = LastError::new(BackgroundWork::Compaction);
        assert!(!last_error.clear() && last_error.get().is_none());
        last_error.record(Error::Closed, 100);
        let second = last_error.record(Error::Closed, 300);
        assert_eq!((second.since_ns, second.last_ns, second.times), (100, 300, 2));
        assert!(last_error.clear() && last_error.get().is_none());
        let anew = last_error.record(Error::Closed, 500);
        assert_eq!((anew.since_ns, anew.times, anew.retry_at_ns), (500, 1, Some(500 + RETRY_MIN_NS)));
    }
}
