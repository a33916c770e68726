//! [`TierRoom`]: how full the fast tier is, in bytes of memory and in bytes of the log that it pins.
//!
//! A fast table is in no file, so the log keeps its records. [`super::LogPins`] looks at the log's bound; the
//! background work of the kind of keyspace that has a tier evicts; [`super::Backpressure`] slows writers down and stops
//! them.
//!
//! An eviction gives its room back at its end, all at once. Writers that waited for the end would go in jerks, or stop.
//! So the pressure on writers counts the part that running evictions have merged as gone ([`RunningEviction`]). It
//! counts *coming* bytes as there: sealed memtables, which the next flushes bring into the tier.
//!
//! Locks: `evictions` is held for arithmetic.

use super::pacer::pressure;
use super::supply::Supply;
use crate::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Writers are slowed down from this percentage of the capacity on. Bytes that running evictions have merged count as
/// gone. Writers settle half-way to the next percentage, so that a partition that is evicted still has room above it.
const SLOW_PERCENT: u64 = 85;

/// Writers are as slow as they may be from this percentage on.
const SLOWEST_PERCENT: u64 = 97;

/// Writers stop at this percentage: a memtable that is active by then may still come.
const STOP_PERCENT: u64 = 98;

/// Writers are also slowed down from this percentage on. Bytes that running evictions have merged count as there: an
/// eviction may wait long for the device before it gives its room back.
const SLOW_LIVE_PERCENT: u64 = 92;

/// Evictions for the log begin when the tier pins this part less of the log than it may: an eighth.
const LOG_EVICT_PART: u64 = 8;

/// Writers are stopped when the tier pins this part more of the log than it may: a tenth.
const LOG_STOP_PART: u64 = 10;

/// Ranges are to take newer views when tables that only readers hold take this part of the capacity: a tenth.
const HELD_PART: u64 = 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct TierRoom {
    capacity_bytes: u64,
    log_bytes_max: u64,
    /// Bytes of the tables that partitions have.
    live_bytes: AtomicU64,
    /// Bytes of these tables and of those that only readers hold.
    held_bytes: AtomicU64,
    /// How often tables have left a partition.
    replacements: AtomicU64,
    /// Bytes of the log from the oldest record on that only the tier has, at the last look.
    log_bytes: AtomicU64,
    /// The part of `log_bytes` before the first record that something else needs, too.
    log_bytes_alone: AtomicU64,
    /// Bytes that running evictions have merged.
    leaving_bytes: AtomicU64,
    /// Callers that wait until the tier is empty.
    drains: AtomicUsize,
    /// Callers that wait until the tables of the tier are merged.
    merges: AtomicUsize,
    /// Whether its medium had no room for a table. Something is evicted before the next try.
    is_refused: AtomicBool,
    /// How fast evictions give room back.
    evictions: Mutex<Evictions>,
}

/// How fast evictions give room back. All running evictions count together, by the bytes they have merged: a single one
/// takes long, and the pace of writers must not wait for its end.
#[derive(Debug, Default)]
struct Evictions {
    supply: Supply,
    /// How many run.
    running: usize,
    /// Bytes that they have merged since the supply was told.
    merged: u64,
}

/// The first evictions have no rate before they have merged this many bytes: half a step would be measured.
const MEASURED_BYTES_MIN: u64 = 1 << 20;

impl Evictions {
    fn begin(&mut self, now_ns: u64) {
        match self.running {
            0 => self.supply.pass_over(now_ns, true),
            _ => self.supply.due(now_ns),
        }
        self.running += 1;
    }

    /// Notes that an eviction has ended successfully.
    fn gave(&mut self, now_ns: u64) {
        self.running -= 1;
        self.supply.gave(now_ns, std::mem::take(&mut self.merged) as f64, self.running > 0);
    }

    /// Notes that an eviction has failed after it had merged `merged` bytes.
    fn failed(&mut self, merged: u64) {
        self.running -= 1;
        self.merged = self.merged.saturating_sub(merged);
        if self.running == 0 {
            self.supply.pass_over(0, false);
        }
    }

    fn rate(&self, now_ns: u64) -> Option<f64> {
        match self.running {
            0 => self.supply.rate(),
            _ if self.supply.bytes == 0.0 && self.merged < MEASURED_BYTES_MIN => None,
            _ => self.supply.rate_with(now_ns, self.merged as f64),
        }
    }
}

/// The memory of one fast table, until it is dropped.
#[derive(Debug)]
pub(crate) struct TierCharge {
    room: Arc<TierRoom>,
    bytes: u64,
}

impl TierCharge {
    pub(crate) fn new(room: &Arc<TierRoom>, bytes: u64) -> Self {
        room.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        TierCharge { room: Arc::clone(room), bytes }
    }
}

impl Drop for TierCharge {
    fn drop(&mut self) {
        self.room.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A running eviction. Once it is dropped, the bytes that it has merged no longer count as gone: either the tables have
/// left the tier, or they stay.
pub(crate) struct RunningEviction {
    room: Arc<TierRoom>,
    /// Bytes of the tables that it takes out of the tier.
    bytes: u64,
    merged: AtomicU64,
    has_finished: bool,
}

impl RunningEviction {
    /// Notes that it has merged `bytes` more, counted as they are in the tables.
    pub(crate) fn advance(&self, bytes: u64) {
        let merged = self.merged.load(Ordering::Relaxed);
        let more = bytes.min(self.bytes.saturating_sub(merged));
        self.merged.store(merged + more, Ordering::Relaxed);
        self.room.leaving_bytes.fetch_add(more, Ordering::Relaxed);
        self.room.evictions.lock().merged += more;
    }

    /// Notes that its tables have left the tier.
    pub(crate) fn finish(mut self, now_ns: u64) {
        self.advance(self.bytes);
        self.room.evictions.lock().gave(now_ns);
        self.has_finished = true;
    }
}

impl Drop for RunningEviction {
    fn drop(&mut self) {
        let merged = self.merged.load(Ordering::Relaxed);
        self.room.leaving_bytes.fetch_sub(merged, Ordering::Relaxed);
        if !self.has_finished {
            self.room.evictions.lock().failed(merged);
        }
    }
}

/// A guard: while it lives, the tier is emptied, and memtables whose partition has nothing in the tier bypass it.
pub(crate) struct TierDrain(Arc<TierRoom>);

impl Drop for TierDrain {
    fn drop(&mut self) {
        self.0.drains.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A guard: while it lives, unsorted tables are merged, whatever the cost models say.
pub(crate) struct TierMerge(Arc<TierRoom>);

impl Drop for TierMerge {
    fn drop(&mut self) {
        self.0.merges.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TierRoom {
    /// The room of an empty tier.
    pub(crate) fn new(capacity_bytes: u64, log_bytes_max: u64) -> Arc<Self> {
        Arc::new(TierRoom {
            capacity_bytes,
            log_bytes_max,
            live_bytes: AtomicU64::new(0),
            held_bytes: AtomicU64::new(0),
            replacements: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            log_bytes_alone: AtomicU64::new(0),
            leaving_bytes: AtomicU64::new(0),
            drains: AtomicUsize::new(0),
            merges: AtomicUsize::new(0),
            is_refused: AtomicBool::new(false),
            evictions: Mutex::default(),
        })
    }

    /// Bytes that its tables may have.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Bytes of the log that it may pin.
    pub(crate) fn log_bytes_max(&self) -> u64 {
        self.log_bytes_max
    }

    /// Bytes of the tables that partitions have.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of all its tables, including those that only readers hold.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Counts `after` bytes of a partition's tables instead of `before`.
    pub(crate) fn replace_live_bytes(&self, before: u64, after: u64) {
        self.live_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Notes that tables have left a partition: its readers no longer find them.
    pub(crate) fn count_replacement(&self) {
        self.replacements.fetch_add(1, Ordering::Release);
    }

    /// How often tables have left a partition. A reader that looks for tables after this call does not find those that
    /// had left by then.
    pub(crate) fn replacements(&self) -> u64 {
        self.replacements.load(Ordering::Acquire)
    }

    /// Whether tables that only readers have take much of the tier.
    #[inline]
    pub(crate) fn is_held_by_readers(&self) -> bool {
        self.held_bytes().saturating_sub(self.live_bytes()) > self.capacity_bytes / HELD_PART
    }

    /// Notes how much of the log the tier pins: `bytes` from the oldest record on that only the tier has, of which
    /// nothing else needs `alone`.
    pub(super) fn set_log_bytes(&self, bytes: u64, alone: u64) {
        self.log_bytes.store(bytes, Ordering::Relaxed);
        self.log_bytes_alone.store(alone, Ordering::Relaxed);
    }

    /// Bytes of the log that it pins, at the last look.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the log that only the tier pins, at the last look.
    pub(super) fn log_bytes_alone(&self) -> u64 {
        self.log_bytes_alone.load(Ordering::Relaxed)
    }

    /// The bytes of pinned log at which the partition that pins the oldest of them is to be evicted. Its eviction then
    /// ends by the time the tier pins as much as it may.
    pub(crate) fn log_evict_bytes(&self) -> u64 {
        self.log_bytes_max - self.log_bytes_max / LOG_EVICT_PART
    }

    /// Whether the tier pins more than [`TierRoom::log_evict_bytes`], so that the partition with the oldest record must
    /// leave.
    pub(crate) fn is_log_long(&self) -> bool {
        self.log_bytes() > self.log_evict_bytes()
    }

    /// Empties the tier as long as the guard lives.
    pub(crate) fn drain(self: &Arc<Self>) -> TierDrain {
        self.drains.fetch_add(1, Ordering::SeqCst);
        TierDrain(Arc::clone(self))
    }

    /// Merges the unsorted tables of each partition as long as the guard lives.
    pub(crate) fn merge_all(self: &Arc<Self>) -> TierMerge {
        self.merges.fetch_add(1, Ordering::SeqCst);
        TierMerge(Arc::clone(self))
    }

    /// Whether somebody waits until its tables are merged.
    pub(crate) fn is_to_be_merged(&self) -> bool {
        self.merges.load(Ordering::SeqCst) > 0
    }

    /// Whether somebody waits until it is empty, or its medium is full.
    pub(crate) fn is_drained(&self) -> bool {
        self.drains.load(Ordering::SeqCst) > 0 || self.is_refused.load(Ordering::SeqCst)
    }

    /// Notes whether its medium has refused a table because it was full.
    pub(crate) fn set_refused(&self, is_refused: bool) {
        self.is_refused.store(is_refused, Ordering::SeqCst);
    }

    /// Begins an eviction of `bytes` of tables. One coroutine advances it.
    pub(crate) fn begin_eviction(self: &Arc<Self>, now_ns: u64, bytes: u64) -> RunningEviction {
        self.evictions.lock().begin(now_ns);
        RunningEviction { room: Arc::clone(self), bytes, merged: AtomicU64::new(0), has_finished: false }
    }

    /// Bytes a second that evictions give back; `None` before the first has merged anything.
    pub(super) fn rate(&self, now_ns: u64) -> Option<f64> {
        self.evictions.lock().rate(now_ns)
    }

    /// How near the tier is to where writers stop: 0 is far, 1 is there. `coming`: bytes of sealed memtables that
    /// flushes will bring into it.
    pub(super) fn pressure(&self, coming: u64) -> f64 {
        let percent = |percent: u64| self.capacity_bytes / 100 * percent;
        let there = self.there(coming);
        let staying = there.saturating_sub(self.leaving_bytes.load(Ordering::Relaxed));
        let memory = pressure(staying, percent(SLOW_PERCENT), percent(SLOWEST_PERCENT));
        let memory = memory.max(pressure(there, percent(SLOW_LIVE_PERCENT), percent(STOP_PERCENT)));
        memory.max(pressure(self.log_bytes(), self.log_bytes_max, self.log_stop_bytes()))
    }

    /// Whether writers stop, until an eviction has made room. `coming` as for [`TierRoom::pressure`].
    pub(super) fn is_full(&self, coming: u64) -> bool {
        self.there(coming) >= self.capacity_bytes / 100 * STOP_PERCENT || self.log_bytes() > self.log_stop_bytes()
    }

    /// Bytes of its tables and of the `coming` memtables, which do not count while memtables bypass the tier.
    fn there(&self, coming: u64) -> u64 {
        self.live_bytes().saturating_add(if self.is_drained() { 0 } else { coming })
    }

    fn log_stop_bytes(&self) -> u64 {
        self.log_bytes_max.saturating_add(self.log_bytes_max / LOG_STOP_PART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn writers_are_slowed_down_before_they_are_stopped_by_memory_or_log() {
        let room = TierRoom::new(1000, 800);
        let state = || (room.pressure(0), room.is_full(0));
        assert_eq!(state(), (0.0, false));
        room.replace_live_bytes(0, 910);
        assert_eq!(state(), (0.5, false));
        room.replace_live_bytes(910, 979);
        assert_eq!(state(), (1.0, false));
        room.replace_live_bytes(979, 980);
        assert_eq!(state(), (1.0, true));
        room.replace_live_bytes(980, 900);
        assert_eq!((room.pressure(10), room.is_full(79), room.is_full(80)), (0.5, false, true));
        room.replace_live_bytes(900, 100);
        assert_eq!((room.is_log_long(), room.log_evict_bytes()), (false, 700));
        room.set_log_bytes(840, 840);
        assert!(room.is_log_long());
        assert_eq!(state(), (0.5, false));
        room.set_log_bytes(881, 0);
        assert_eq!(state(), (1.0, true));
    }

    #[test]
    fn what_a_running_eviction_has_merged_slows_nobody_down_but_takes_its_room() {
        let room = TierRoom::new(1000, 800);
        room.replace_live_bytes(0, 1000);
        assert_eq!((room.pressure(0), room.is_full(0)), (1.0, true));
        room.replace_live_bytes(1000, 920);
        let eviction = room.begin_eviction(0, 100);
        eviction.advance(30);
        assert!((room.pressure(0) - 40.0 / 120.0).abs() < 1e-9 && !room.is_full(0));
        eviction.advance(80);
        assert_eq!(room.pressure(0), 0.0, "it counts no more than it has");
        room.replace_live_bytes(920, 950);
        assert_eq!(room.pressure(0), 0.5, "its room is not there yet");
        assert_eq!(room.rate(SECOND / 2), None, "too little to be measured");
        room.replace_live_bytes(950, 850);
        eviction.finish(SECOND);
        assert_eq!((room.rate(SECOND), room.leaving_bytes.load(Ordering::Relaxed)), (Some(100.0), 0));
        // One that fails gives nothing back.
        room.begin_eviction(2 * SECOND, 100).advance(50);
        assert_eq!((room.rate(2 * SECOND), room.leaving_bytes.load(Ordering::Relaxed)), (Some(100.0), 0));
        // The pause before the next ones is not theirs. They count together while they run.
        let both = [room.begin_eviction(100 * SECOND, 70), room.begin_eviction(100 * SECOND, 70)];
        both.iter().for_each(|eviction| eviction.advance(70));
        let rate = |seconds: u64| room.rate(seconds * SECOND).unwrap().round();
        assert_eq!((rate(101), rate(102)), (120.0, 80.0), "in the second second they wait for the device");
    }

    #[test]
    fn the_first_eviction_has_a_rate_before_its_end() {
        let room = TierRoom::new(10 << 20, 1 << 30);
        let eviction = room.begin_eviction(0, 4 << 20);
        eviction.advance(64 << 10);
        assert_eq!(room.rate(SECOND), None);
        eviction.advance(MEASURED_BYTES_MIN);
        assert_eq!(room.rate(SECOND), Some((MEASURED_BYTES_MIN + (64 << 10)) as f64));
    }

    #[test]
    fn what_passes_a_drained_tier_by_is_not_coming() {
        let room = TierRoom::new(1000, 1000);
        assert!(room.is_full(980));
        let _drain = room.drain();
        assert_eq!((room.pressure(980), room.is_full(980)), (0.0, false));
    }

    #[test]
    fn memory_is_held_until_the_last_reader_is_gone() {
        let room = TierRoom::new(1000, 1000);
        let charges = [TierCharge::new(&room, 10), TierCharge::new(&room, 20)];
        assert_eq!((room.held_bytes(), room.live_bytes()), (30, 0));
        drop(charges);
        assert_eq!(room.held_bytes(), 0);
    }

    #[test]
    fn it_is_drained_while_anybody_waits_for_that_and_until_a_full_medium_has_room() {
        let room = TierRoom::new(1000, 1000);
        let first = room.drain();
        let second = room.drain();
        drop(first);
        assert!(room.is_drained());
        drop(second);
        assert!(!room.is_drained());
        room.set_refused(true);
        assert!(room.is_drained());
        room.set_refused(false);
        assert!(!room.is_drained());
    }
}
