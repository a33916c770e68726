//! Cuts a job into subtasks: ranges of its keys that have about as many bytes each (PMB-16; the paper leaves the rule
//! open).
//!
//! Invariant: the ranges are disjoint, ascending and together all keys; each but the first begins with a key that the
//! inputs have. They are ranges of user keys, so every version of a key is in one range, and the versions of a key that
//! a merge keeps (see [`super::retention`]) depend on nothing outside of it. The cuts come from the tables' indexes.
//! They decide nothing else, so any key would do.

use super::runs::Input;
use super::shape::hull;
use crate::error::Result;
use crate::table::KeyRange;
use std::sync::Arc;

/// How many sample keys of a table are taken for each subtask: a cut is off by less than a part of this many.
const SAMPLES_A_PART: usize = 32;

/// Cuts the keys of `inputs` into at most `parts` ranges, at least one. Opens the tables if `parts` is more than one.
pub(super) fn split<'i, I: Input + 'i>(
    inputs: impl Iterator<Item = &'i I> + Clone,
    parts: usize,
) -> Result<Vec<Arc<KeyRange>>> {
    let mut samples = Vec::new();
    if parts > 1 {
        for input in inputs.clone() {
            samples.extend(input.samples(parts * SAMPLES_A_PART)?);
        }
    }
    samples.sort();
    let total: u64 = samples.iter().map(|(_, bytes)| bytes).sum();
    let first = hull(inputs.map(Input::meta)).map_or(&[][..], |(first, _)| first);
    let (mut ranges, mut from, mut before) = (Vec::new(), None, 0);
    for (key, bytes) in &samples {
        before += bytes;
        let part = ranges.len() as u64 + 1;
        let is_due = part < parts as u64 && u128::from(before) * parts as u128 >= u128::from(total) * u128::from(part);
        if is_due && **key > *from.as_deref().unwrap_or(first) {
            let to = Some(key.clone());
            ranges.push(Arc::new(KeyRange { from: from.take(), to: to.clone() }));
            from = to;
        }
    }
    ranges.push(Arc::new(KeyRange { from, to: None }));
    Ok(ranges)
}

/// The parts of `ranges` that lie in `within`.
pub(crate) fn clip(ranges: Vec<Arc<KeyRange>>, within: &KeyRange) -> Vec<Arc<KeyRange>> {
    let clipped = |range: Arc<KeyRange>| {
        let from = range.from.as_ref().max(within.from.as_ref()).cloned();
        let to = match (&range.to, &within.to) {
            (Some(a), Some(b)) => Some(a.min(b).clone()),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let is_empty = from.as_ref().zip(to.as_ref()).is_some_and(|(from, to)| from >= to);
        (!is_empty).then(|| Arc::new(KeyRange { from, to }))
    };
    ranges.into_iter().filter_map(clipped).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::fakes::{FakeEntry, FakeTable};
    use super::*;

    fn table(id: u64, keys: impl Iterator<Item = u64>) -> FakeTable {
        FakeTable::new(id, keys.map(|key| FakeEntry::put(&format!("{key:04}"), id, "0123456789")).collect())
    }

    #[test]
    fn parts_have_about_equal_bytes_wherever_the_keys_lie() {
        // Three quarters of all entries are in the first tenth of the keys.
        let tables = [table(1, 0..300), table(2, (0..300).map(|key| 3 + key)), table(3, (0..200).map(|key| key * 15))];
        for parts in 2..6 {
            let ranges = split(tables.iter(), parts).unwrap();
            assert_eq!(ranges.len(), parts);
            for pair in ranges.windows(2) {
                assert!(pair[0].to == pair[1].from && pair[0].from < pair[0].to);
            }
            assert!(ranges[0].from.is_none() && ranges[parts - 1].to.is_none());
            for range in ranges {
                let inside = |e: &&FakeEntry| !range.is_after(&e.key) && !range.is_before(&e.key);
                let entries = tables.iter().flat_map(|table| table.entries.iter()).filter(inside).count();
                assert!(entries.abs_diff(800 / parts) <= 800 / parts / 10, "{entries} of 800 in one of {parts}");
            }
        }
    }

    #[test]
    fn there_are_no_more_parts_than_keys_to_cut_at() {
        let versions = |key: &str| (1..20u64).rev().map(|seq| FakeEntry::put(key, seq, "")).collect::<Vec<_>>();
        let one = [FakeTable::new(1, versions("k"))];
        assert_eq!(split(one.iter(), 4).unwrap(), [Arc::default()]);
        let two = [FakeTable::new(1, [versions("a"), versions("b")].concat())];
        assert_eq!(split(two.iter(), 4).unwrap().len(), 2);
        assert_eq!(split(two.iter(), 1).unwrap(), [Arc::default()]);
    }

    #[test]
    fn a_clip_keeps_what_lies_within_and_drops_what_is_left_empty() {
        let range = |from: &str, to: &str| {
            let end = |key: &str| (!key.is_empty()).then(|| Box::from(key.as_bytes()));
            KeyRange { from: end(from), to: end(to) }
        };
        let clipped = |within: &KeyRange| -> Vec<KeyRange> {
            let ranges = [range("", "f"), range("f", "m"), range("m", "")].map(Arc::new).into();
            clip(ranges, within).iter().map(|range| KeyRange::clone(range)).collect()
        };
        assert_eq!(clipped(&range("", "")), [range("", "f"), range("f", "m"), range("m", "")]);
        assert_eq!(clipped(&range("c", "k")), [range("c", "f"), range("f", "k")]);
        assert_eq!(clipped(&range("f", "m")), [range("f", "m")]);
        assert_eq!(clipped(&range("p", "")), [range("p", "")]);
        assert_eq!(clipped(&range("", "a")), [range("", "a")]);
    }
}
