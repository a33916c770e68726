//! Waiting for background work: flushes, compactions, tidying, and room on a full disk.

use super::engine::Writable;
use crate::error::{Error, Result};
use crate::keyspaces::{Backpressure, TierDrain};
use crate::log::Record;
use crate::ordered::OrderedKeyspace;
use crate::runtime::{BackgroundError, Environment};
use crate::table::KeyRange;

/// A writer that waits for room looks again after this time, in nanoseconds.
const LOOK_NS: u64 = 10_000_000;

/// The longest wait for room: work that should free room may itself wait for a reader or a checkpoint.
const WAIT_MAX_NS: u64 = 5_000_000_000;

impl Writable {
    /// Seals the active memtables. Waits until all memtables, and all entries that the fast tier has in memory, are in
    /// table files.
    pub(super) fn flush(&self) -> Result<()> {
        let waiting = self.ordered.seal_all();
        let drain = self.drain_tier();
        self.retry_now();
        let published = self.log.published();
        let is_evicted = || drain.is_none() || self.ordered.are_evicted(published);
        let is_done = || self.ordered.are_flushed(&waiting) && is_evicted();
        self.signals.wait_for_progress(is_done, || self.new_flush_error())
    }

    /// Waits until all entries that the fast tier has in memory now are in table files. Returns at once without such a
    /// tier.
    pub(super) fn evict(&self) -> Result<()> {
        let Some(_drain) = self.drain_tier() else { return Ok(()) };
        self.wait_for_evictions()
    }

    fn wait_for_evictions(&self) -> Result<()> {
        self.retry_now();
        let published = self.log.published();
        self.signals.wait_for_progress(|| self.ordered.are_evicted(published), || self.new_flush_error())
    }

    /// Empties a fast tier in memory as long as the guard lives.
    fn drain_tier(&self) -> Option<TierDrain> {
        let is_volatile = self.kind.options.tier.as_ref().is_some_and(|tier| !tier.is_persistent());
        if is_volatile { self.drain_any_tier() } else { None }
    }

    /// Empties the fast tier, whatever its medium, as long as the guard lives.
    fn drain_any_tier(&self) -> Option<TierDrain> {
        let drain = self.backpressure.tier.as_ref().map(|tier| tier.drain())?;
        self.signals.compaction_wanted.notify_all();
        Some(drain)
    }

    /// Merges the entries that are in unsorted tables of the fast tier now. Returns at once without a tier.
    pub(super) fn compact_fast_tier(&self) -> Result<()> {
        let Some(tier) = &self.backpressure.tier else { return Ok(()) };
        let _merge = tier.merge_all();
        self.signals.compaction_wanted.notify_all();
        self.retry_now();
        let published = self.log.published();
        self.signals.wait_for_progress(|| self.ordered.are_sorted(published), || self.new_error())
    }

    /// Waits until no memtable waits for its flush and no compaction runs or is wanted.
    pub(super) fn wait_for_compactions(&self) -> Result<()> {
        let is_done = || {
            let is_pending = || self.ordered.has_tier_work() || self.ordered.compactor.is_pending();
            !self.registry.has_pending_flush() && !is_pending()
        };
        self.retry_now();
        self.signals.wait_for_progress(is_done, || self.new_error())
    }

    /// Flushes, and compacts as a quiet database does, until few replaced versions are left.
    pub(super) fn tidy(&self) -> Result<()> {
        self.flush()?;
        self.wait_for_compactions()?;
        let compactor = &self.ordered.compactor;
        let is_done = || compactor.is_tidy() && !compactor.is_pending();
        compactor.tidy_while(|| self.signals.wait_for_progress(is_done, || self.new_error()))
    }

    /// Flushes, and compacts what a keyspace has in `range` down to the last level.
    pub(super) fn compact_range(&self, keyspace: &OrderedKeyspace, range: KeyRange) -> Result<()> {
        self.flush()?;
        // Entries above the levels must be in the levels first.
        let drain = self.drain_any_tier();
        if drain.is_some() {
            self.wait_for_evictions()?;
        }
        self.retry_now();
        let wait = |is_done: &dyn Fn() -> bool| self.signals.wait_for_progress(is_done, || self.new_error());
        self.ordered.compactor.compact_while(keyspace, range, wait)
    }

    /// Called before a write. If room is short, seals memtables so that flushes and compactions free some, and waits
    /// for it. `NoSpace` when no room gets free.
    pub(super) fn wait_for_space(&self, environment: &Environment, record: &Record, frees_space: bool) -> Result<()> {
        if !self.space.refuses(record, frees_space) {
            return Ok(());
        }
        let clock = &environment.clock;
        let start_ns = clock.now_ns();
        self.ordered.sealer.seal_all();
        // Entries in the fast tier keep their log on the disk.
        let (_drain, _waiting) = (self.drain_tier(), self.signals.waiting());
        loop {
            let ticket = self.signals.progress.ticket();
            self.health.check()?;
            self.lineage.settle_for_space();
            self.signals.compaction_wanted.notify_all();
            if !self.space.refuses(record, frees_space) {
                break;
            }
            let now_ns = clock.now_ns();
            if !self.may_give_room() || now_ns.saturating_sub(start_ns) > WAIT_MAX_NS {
                self.space.spend_reserve(record, frees_space)?;
                break;
            }
            environment.scheduler.wait(&self.signals.progress, ticket, Some(now_ns.saturating_add(LOOK_NS)));
        }
        self.backpressure.record_wait_for_space(clock.now_ns().saturating_sub(start_ns));
        Ok(())
    }

    /// Called after a write that made the log a segment longer. Checks the room that is left, and wakes the flush
    /// coroutine when the log has outgrown its cap.
    pub(super) fn watch_log(&self) {
        if !self.space.watch() {
            return;
        }
        let Backpressure { log_pins, tier, limits, .. } = &*self.backpressure;
        log_pins.look_at_tier();
        if log_pins.backlog_bytes() > limits.log_bytes_max {
            self.signals.flush_wanted.notify_all();
        }
        if tier.as_ref().is_some_and(|tier| tier.is_log_long()) {
            self.signals.compaction_wanted.notify_all();
        }
    }

    /// Whether background work that does not fail is going to make room.
    fn may_give_room(&self) -> bool {
        let fails = self.flush_error().is_some() || self.compaction_failures().next().is_some();
        !fails
            && (self.registry.has_pending_flush()
                || self.backpressure.tier.as_ref().is_some_and(|tier| tier.live_bytes() > 0)
                || self.ordered.compactor.is_pending()
                || self.lineage.unsettled().0 > 0
                || self.lineage.removing_bytes() > 0)
    }

    /// Tries failed work again at once, as a caller waits for it. That caller does not get earlier failures.
    fn retry_now(&self) {
        self.health.flushes.request_retry();
        self.health.evictions.request_retry();
        self.signals.flush_retry.notify_all();
        self.ordered.compactor.retry_parked();
    }

    /// The error of a flush that was tried after a caller asked for it.
    fn new_flush_error(&self) -> Option<Error> {
        let mut troubles = self.health.flushes.get().into_iter().chain(self.health.evictions.get());
        troubles.find(|trouble| !trouble.is_retry_requested).map(|trouble| trouble.error)
    }

    /// The error of a flush or a compaction that was tried after a caller asked for it.
    fn new_error(&self) -> Option<Error> {
        let new_compaction_error = || self.compaction_failures().find(|trouble| !trouble.is_retry_requested);
        self.new_flush_error().or_else(|| new_compaction_error().map(|trouble| trouble.error))
    }

    fn compaction_failures(&self) -> impl Iterator<Item = BackgroundError> + use<> {
        let keyspaces = self.registry.keyspaces();
        let failures: Vec<_> = keyspaces.iter().flat_map(|keyspace| keyspace.failures()).collect();
        failures.into_iter().map(|(_, trouble)| trouble)
    }
}
