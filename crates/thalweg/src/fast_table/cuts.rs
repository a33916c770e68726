//! Where the writer cuts a table into spaces, and how long its prefixes are.
//!
//! A cut pays where the bytes that neighbours share collapse: each side then has more common bytes than both together,
//! and its prefixes begin where its keys differ. The writer takes one limit for a table: it cuts at every pair of
//! neighbours that share less. A pair may lie within a group; that group becomes a space of its own.
//!
//! The writer tries several limits and takes the one that costs least. A space costs its first key, and a group costs
//! its prefix. Two neighbouring groups with the same prefix cost a search that compares whole keys in the entry layer.

use super::prefixes::PREFIX_BYTES;
use std::ops::Range;

/// A space has at least this many groups on average.
const GROUPS_A_SPACE: usize = 2;

/// The bytes of a space besides its first key: the numbers in the meta layer, and its place in memory.
const SPACE_BYTES: usize = 64;

/// The cost in bytes of two neighbouring groups with the same prefix: whole first keys lie in two or three cache lines.
const TIE_BYTES: usize = 128;

/// Pairs that share this much are never cut.
const SHARED_MAX: usize = 255;

/// Of 100 pairs of neighbouring groups, this many may have the same prefix.
const TIES_PERCENT_MAX: usize = 1;

/// How many bytes the keys in and before a group share with their neighbours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    /// The bytes that the first key shares with the last key of the previous group. 0 for the first group.
    pub(super) before: usize,
    /// The fewest bytes that a pair of neighbours within the group shares; `usize::MAX` if the group has one entry.
    pub(super) within: usize,
}

/// Returns the groups of each space. `key_bytes`: the mean length of first keys.
pub(super) fn spaces(links: &[Links], key_bytes: usize) -> Vec<Range<usize>> {
    let costs = limits(links).into_iter().map(|limit| {
        let spaces = cut(links, limit);
        (cost(links, &spaces, key_bytes), spaces)
    });
    costs.min_by_key(|(cost, _)| *cost).map_or_else(|| vec![0..links.len(); 1], |(_, spaces)| spaces)
}

/// Returns the limits to choose from. Each leaves about twice as many spaces as the previous one.
fn limits(links: &[Links]) -> Vec<usize> {
    let mut cuts_at = [0; SHARED_MAX];
    let mut count = |shared: usize, cuts: usize| {
        if let Some(count) = cuts_at.get_mut(shared) {
            *count += cuts;
        }
    };
    for (group, links) in links.iter().enumerate() {
        if group > 0 {
            count(links.before, 1);
        }
        // A group that is cut within is cut off on both sides.
        count(links.within, 2);
    }
    let cuts_max = (links.len() / GROUPS_A_SPACE).saturating_sub(1);
    // At limit 0 nothing is cut.
    let mut limits = vec![0];
    let (mut cuts, mut cuts_before) = (0, 0);
    let mut last = None;
    for (shared, more) in cuts_at.into_iter().enumerate() {
        // With these pairs there are too many cuts, or twice those of the previous limit: the next limit is below.
        if cuts + more > cuts_max || (more > 0 && cuts + more >= 2 * cuts_before.max(1)) {
            limits.extend(last.take());
            cuts_before = cuts;
        }
        cuts += more;
        if cuts > cuts_max {
            return limits;
        }
        if more > 0 {
            last = Some(shared + 1);
        }
    }
    limits.extend(last);
    limits
}

/// Returns the groups of each space if pairs that share less than `limit` are cut.
fn cut(links: &[Links], limit: usize) -> Vec<Range<usize>> {
    let is_cut = |pair: &[Links]| matches!(pair, [a, b] if a.within < limit || b.before < limit || b.within < limit);
    let starts = links.windows(2).enumerate().filter(|(_, pair)| is_cut(pair)).map(|(at, _)| at + 1);
    let mut spaces = Vec::new();
    let mut start = 0;
    for next in starts.chain([links.len()]) {
        spaces.push(start..next);
        start = next;
    }
    spaces
}

/// The bytes of these spaces and their prefixes.
fn cost(links: &[Links], spaces: &[Range<usize>], key_bytes: usize) -> usize {
    let of = |space: &Range<usize>| {
        let links = links.get(space.clone()).unwrap_or_default();
        (links, common_bytes(links, usize::MAX))
    };
    let (ties, pairs) = ties(spaces.iter().map(of));
    let prefix = shortest(&ties, pairs);
    let tied = ties.iter().zip(PREFIX_BYTES).find(|(_, bytes)| *bytes == prefix).map_or(0, |(tied, _)| *tied);
    spaces.len() * (key_bytes + SPACE_BYTES) + links.len() * prefix + tied * TIE_BYTES
}

/// Returns the length of the common beginning of all keys of a space. `first_key_bytes`: the length of its first key.
pub(super) fn common_bytes(space: &[Links], first_key_bytes: usize) -> usize {
    let before = space.iter().skip(1).map(|links| links.before);
    before.chain(space.iter().map(|links| links.within)).fold(first_key_bytes, usize::min)
}

/// Returns the shortest prefix by which nearly all neighbouring groups differ. `spaces`: the groups and the common
/// bytes of each space.
pub(super) fn prefix_bytes<'a>(spaces: impl Iterator<Item = (&'a [Links], usize)>) -> usize {
    let (ties, pairs) = ties(spaces);
    shortest(&ties, pairs)
}

/// Returns, for each prefix length, how many pairs of neighbouring groups have the same prefix; and the number of all
/// pairs.
fn ties<'a>(spaces: impl Iterator<Item = (&'a [Links], usize)>) -> ([usize; PREFIX_BYTES.len()], usize) {
    let (mut ties, mut pairs) = ([0; PREFIX_BYTES.len()], 0);
    for (links, common) in spaces {
        for pair in links.windows(2) {
            let [a, b] = pair else { continue };
            let differ_behind = a.within.min(b.before).saturating_sub(common);
            pairs += 1;
            for (tied, bytes) in ties.iter_mut().zip(PREFIX_BYTES) {
                *tied += usize::from(differ_behind >= bytes);
            }
        }
    }
    (ties, pairs)
}

/// Returns the shortest prefix that separates enough of the pairs, or else the longest.
fn shortest(ties: &[usize], pairs: usize) -> usize {
    let [.., longest] = PREFIX_BYTES;
    let enough = ties.iter().zip(PREFIX_BYTES).find(|(tied, _)| **tied * 100 <= pairs * TIES_PERCENT_MAX);
    enough.map_or(longest, |(_, bytes)| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(before: usize, within: usize) -> Links {
        Links { before, within }
    }

    #[test]
    fn a_table_is_cut_where_shared_bytes_collapse_between_and_within_groups() {
        let mut all = vec![links(40, 40); 200];
        all[0].before = 0;
        all[50].before = 3;
        all[120].within = 5;
        assert_eq!(spaces(&all, 60), [0..50, 50..120, 120..121, 121..200]);
        assert_eq!(common_bytes(&all[50..120], 60), 40);
        assert_eq!(common_bytes(&all[120..121], 60), 5);
        assert_eq!(common_bytes(&[links(0, usize::MAX)], 7), 7);
    }

    #[test]
    fn a_table_without_a_collapse_is_one_space() {
        assert_eq!(spaces(&vec![links(2, 2); 1000], 20), vec![0..1000; 1]);
        assert_eq!(spaces(&[links(0, 0)], 20), vec![0..1; 1]);
        let mut all: Vec<Links> = (0..1000).map(|at| links(4 + at % 3, 5)).collect();
        all[500].before = 0;
        assert_eq!(spaces(&all, 20), vec![0..1000; 1], "prefixes separate all groups without a cut");
    }

    #[test]
    fn runs_of_long_common_bytes_are_cut_into_a_space_each() {
        // Runs of 8 groups share 54 bytes; 40 runs share 10; pairs within a run share 57 to 60.
        let shared = |at: usize| {
            if at.is_multiple_of(320) {
                4
            } else if at.is_multiple_of(8) {
                10
            } else {
                57 + at % 4
            }
        };
        let all: Vec<Links> = (0..6400).map(|at| links(shared(at), 60)).collect();
        let spaces = spaces(&all, 120);
        assert_eq!(spaces.len(), 800);
        let of = |space: &Range<usize>| (&all[space.clone()], common_bytes(&all[space.clone()], 120));
        assert_eq!(prefix_bytes(spaces.iter().map(of)), 8);
    }

    #[test]
    fn a_space_has_two_groups_or_more_on_average() {
        for seed in 1..100 {
            let all: Vec<Links> = (0..1000).map(|at| links(at * seed % 97, at * seed % 89 * 3)).collect();
            assert!(spaces(&all, 100).len() <= 500);
        }
    }

    #[test]
    fn prefixes_are_as_long_as_ninety_nine_of_a_hundred_neighbours_need() {
        let of = |within: usize| [vec![links(10, 10); 495], vec![links(within, within); 5]].concat();
        let choose = |links: &[Links]| prefix_bytes([(links, 10)].into_iter());
        assert_eq!(choose(&of(17)), 8);
        assert_eq!(choose(&of(1000)), 8, "one in a hundred may tie");
        assert_eq!([17, 18, 25, 26, 34, 99].map(|shared| choose(&[links(shared, shared); 9])), [8, 16, 16, 24, 32, 32]);
    }
}
