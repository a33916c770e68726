//! [`LogPins`]: from where the log is needed.
//!
//! Each keyspace pins the log at the oldest record that it has in no table ([`Keyspace::oldest_mark`]), and each
//! definition that the manifest does not know pins it at its record ([`super::Definitions`]).
//!
//! While the log is replayed, records that are still to be replayed are in no buffer. So edits of that time need the
//! log from the last replayed record on.
//!
//! Records in fast tables pin the log as those in memtables do, but have a bound of their own ([`TierRoom`]): flushes
//! of memtables do not release them. So the checks of whether flushes must hurry do not count them.
//!
//! Locks: `replayed_to` is held for a copy.

use super::keyspace::Keyspace;
use super::registry::Registry;
use super::tier_room::TierRoom;
use crate::format::LogMark;
use crate::log::Log;
use crate::planted::{Bug, planted};
use crate::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// An edit of its own is worth its cost when nothing needs this many segments.
const UNNEEDED_SEGMENTS: u32 = 4;

/// See the module.
pub(crate) struct LogPins {
    log: Arc<Log>,
    registry: Arc<Registry>,
    /// Buffers that pin the oldest segment are flushed when the log holds more.
    log_bytes_max: u64,
    /// The segment that the last edit with a log start named.
    start_segment: AtomicU32,
    /// While the log is replayed: where the last replayed record begins. Later records are in no buffer yet.
    replayed_to: Mutex<Option<LogMark>>,
    tier: Option<Arc<TierRoom>>,
}

impl LogPins {
    /// The pins on `log`, which the manifest says is needed from `start` on.
    pub(crate) fn new(
        log: &Arc<Log>,
        registry: &Arc<Registry>,
        log_bytes_max: u64,
        start: LogMark,
        tier: Option<&Arc<TierRoom>>,
    ) -> Arc<Self> {
        Arc::new(LogPins {
            log: Arc::clone(log),
            registry: Arc::clone(registry),
            log_bytes_max,
            start_segment: AtomicU32::new(start.position.segment()),
            replayed_to: Mutex::default(),
            tier: tier.cloned(),
        })
    }

    /// Notes how far the log was replayed; `None`: to its end.
    pub(crate) fn set_replayed_to(&self, mark: Option<LogMark>) {
        *self.replayed_to.lock() = mark;
    }

    /// Where the last replayed record begins, while the log is replayed.
    pub(crate) fn replayed_to(&self) -> Option<LogMark> {
        *self.replayed_to.lock()
    }

    /// See [`Log::scarcity`].
    pub(super) fn segment_scarcity(&self) -> Option<(f64, f64)> {
        self.log.scarcity()
    }

    /// Where the log is needed from.
    pub(crate) fn needed(&self) -> LogMark {
        self.needed_by(|keyspace| keyspace.oldest_mark())
    }

    /// Where the log is needed from, if each keyspace pins it at `mark_of`.
    ///
    /// The published mark is read first: a record published before it was read is in a buffer now or was flushed; one
    /// published later begins at or after the mark. Then the registry, then the definitions: a keyspace that is gone
    /// from the registry by a drop the manifest does not know is among these.
    fn needed_by(&self, mark_of: impl Fn(&dyn Keyspace) -> Option<LogMark>) -> LogMark {
        let mut needed = self.log.published();
        let mut pin = |mark: LogMark| {
            if mark.position < needed.position {
                needed = mark;
            }
        };
        self.replayed_to().filter(|_| !planted(Bug::ReplayPinForgotten)).into_iter().for_each(&mut pin);
        if !planted(Bug::ColdPartitionForgotten) {
            self.registry.keyspaces().iter().filter_map(|keyspace| mark_of(&**keyspace)).for_each(&mut pin);
        }
        let mut ended = Vec::new();
        self.registry.definitions().pins(&mut pin, |keyspace| ended.push(Arc::clone(keyspace)));
        ended.iter().filter_map(|keyspace| mark_of(&**keyspace)).for_each(&mut pin);
        needed
    }

    /// Where the log is needed from once an edit is in force, after which each keyspace pins the log at `mark_of`. The
    /// edit names this mark. Later calls do not return earlier marks.
    pub(crate) fn start_after(&self, mark_of: impl Fn(&dyn Keyspace) -> Option<LogMark>) -> LogMark {
        let needed = self.needed_by(mark_of);
        self.start_segment.fetch_max(needed.position.segment(), Ordering::Relaxed);
        needed
    }

    /// Where the log is needed from for the records in buffers.
    fn needed_by_buffers(&self) -> LogMark {
        self.needed_by(|keyspace| keyspace.oldest_buffer_mark())
    }

    /// Bytes of the log from the oldest pin on, without the pins of the fast tier. Segments before that pin only wait
    /// for an edit to settle.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.log.bytes_from(self.needed_by_buffers().position.segment())
    }

    /// Bytes of the log, without those that only the fast tier needs, at the last look. Every write calls this.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        let backlog = self.log.backlog_bytes();
        self.tier.as_ref().map_or(backlog, |tier| backlog.saturating_sub(tier.log_bytes_alone()))
    }

    /// Looks at what the fast tier pins. Called when the log has become longer or shorter, or the tier has released
    /// some of it.
    pub(crate) fn look_at_tier(&self) {
        let Some(tier) = &self.tier else { return };
        let (all, buffers) = (self.needed().position, self.needed_by_buffers().position);
        if all >= buffers {
            return tier.set_log_bytes(0, 0);
        }
        // The log that the tier pins is counted to the byte: it grows evenly, and so does the pressure on writers.
        let (from, to) = (self.log.bytes_from(all.segment()), self.log.bytes_from(buffers.segment()));
        tier.set_log_bytes(self.log.bytes_since(all), from.saturating_sub(to));
    }

    /// The oldest pinned segment, if the log is longer than it may be. Buffers that begin in it or before it are to be
    /// flushed.
    pub(crate) fn segment_to_relieve(&self) -> Option<u32> {
        if self.backlog_bytes() <= self.log_bytes_max {
            return None;
        }
        let oldest = self.needed_by_buffers().position.segment();
        (self.log.bytes_from(oldest) > self.log_bytes_max).then_some(oldest)
    }

    /// Whether enough segments are unneeded to be worth an edit of their own.
    pub(crate) fn are_segments_unneeded(&self) -> bool {
        let told = self.start_segment.load(Ordering::Relaxed);
        self.needed().position.segment() >= told.saturating_add(UNNEEDED_SEGMENTS)
    }
}
