//! The calls that wait for durability: [`Lineage::settle`] and the clean close.

use super::manifest::record::Record;
use super::open::Lineage;
use crate::error::{Error, Result};
use crate::format::LogMark;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Lineage {
    /// Waits until every edit installed so far is settled, durably. The settler must be running. Returns `NoSpace` when
    /// the disk is too full to record that; the caller may try again.
    pub(crate) fn settle(&self) -> Result<()> {
        let (target, failures) = {
            let mut book = self.book();
            let target = book.ledger.appended();
            book.wanted = book.wanted.max(target);
            (target, book.failures)
        };
        self.wake.notify_all();
        self.environment.wait_until(&self.changed, || {
            let failure = {
                let book = self.book();
                if book.ledger.settled() >= target {
                    return Some(Ok(()));
                }
                book.failure.clone().filter(|_| book.failures > failures)
            };
            match (self.check(), failure) {
                (Err(error), _) | (Ok(()), Some(error)) => Some(Err(error)),
                _ if self.stopping.load(Ordering::Acquire) => Some(Err(Error::Closed)),
                _ => None,
            }
        })
    }

    /// Closes the manifest: settles all edits, appends the `closed` record with the log's end, and syncs. Returns the
    /// manifest's number and length, for the clean-close seal of the log. No edit can be installed afterwards. Must
    /// come before [`Lineage::stop`].
    pub(crate) fn close(&self, log_end: LogMark) -> Result<(u64, u64)> {
        loop {
            self.settle()?;
            let _syncing = self.syncing.lock_blocking(&self.environment);
            let _turn = self.turn.lock_blocking(&self.environment);
            self.check()?;
            let settled = {
                let book = self.book();
                if book.is_closed {
                    return Ok((book.open.number, book.open.end));
                }
                if book.ledger.settled() != book.ledger.appended() {
                    continue;
                }
                book.ledger.settled()
            };
            let end = self.append_blocking(&Record::Closed { log_end, edit: settled })?;
            let (file, number) = {
                let mut book = self.book();
                book.is_closed = true;
                (Arc::clone(book.open.file.file()), book.open.number)
            };
            file.sync().map_err(|error| self.health.poison(error))?;
            self.metrics.syncs_waited_for.increment();
            return Ok((number, end));
        }
    }

    /// Ends the background coroutines.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake.notify_all();
        self.changed.notify_all();
    }
}
