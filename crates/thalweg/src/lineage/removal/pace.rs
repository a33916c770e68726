//! [`Pace`]: spreads the removal of files over time, evenly by bytes.

/// The shortest pause. A shorter one is left out; a later pause makes up for it.
const PAUSE_MIN_NS: u64 = 200_000;

/// When the next step may be taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::lineage) struct Pace {
    /// When all waiting files are to be gone.
    end_ns: u64,
    /// When the next step is due.
    next_ns: u64,
}

impl Pace {
    /// Notes that more files may be removed, within the interval.
    pub(in crate::lineage) fn came(&mut self, now_ns: u64, interval_ns: u64) {
        self.end_ns = now_ns.saturating_add(interval_ns);
    }

    /// Notes that `done` bytes are gone and `left` bytes wait.
    pub(in crate::lineage) fn went(&mut self, now_ns: u64, done: u64, left: u64) {
        self.next_ns = self.next_ns.max(now_ns);
        if left > 0 {
            // A late step leaves less time for the others.
            let time_ns = u128::from(self.end_ns.saturating_sub(self.next_ns));
            let share_ns = time_ns * u128::from(done) / (u128::from(done) + u128::from(left));
            self.next_ns = self.next_ns.saturating_add(u64::try_from(share_ns).unwrap_or(u64::MAX));
        }
    }

    /// Returns how long to wait before the next step.
    pub(in crate::lineage) fn pause_ns(&self, now_ns: u64) -> u64 {
        let pause_ns = self.next_ns.saturating_sub(now_ns);
        if pause_ns < PAUSE_MIN_NS { 0 } else { pause_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_spread_by_their_bytes_and_a_late_one_leaves_less_time_to_the_others() {
        let mut pace = Pace::default();
        pace.came(1_000_000_000, 1_000_000_000);
        assert_eq!(pace.pause_ns(1_000_000_000), 0, "the first is not put off");
        pace.went(1_000_000_000, 25, 75);
        assert_eq!(pace.pause_ns(1_000_000_000), 250_000_000);
        pace.went(1_600_000_000, 25, 50);
        assert_eq!(pace.pause_ns(1_600_000_000), 133_333_333);
        pace.came(1_700_000_000, 1_000_000_000);
        pace.went(1_800_000_000, 50, 0);
        assert_eq!(pace.pause_ns(1_800_000_000), 0, "nothing to be spread");
    }

    #[test]
    fn tiny_steps_are_taken_several_at_a_time_and_end_in_time_all_the_same() {
        let mut pace = Pace::default();
        pace.came(0, 10_000_000);
        let (mut now_ns, mut pauses) = (0, 0);
        for left in (0..1000).rev() {
            pace.went(now_ns, 1, left);
            let pause_ns = pace.pause_ns(now_ns);
            pauses += u64::from(pause_ns > 0);
            now_ns += pause_ns;
        }
        assert!(pauses <= 10_000_000 / PAUSE_MIN_NS && (9_000_000..=10_000_000).contains(&now_ns), "{pauses} {now_ns}");
    }
}
