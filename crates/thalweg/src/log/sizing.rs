//! [`Sizing`]: how large the next segment is, and when it is made ready.
//!
//! A log begins with the smallest segment. One that is full soon after it was begun makes the next four times as large,
//! up to the option; a quiet log goes back to the smallest. So a small database has a small log, and a busy one makes
//! few segments. A record that needs several segments asks for larger ones at once.
//!
//! Spares follow the same rule: a busy log keeps two ready; a slow one gets the next when a quarter of the segment in
//! use is full; a quiet one has none. Pure: nothing here touches a disk or a lock.

use super::framing::{BLOCK_BYTES, SEGMENT_BYTES_MIN};

/// A segment that is full within this time makes the next one larger.
const QUICK_NS: u64 = 1_000_000_000;

/// A log to which nothing was added for this long gives back what it does not use. A workload that pauses for less
/// finds its segments again: making 26 of them anew cost a 9-second YCSB-A 7 % of its throughput.
pub(super) const QUIET_NS: u64 = 10_000_000_000;

const GROWTH: u32 = 4;

/// Spares of a busy log.
const SPARES_BUSY: usize = 2;

/// A record should not need more segments than this where the option allows larger ones.
const SEGMENTS_A_RECORD: u32 = 4;

/// What of a segment is used before the next one is made ready: this part of it, or of what was left of it when the
/// log was quiet.
const USED_PART: u32 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Sizing {
    /// Bytes of the next new segment.
    next: u32,
    most: u32,
    begun_ns: u64,
    is_busy: bool,
    /// Once the segment in use is written up to here, a spare is wanted.
    wake_at: u32,
    /// A spare is wanted.
    is_due: bool,
}

impl Sizing {
    /// Of a log that begins with a segment of the smallest size.
    pub(super) fn new(most: u32, now_ns: u64) -> Sizing {
        let next = SEGMENT_BYTES_MIN.min(most);
        Sizing { next, most, begun_ns: now_ns, is_busy: false, wake_at: next / USED_PART, is_due: false }
    }

    /// Bytes of the next new segment.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Spares that there should be.
    pub(super) fn spares(&self) -> usize {
        if self.is_busy { SPARES_BUSY } else { usize::from(self.is_due) }
    }

    /// The segment in use is written up to `offset`. Whether that makes a spare due.
    #[inline]
    pub(super) fn is_due_at(&mut self, offset: u32) -> bool {
        let is_due = offset >= self.wake_at;
        if is_due {
            (self.wake_at, self.is_due) = (u32::MAX, true);
        }
        is_due
    }

    /// A segment of `bytes` takes the place of a full one.
    pub(super) fn took(&mut self, bytes: u32, now_ns: u64) {
        self.is_busy = now_ns.saturating_sub(self.begun_ns) < QUICK_NS;
        if self.is_busy {
            self.next = self.next.max(bytes.saturating_mul(GROWTH).min(self.most));
        }
        (self.begun_ns, self.wake_at, self.is_due) = (now_ns, bytes / USED_PART, false);
    }

    /// A record of so many bytes waits for segments.
    pub(super) fn asked_for(&mut self, body_bytes: u32) {
        let share = (body_bytes / SEGMENTS_A_RECORD).div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
        self.next = self.next.max(share.min(self.most));
    }

    /// There is no room for a segment of that size; whether a smaller one is worth a try.
    pub(super) fn shrink(&mut self) -> bool {
        let can = self.next > SEGMENT_BYTES_MIN;
        self.is_busy = false;
        self.next = (self.next / GROWTH / BLOCK_BYTES * BLOCK_BYTES).max(SEGMENT_BYTES_MIN);
        can
    }

    /// Nothing was added for [`QUIET_NS`]; the segment in use is written up to `offset`, of `bytes`.
    pub(super) fn quiet(&mut self, offset: u32, bytes: u32) {
        self.next = SEGMENT_BYTES_MIN.min(self.most);
        (self.is_busy, self.is_due) = (false, false);
        let left = bytes.saturating_sub(offset);
        // A quarter of what is left, or a log that gets a record now and then would make and remove a spare each time.
        self.wake_at = (bytes / USED_PART).max(offset.saturating_add(left / USED_PART));
    }

    /// Whether an idle slot of this size serves the log as it is now: neither full at once, nor larger than what the
    /// log would make.
    pub(super) fn fits(&self, bytes: u32) -> bool {
        !self.is_too_small(bytes) && bytes <= self.next.saturating_mul(GROWTH)
    }

    /// Whether a slot of this size would be full at once.
    pub(super) fn is_too_small(&self, bytes: u32) -> bool {
        bytes < self.next / GROWTH
    }

    /// Whether a quiet log would go on otherwise.
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
        assert_eq!((sizing.next(), sizing.spares()), (MOST, SPARES_BUSY));
    }

    #[test]
    fn a_slow_log_keeps_small_segments_and_makes_the_next_when_it_is_due() {
        let mut sizing = Sizing::new(MOST, 0);
        for turn in 1..10 {
            assert_eq!((sizing.next(), sizing.spares()), (SEGMENT_BYTES_MIN, 0));
            assert!(!sizing.is_due_at(1000));
            assert!(sizing.is_due_at(SEGMENT_BYTES_MIN / 2));
            assert!(!sizing.is_due_at(SEGMENT_BYTES_MIN / 2 + 1), "told once");
            assert_eq!(sizing.spares(), 1);
            sizing.took(SEGMENT_BYTES_MIN, turn * 2 * QUICK_NS);
        }
    }

    #[test]
    fn a_quiet_log_begins_small_again_and_wants_no_spare_for_one_record() {
        let mut sizing = Sizing::new(MOST, 0);
        (0..5).for_each(|_| sizing.took(sizing.next(), MS));
        sizing.quiet(12 << 20, MOST);
        assert_eq!((sizing.next(), sizing.spares()), (SEGMENT_BYTES_MIN, 0));
        assert!(!sizing.is_due_at((12 << 20) + 1000));
        assert!(sizing.is_due_at(13 << 20));
        assert!(!sizing.fits(MOST) && sizing.fits(SEGMENT_BYTES_MIN));
    }

    #[test]
    fn a_large_record_and_a_full_disk_change_the_size() {
        let mut sizing = Sizing::new(MOST, 0);
        sizing.asked_for(10 << 20);
        assert_eq!(sizing.next(), (10 << 20) / 4);
        sizing.asked_for(u32::MAX);
        assert_eq!(sizing.next(), MOST);
        let tries = (0..10).take_while(|_| sizing.shrink()).count();
        assert_eq!((tries, sizing.next()), (4, SEGMENT_BYTES_MIN));
        assert_eq!(Sizing::new(MOST, 0).next(), SEGMENT_BYTES_MIN);
    }
}
