//! [`Retention`]: which versions of a user key a flush or a compaction keeps.
//!
//! `snapshots` are the sequence numbers at which readers may be pinned, ascending, the visible one last. They cut
//! sequence numbers into *stripes*: stripe `j` holds the versions above `snapshots[j - 1]` and at or below
//! `snapshots[j]`. Versions above the last snapshot are not visible yet, and any later snapshot may fall between two of
//! them. So:
//!
//! - above the last snapshot every version stays;
//! - of each other stripe the newest version stays: that snapshot sees it, and so do later ones until the next version;
//! - at the bottom, a tombstone that is the newest of stripe 0 goes, too: there is nothing older for it to hide,
//!   neither here (it would be in stripe 0) nor anywhere else (see [`super::plan`]).
//!
//! A later snapshot is at or above the last one, so the versions that it sees are kept as well.
//!
//! At the bottom, the version that stays of stripe 0 is the oldest of its key, and every reader may see it. If shorter
//! numbers save space, it is written with the number 0: it stays older than any other version, and visible to all. At
//! most one version of a key gets the number, since at most one version of stripe 0 stays.

use crate::format::{EntryKind, SeqNo};
use crate::planted::{Bug, planted};

/// Decides entry by entry; entries come in internal-key order, the newest version of a key first.
#[derive(Debug)]
pub(super) struct Retention<'a> {
    snapshots: &'a [SeqNo],
    bottom: bool,
    /// The stripe of the previous version; `usize::MAX` before the first one.
    stripe: usize,
    /// Whether oldest versions that all readers may see get the number 0.
    zeroes_numbers: bool,
}

impl<'a> Retention<'a> {
    pub(super) fn new(snapshots: &'a [SeqNo], bottom: bool) -> Self {
        assert!(!snapshots.is_empty(), "the visible sequence number is always among the snapshots");
        assert!(snapshots.is_sorted(), "snapshots ascend");
        let ignored = if planted(Bug::SnapshotIgnoredByCompaction) { snapshots.len() - 1 } else { 0 };
        let snapshots = snapshots.get(ignored..).unwrap_or_default();
        Retention { snapshots, bottom, stripe: usize::MAX, zeroes_numbers: false }
    }

    /// Returns the same retention, with a [`Retention::number`] of 0 if that does no harm. `bottom`: whether no older
    /// versions of the keys are anywhere else.
    pub(super) fn with_zero_numbers(self, bottom: bool) -> Self {
        Retention { zeroes_numbers: bottom || planted(Bug::PackNumberDroppedEarly), ..self }
    }

    /// Returns the sequence number to write for an entry with the number `seq`, after [`Retention::keep`] has kept the
    /// entry.
    #[inline]
    pub(super) fn number(&self, seq: SeqNo) -> SeqNo {
        let is_seen_by_all = self.stripe == 0 || planted(Bug::PackNumberDroppedUnderSnapshot);
        if self.zeroes_numbers && is_seen_by_all { SeqNo(0) } else { seq }
    }

    /// Whether the next entry stays. `key_changed`: it is the first of its user key.
    #[inline]
    pub(super) fn keep(&mut self, key_changed: bool, seq: SeqNo, kind: EntryKind) -> bool {
        // Usually no reader is pinned.
        let stripe = match self.snapshots {
            [visible] => usize::from(*visible < seq),
            snapshots => snapshots.partition_point(|snapshot| *snapshot < seq),
        };
        let newest_of_stripe = key_changed || stripe != self.stripe;
        self.stripe = stripe;
        if stripe == self.snapshots.len() {
            return true;
        }
        let hides_nothing = self.bottom && stripe == 0 && kind == EntryKind::Remove;
        newest_of_stripe && !hides_nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Versions = Vec<(u64, EntryKind)>;

    fn retained(versions: &Versions, snapshots: &[u64], bottom: bool) -> Versions {
        let snapshots: Vec<SeqNo> = snapshots.iter().copied().map(SeqNo).collect();
        let mut retention = Retention::new(&snapshots, bottom);
        let mut first = true;
        let mut kept = versions.clone();
        kept.retain(|(seq, kind)| retention.keep(std::mem::take(&mut first), SeqNo(*seq), *kind));
        kept
    }

    /// The sequence number of the put that a reader at `snapshot` sees.
    fn seen(versions: &Versions, snapshot: u64) -> Option<u64> {
        let newest = versions.iter().find(|(seq, _)| *seq <= snapshot)?;
        (newest.1 == EntryKind::Put).then_some(newest.0)
    }

    /// Every set of versions with sequence numbers 1 to `SEQ_MAX`, newest first.
    fn all_versions() -> Vec<Versions> {
        (0..3usize.pow(SEQ_MAX as u32))
            .map(|code| {
                let kind = |seq: u64| match code / 3usize.pow(seq as u32 - 1) % 3 {
                    0 => None,
                    1 => Some((seq, EntryKind::Put)),
                    _ => Some((seq, EntryKind::Remove)),
                };
                (1..=SEQ_MAX).rev().filter_map(kind).collect()
            })
            .collect()
    }

    /// Every non-empty ascending set of snapshots from 0 to `SEQ_MAX`.
    fn all_snapshots() -> Vec<Vec<u64>> {
        (1..1u32 << (SEQ_MAX + 1)).map(|set| (0..=SEQ_MAX).filter(|seq| set >> seq & 1 == 1).collect()).collect()
    }

    const SEQ_MAX: u64 = 6;

    /// The least that must stay, worked out from what each reader sees alone.
    fn needed(versions: &Versions, snapshots: &[u64], bottom: bool) -> Versions {
        let last = *snapshots.last().unwrap();
        let wanted = |seq: u64| {
            seq > last
                || snapshots.iter().any(|snapshot| versions.iter().map(|v| v.0).find(|s| s <= snapshot) == Some(seq))
        };
        let mut needed: Versions = versions.iter().copied().filter(|(seq, _)| wanted(*seq)).collect();
        if bottom && needed.last().is_some_and(|(seq, kind)| *seq <= snapshots[0] && *kind == EntryKind::Remove) {
            needed.pop();
        }
        needed
    }

    #[test]
    fn every_reader_sees_the_same_before_and_after() {
        for versions in all_versions() {
            for snapshots in all_snapshots() {
                for bottom in [false, true] {
                    let kept = retained(&versions, &snapshots, bottom);
                    let last = *snapshots.last().unwrap();
                    for reader in snapshots.iter().copied().chain(last..=SEQ_MAX) {
                        assert_eq!(
                            seen(&kept, reader),
                            seen(&versions, reader),
                            "reader {reader} of {versions:?} with snapshots {snapshots:?}, bottom {bottom}: {kept:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn above_the_bottom_no_reader_falls_through_to_a_deeper_version() {
        for versions in all_versions() {
            for snapshots in all_snapshots() {
                let deeper = (0, EntryKind::Put);
                let mut before = versions.clone();
                before.push(deeper);
                let mut after = retained(&versions, &snapshots, false);
                after.push(deeper);
                let last = *snapshots.last().unwrap();
                for reader in snapshots.iter().copied().chain(last..=SEQ_MAX) {
                    assert_eq!(seen(&after, reader), seen(&before, reader), "{versions:?} {snapshots:?}");
                }
            }
        }
    }

    #[test]
    fn nothing_is_kept_that_nobody_needs() {
        for versions in all_versions() {
            for snapshots in all_snapshots() {
                for bottom in [false, true] {
                    assert_eq!(
                        retained(&versions, &snapshots, bottom),
                        needed(&versions, &snapshots, bottom),
                        "{versions:?} with snapshots {snapshots:?}, bottom {bottom}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_reader_sees_the_same_with_numbers_that_became_0() {
        for versions in all_versions() {
            for snapshots in all_snapshots() {
                let given: Vec<SeqNo> = snapshots.iter().copied().map(SeqNo).collect();
                let mut retention = Retention::new(&given, true).with_zero_numbers(true);
                let (mut kept, mut first, mut numbers) = (Versions::new(), true, Vec::new());
                for (seq, kind) in &versions {
                    if retention.keep(std::mem::take(&mut first), SeqNo(*seq), *kind) {
                        kept.push((retention.number(SeqNo(*seq)).0, *kind));
                        numbers.push(*seq);
                    }
                }
                assert!(kept.windows(2).all(|two| two[0].0 > two[1].0), "{kept:?}");
                let last = *snapshots.last().unwrap();
                for reader in snapshots.iter().copied().chain(last..=SEQ_MAX) {
                    // The version that is seen, by the number that it had.
                    let newest =
                        kept.iter().position(|(seq, _)| *seq <= reader).filter(|at| kept[*at].1 == EntryKind::Put);
                    let context = format!("reader {reader} of {versions:?} with {snapshots:?}: {kept:?}");
                    assert_eq!(newest.map(|at| numbers[at]), seen(&versions, reader), "{context}");
                }
                let is_zero = |seq: u64| kept.iter().zip(&numbers).any(|((now, _), was)| *was == seq && *now == 0);
                assert!(
                    numbers.iter().all(|seq| is_zero(*seq) == (*seq <= snapshots[0])),
                    "{versions:?} {snapshots:?}"
                );
            }
        }
    }

    #[test]
    fn above_the_bottom_numbers_stay() {
        let snapshots = [SeqNo(10)];
        for mut retention in
            [Retention::new(&snapshots, true), Retention::new(&snapshots, false).with_zero_numbers(false)]
        {
            assert!(retention.keep(true, SeqNo(4), EntryKind::Put));
            assert_eq!(retention.number(SeqNo(4)), SeqNo(4));
        }
    }

    #[test]
    fn each_key_is_decided_afresh() {
        let snapshots = [SeqNo(10)];
        let mut retention = Retention::new(&snapshots, false);
        assert!(retention.keep(true, SeqNo(4), EntryKind::Put));
        assert!(!retention.keep(false, SeqNo(3), EntryKind::Put));
        assert!(retention.keep(true, SeqNo(2), EntryKind::Put));
    }
}
