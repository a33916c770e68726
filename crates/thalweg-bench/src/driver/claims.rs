//! [`Claims`]: distributes the operations of a closed loop to its threads.
//!
//! Threads claim many operations at a time, so that not every operation writes the counter that all threads share.
//! Towards the end they claim fewer, so that no thread has much left when the others are done. Operations that count
//! for one are done exactly as often as requested; the last batch of each thread may exceed its share.

use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK_MAX: u64 = 64;

/// Operations that no thread has claimed yet.
pub(super) struct Claims {
    /// `None`: no limit.
    left: Option<AtomicU64>,
    threads: u64,
}

/// Operations that one thread has claimed.
pub(super) struct Share<'a> {
    claims: &'a Claims,
    granted: u64,
}

impl Claims {
    /// `operations` operations for `threads` threads to claim; `None`: no limit.
    pub(super) fn new(operations: Option<u64>, threads: usize) -> Claims {
        Claims { left: operations.map(AtomicU64::new), threads: threads as u64 }
    }

    /// A thread's share, empty at first.
    pub(super) fn share(&self) -> Share<'_> {
        Share { claims: self, granted: 0 }
    }

    fn claim(&self) -> u64 {
        let Some(left) = &self.left else { return u64::MAX };
        let size = |left: u64| (left / (4 * self.threads)).clamp(1, CHUNK_MAX).min(left);
        let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left - size(left)));
        before.map_or(0, size)
    }
}

impl Share<'_> {
    /// Whether there is an operation for this thread. Claims more when the share is empty.
    #[inline]
    pub(super) fn any(&mut self) -> bool {
        if self.granted == 0 {
            self.granted = self.claims.claim();
        }
        self.granted > 0
    }

    /// Records that `operations` were done at once. What exceeds the share is taken from the unclaimed operations.
    #[inline]
    pub(super) fn done(&mut self, operations: u64) {
        if operations <= self.granted {
            self.granted -= operations;
            return;
        }
        let beyond = operations - self.granted;
        self.granted = 0;
        if let Some(left) = &self.claims.left {
            let take = |left: u64| Some(left.saturating_sub(beyond));
            let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        }
    }

    /// Returns the unused part of the share to the other threads.
    pub(super) fn give_back(self) {
        if let Some(left) = &self.claims.left {
            left.fetch_add(self.granted, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_together_do_exactly_as_many_as_asked_for() {
        for operations in [0, 1, 7, 1000, 100_003] {
            let claims = Claims::new(Some(operations), 3);
            let done: u64 = std::thread::scope(|scope| {
                let work = || {
                    let (mut share, mut done) = (claims.share(), 0);
                    while share.any() {
                        share.done(1);
                        done += 1;
                    }
                    done
                };
                let threads: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(done, operations);
        }
    }

    #[test]
    fn a_batch_counts_with_all_its_entries() {
        let claims = Claims::new(Some(10_000), 1);
        let mut share = claims.share();
        let mut batches = 0;
        while share.any() {
            share.done(1000);
            batches += 1;
        }
        assert_eq!(batches, 10);
    }

    #[test]
    fn what_is_given_back_is_done_by_another() {
        let claims = Claims::new(Some(1000), 2);
        let mut first = claims.share();
        assert!(first.any());
        first.give_back();
        let (mut second, mut done) = (claims.share(), 0);
        while second.any() {
            second.done(1);
            done += 1;
        }
        assert_eq!(done, 1000);
    }

    #[test]
    fn without_a_limit_there_is_always_one_more() {
        let claims = Claims::new(None, 1);
        let mut share = claims.share();
        assert!(share.any());
        share.done(u64::MAX);
        assert!(share.any());
    }
}
