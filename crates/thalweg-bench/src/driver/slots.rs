//! Slots of 10 ms, and the stalls found in them.
//!
//! Each foreground thread counts its completed operations in each slot. A slot in which no thread completed an
//! operation is empty, and five empty slots in a row are a stall. Only whole empty slots count, so a stall is up to 20
//! ms longer than reported.

use crate::report::{StallPeriod, Stalls};

/// Nanoseconds of a slot.
pub(super) const SLOT_NS: u64 = 10_000_000;
/// Slots of an interval of the series.
pub(super) const INTERVAL_SLOTS: u64 = 10;

/// Slots of a second.
const SECOND_SLOTS: usize = 100;

const SLOT_MS: u64 = 10;
const STALL_SLOTS: u64 = 5;

/// The sum of all threads' slots.
pub(super) fn merge<'a>(threads: impl Iterator<Item = &'a [u32]>) -> Vec<u64> {
    let mut sum: Vec<u64> = Vec::new();
    for slots in threads {
        if sum.len() < slots.len() {
            sum.resize(slots.len(), 0);
        }
        for (sum, slot) in sum.iter_mut().zip(slots) {
            *sum += u64::from(*slot);
        }
    }
    sum
}

/// The stalls in these slots, which reach from the start to the end.
pub(super) fn stalls(slots: &[u64]) -> Stalls {
    let mut stalls = Stalls::default();
    let mut close = |empty: u64| {
        stalls.longest_ms = stalls.longest_ms.max(empty * SLOT_MS);
        if empty >= STALL_SLOTS {
            stalls.count += 1;
            stalls.total_ms += empty * SLOT_MS;
        }
    };
    let mut empty = 0;
    for &slot in slots {
        if slot == 0 {
            empty += 1;
        } else {
            close(empty);
            empty = 0;
        }
    }
    close(empty);
    // An incomplete last second does not count.
    let seconds = slots.chunks_exact(SECOND_SLOTS);
    stalls.zero_seconds = seconds.filter(|second| second.iter().all(|&slot| slot == 0)).count() as u64;
    stalls
}

/// The greatest number of stalls that are listed individually; of more, the longest are.
const PERIODS_MAX: usize = 200;

/// Lists the stalls, in order of time.
pub(super) fn periods(slots: &[u64]) -> Vec<StallPeriod> {
    let mut periods = Vec::new();
    let mut at: u64 = 0;
    for stretch in slots.chunk_by(|a, b| (*a == 0) == (*b == 0)) {
        let length = stretch.len() as u64;
        if stretch.first() == Some(&0) && length >= STALL_SLOTS {
            periods.push(StallPeriod { from_ms: at * SLOT_MS, ms: length * SLOT_MS });
        }
        at += length;
    }
    periods.sort_by_key(|period| std::cmp::Reverse(period.ms));
    periods.truncate(PERIODS_MAX);
    periods.sort_by_key(|period| period.from_ms);
    periods
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_empty_slots_are_a_stall_and_four_are_none() {
        let slots = [3, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 7, 0, 1];
        assert_eq!(stalls(&slots), Stalls { count: 1, total_ms: 50, longest_ms: 50, zero_seconds: 0 });
        assert_eq!(stalls(&slots[..6]), Stalls { count: 0, total_ms: 0, longest_ms: 40, zero_seconds: 0 });
    }

    #[test]
    fn gaps_at_the_start_and_at_the_end_count() {
        let slots = [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0];
        assert_eq!(periods(&slots), [(0, 60), (70, 50)].map(|(from_ms, ms)| StallPeriod { from_ms, ms }));
        assert_eq!(stalls(&slots), Stalls { count: 2, total_ms: 110, longest_ms: 60, zero_seconds: 0 });
    }

    #[test]
    fn only_whole_seconds_without_a_completion_are_zero_seconds() {
        let mut slots = vec![1; 100];
        slots.extend(vec![0; 250]);
        slots.extend(vec![1; 51]);
        slots.extend(vec![0; 99]);
        // Seconds 1 and 2 are empty, the half of 3 and the 99 slots of 4 are not whole ones.
        assert_eq!(stalls(&slots), Stalls { count: 2, total_ms: 3490, longest_ms: 2500, zero_seconds: 2 });
    }

    #[test]
    fn a_slot_is_empty_only_if_every_thread_left_it_so() {
        let threads: [&[u32]; 3] = [&[1, 0, 0], &[0, 0, 2, 0, 5], &[]];
        assert_eq!(merge(threads.into_iter()), [1, 0, 2, 0, 5]);
    }

    #[test]
    fn nothing_has_no_stalls() {
        assert_eq!(stalls(&[]), Stalls::default());
    }
}
