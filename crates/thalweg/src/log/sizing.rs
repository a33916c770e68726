//! [`Sizing`]: how large the next segment is, and when it is made ready.
//!
//! A log begins with the smallest segment. A segment that is full soon after it was begun makes the next one four times
//! as large, up to the option. A quiet log goes back to the smallest. So a small database has a small log, and a busy
//! database makes few segments. A record that needs several segments gets larger ones at once.
//!
//! A busy log keeps as many segments prepared as it fills in [`SLOW_PREPARATION_NS`], and the next two of them ready
//! for stores. A slow log gets the next segment when a quarter of the one in use is full. A quiet log has none ahead.
//! Pure.

use super::header::{BLOCK_BYTES, SEGMENT_BYTES_MIN};

/// The weight that earlier preparations keep when the next one is counted.
const DECAY: f64 = 0.7;

/// A segment that is full within this time makes the next one larger.
const QUICK_NS: u64 = 1_000_000_000;

/// A log without a new record for this long gives back unused space. A workload with shorter pauses keeps its segments:
/// making 26 of them again cost a 9-second YCSB-A 7 % of its throughput.
pub(super) const QUIET_NS: u64 = 10_000_000_000;

/// A log without a new record for this long forgets its peak: it keeps no more idle slots than a log that was never
/// longer.
pub(super) const PAUSE_NS: u64 = 2_000_000_000;

/// The factor by which the next segment is larger.
const GROWTH: u32 = 4;

/// The number of segments that a busy log has ready for stores, and the least number that it has prepared.
pub(super) const READY_BUSY: usize = 2;

/// The greatest number of segments that a busy log has prepared.
pub(super) const AHEAD_MAX: usize = 8;

/// Prepared segments last this long at the rate at which segments become full. To prepare a segment takes 15 ms on
/// average. But while writes fill the queue of a slow device, each of its syncs waits for them, up to 200 ms.
const SLOW_PREPARATION_NS: u64 = 600_000_000;

/// Segments of fewer bytes are full too soon to measure how fast the log is.
const MEASURED_BYTES_MIN: u32 = 1 << 20;

/// A record should not need more segments than this where the option allows larger ones.
const SEGMENTS_A_RECORD: u32 = 4;

/// The next segment is made ready when 1/`USED_PART` of the segment in use is full: a quarter. After a quiet time, it
/// is made ready when a quarter of the room that was left at that time is full.
const USED_PART: u32 = 4;

/// The size of the next segment, and when it is wanted.
#[derive(Debug)]
pub(super) struct Sizing {
    /// The bytes of the next new segment.
    next: u32,
    /// The bytes of the largest segment.
    most: u32,
    /// When the segment in use was begun.
    begun_ns: u64,
    /// The bytes of the segment in use; 0: it was in use during a pause.
    in_use: u32,
    /// About how long a segment of the largest size takes to become full; 0: not known since a pause.
    full_ns: u64,
    /// Bytes of segments that were prepared, and the time that took, the latest with the most weight.
    made_bytes: f64,
    made_ns: f64,
    /// When the preparation of the segments under way began.
    making_since_ns: Option<u64>,
    is_busy: bool,
    /// The next segment is wanted once the one in use is written up to here.
    wake_at: u32,
    /// The next segment is wanted.
    is_due: bool,
}

impl Sizing {
    /// The sizing of a log that begins with a segment of the smallest size.
    pub(super) fn new(most: u32, now_ns: u64) -> Sizing {
        let next = SEGMENT_BYTES_MIN.min(most);
        Sizing {
            next,
            most,
            begun_ns: now_ns,
            in_use: 0,
            full_ns: 0,
            made_bytes: 0.0,
            made_ns: 0.0,
            making_since_ns: None,
            is_busy: false,
            wake_at: next / USED_PART,
            is_due: false,
        }
    }

    /// Returns the bytes of the next new segment.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Returns how many segments should be prepared ahead of their use.
    pub(super) fn ahead(&self) -> usize {
        if !self.is_busy {
            return usize::from(self.is_due);
        }
        let ahead = SLOW_PREPARATION_NS.checked_div(self.full_ns).unwrap_or(0);
        usize::try_from(ahead).unwrap_or(AHEAD_MAX).clamp(READY_BUSY, AHEAD_MAX)
    }

    /// Returns how many of them should be ready for stores.
    pub(super) fn ready(&self) -> usize {
        self.ahead().min(READY_BUSY)
    }

    /// Whether the log fills segments of the largest size, and did not pause.
    pub(super) fn is_fast(&self) -> bool {
        self.is_busy && self.full_ns > 0
    }

    /// Notes that segments are being prepared from now on.
    pub(super) fn begin_to_make(&mut self, now_ns: u64) {
        self.making_since_ns = Some(now_ns);
    }

    /// Notes that `bytes` of the segments under way are durable; 0: their preparation failed.
    pub(super) fn made(&mut self, bytes: u64, now_ns: u64) {
        if let Some(since) = self.making_since_ns.take().filter(|_| bytes > 0) {
            self.made_bytes = self.made_bytes * DECAY + bytes as f64;
            self.made_ns = self.made_ns * DECAY + now_ns.saturating_sub(since) as f64;
        }
    }

    /// Returns how scarce prepared segments are, if there are `prepared` of `wanted` ones, and the rate at which they
    /// are made, in bytes a second. The scarcity goes from 0, if half of the wanted ones are there, to 1, if there is
    /// none. `None`: they are not scarce, or the log is filled too slowly, or no rate is known. Segments under way
    /// lower the rate once they take longer than earlier ones.
    pub(super) fn scarcity(&self, prepared: usize, wanted: usize, now_ns: u64) -> Option<(f64, f64)> {
        let enough = wanted / 2;
        if enough < READY_BUSY || prepared >= enough || self.made_bytes <= 0.0 {
            return None;
        }
        let under_way = self.making_since_ns.map_or(0, |since| now_ns.saturating_sub(since)) as f64;
        let ns = self.made_ns + (under_way - self.made_ns * (1.0 - DECAY)).max(0.0);
        Some((1.0 - prepared as f64 / enough as f64, self.made_bytes / ns.max(1.0) * 1e9))
    }

    /// Notes that the segment in use is written up to `offset`. Returns whether that makes the next one due.
    #[inline]
    pub(super) fn is_due_at(&mut self, offset: u32) -> bool {
        let is_due = offset >= self.wake_at;
        if is_due {
            (self.wake_at, self.is_due) = (u32::MAX, true);
        }
        is_due
    }

    /// Notes that a segment of `bytes` replaces a full one.
    pub(super) fn took(&mut self, bytes: u32, now_ns: u64) {
        let full_ns = now_ns.saturating_sub(self.begun_ns).max(1);
        self.is_busy = full_ns < QUICK_NS;
        if self.is_busy && self.in_use >= MEASURED_BYTES_MIN.min(self.most) {
            let scaled_ns = (full_ns as f64 * f64::from(self.most) / f64::from(self.in_use)) as u64;
            let full_ns = scaled_ns.min(QUICK_NS);
            self.full_ns = if self.full_ns == 0 { full_ns } else { (3 * self.full_ns + full_ns) / 4 };
        }
        if self.is_busy {
            self.next = self.next.max(bytes.saturating_mul(GROWTH).min(self.most));
        }
        (self.begun_ns, self.in_use, self.wake_at, self.is_due) = (now_ns, bytes, bytes / USED_PART, false);
    }

    /// Notes that a record of `body_bytes` waits for segments.
    pub(super) fn record_waits(&mut self, body_bytes: u32) {
        let share = (body_bytes / SEGMENTS_A_RECORD).div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
        self.next = self.next.max(share.min(self.most));
    }

    /// Notes that there is no room for the next segment. Returns whether a smaller one may be tried.
    pub(super) fn shrink(&mut self) -> bool {
        let can = self.next > SEGMENT_BYTES_MIN;
        self.is_busy = false;
        self.next = (self.next / GROWTH / BLOCK_BYTES * BLOCK_BYTES).max(SEGMENT_BYTES_MIN);
        can
    }

    /// Notes that no record came for [`PAUSE_NS`].
    pub(super) fn paused(&mut self) {
        (self.full_ns, self.in_use) = (0, 0);
    }

    /// Notes that the log is quiet: no record came for [`QUIET_NS`]. The segment in use is written up to `offset` of
    /// `bytes`.
    pub(super) fn quiet(&mut self, offset: u32, bytes: u32) {
        self.next = SEGMENT_BYTES_MIN.min(self.most);
        (self.full_ns, self.in_use, self.is_busy, self.is_due) = (0, 0, false, false);
        let left = bytes.saturating_sub(offset);
        // A quarter of the remaining room, so that a log with a record now and then does not make and remove a spare
        // each time.
        self.wake_at = (bytes / USED_PART).max(offset.saturating_add(left / USED_PART));
    }

    /// Returns whether an idle slot of this size fits the log now: it is not full at once, and not much larger than a
    /// new segment.
    pub(super) fn fits(&self, bytes: u32) -> bool {
        !self.is_too_small(bytes) && bytes <= self.next.saturating_mul(GROWTH)
    }

    /// Returns whether a slot of this size would be full at once.
    pub(super) fn is_too_small(&self, bytes: u32) -> bool {
        bytes < self.next / GROWTH
    }

    /// Returns whether the sizing differs from that of a quiet log.
    pub(super) fn is_grown(&self) -> bool {
        self.is_busy || self.next > SEGMENT_BYTES_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u32 = 16 << 20;
    const MS: u64 = 1_000_000;

    #[test]
    fn a_busy_log_gets_large_segments_within_four_of_them() {
        let mut sizing = Sizing::new(MOST, 0);
        let mut sizes = Vec::new();
        for turn in 1..=5 {
            sizes.push(sizing.next());
            sizing.took(sizing.next(), turn * 10 * MS);
        }
        assert_eq!(sizes, [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20]);
        assert_eq!((sizing.next(), sizing.ready()), (MOST, READY_BUSY));
    }

    #[test]
    fn segments_ahead_of_a_busy_log_last_as_long_as_a_slow_preparation() {
        let ahead_after = |full_ns: u64| {
            let mut sizing = Sizing::new(MOST, 0);
            for turn in 1..=40 {
                sizing.took(sizing.next(), turn * full_ns);
            }
            sizing.ahead()
        };
        let of_ms = [1, 99, 149, 199, 300].map(|ms| ahead_after(ms * MS));
        assert_eq!(of_ms, [AHEAD_MAX, 6, 4, 3, READY_BUSY]);
        assert_eq!(ahead_after(2 * QUICK_NS), 0);
        // Small segments are to be used up soon, because the next ones are larger. That of 1 MiB is the first to count.
        let mut sizing = Sizing::new(MOST, 0);
        (1..=3).for_each(|turn| sizing.took(sizing.next(), turn * MS));
        assert_eq!((sizing.next(), sizing.ahead()), (4 << 20, READY_BUSY));
        sizing.took(4 << 20, 9 * MS);
        assert_eq!((sizing.next(), sizing.ahead(), sizing.ready()), (MOST, 6, READY_BUSY));
    }

    #[test]
    fn segments_are_scarce_where_fewer_than_half_of_many_are_left() {
        let mut sizing = Sizing::new(MOST, 0);
        assert_eq!(sizing.scarcity(0, 8, 0), None, "no rate is known");
        sizing.begin_to_make(0);
        sizing.made(MOST.into(), 100 * MS);
        let rate = f64::from(MOST) * 10.0;
        let of = |prepared| sizing.scarcity(prepared, 8, 200 * MS);
        assert_eq!([0, 1, 3, 4].map(of), [Some((1.0, rate)), Some((0.75, rate)), Some((0.25, rate)), None]);
        // Two are enough for a log that is filled slowly, and there may be none for a while.
        assert_eq!(sizing.scarcity(0, 2, 200 * MS), None);
        // One that takes long counts as one that gives nothing.
        sizing.begin_to_make(200 * MS);
        assert!(sizing.scarcity(0, 8, 230 * MS).is_some_and(|(_, now)| (now - rate).abs() < 1.0));
        assert!(sizing.scarcity(0, 8, 1200 * MS).is_some_and(|(_, now)| now < rate / 9.0));
        sizing.made(0, 1200 * MS);
        assert_eq!(sizing.scarcity(0, 8, 2000 * MS), Some((1.0, rate)), "that one failed");
    }

    #[test]
    fn a_pause_is_not_the_time_that_a_segment_takes() {
        let mut sizing = Sizing::new(MOST, 0);
        (1..=40).for_each(|turn| sizing.took(sizing.next(), turn * 20 * MS));
        assert_eq!(sizing.ahead(), AHEAD_MAX);
        sizing.paused();
        sizing.took(MOST, 3_000 * MS);
        sizing.took(MOST, 3_020 * MS);
        sizing.took(MOST, 3_040 * MS);
        assert_eq!(sizing.ahead(), AHEAD_MAX);
    }

    #[test]
    fn a_slow_log_keeps_small_segments_and_makes_the_next_when_it_is_due() {
        let mut sizing = Sizing::new(MOST, 0);
        for turn in 1..10 {
            assert_eq!((sizing.next(), sizing.ahead()), (SEGMENT_BYTES_MIN, 0));
            assert!(!sizing.is_due_at(1000));
            assert!(sizing.is_due_at(SEGMENT_BYTES_MIN / 2));
            assert!(!sizing.is_due_at(SEGMENT_BYTES_MIN / 2 + 1), "told once");
            assert_eq!(sizing.ahead(), 1);
            sizing.took(SEGMENT_BYTES_MIN, turn * 2 * QUICK_NS);
        }
    }

    #[test]
    fn a_quiet_log_begins_small_again_and_wants_no_segment_for_one_record() {
        let mut sizing = Sizing::new(MOST, 0);
        (0..5).for_each(|_| sizing.took(sizing.next(), MS));
        sizing.quiet(12 << 20, MOST);
        assert_eq!((sizing.next(), sizing.ahead()), (SEGMENT_BYTES_MIN, 0));
        assert!(!sizing.is_due_at((12 << 20) + 1000));
        assert!(sizing.is_due_at(13 << 20));
        assert!(!sizing.fits(MOST) && sizing.fits(SEGMENT_BYTES_MIN));
    }

    #[test]
    fn a_large_record_and_a_full_disk_change_the_size() {
        let mut sizing = Sizing::new(MOST, 0);
        sizing.record_waits(10 << 20);
        assert_eq!(sizing.next(), (10 << 20) / 4);
        sizing.record_waits(u32::MAX);
        assert_eq!(sizing.next(), MOST);
        let tries = (0..10).take_while(|_| sizing.shrink()).count();
        assert_eq!((tries, sizing.next()), (4, SEGMENT_BYTES_MIN));
        assert_eq!(Sizing::new(MOST, 0).next(), SEGMENT_BYTES_MIN);
    }
}
