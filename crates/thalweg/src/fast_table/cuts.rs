//! Where the writer cuts a table into spaces, and how long its prefixes are.
//!
//! A cut pays where the bytes that neighbours share collapse: each side then has more common bytes than both together,
//! and its prefixes begin where its keys differ. The writer takes one limit for a table: it cuts at every pair of
//! neighbours that share less. The limit is the greatest that leaves as many spaces as are allowed. A pair may lie
//! within a group; that group becomes a space of its own.

use super::header::SPACES_MAX;
use super::prefixes::PREFIX_BYTES;
use std::ops::Range;

/// Spaces are cut only while each has this many groups on average: a space costs a whole key.
const GROUPS_A_SPACE: usize = 16;

/// Pairs that share this much are never cut.
const SHARED_MAX: usize = 255;

/// Of 100 pairs of neighbouring groups, this many may have the same prefix.
const TIES_PERCENT_MAX: usize = 1;

/// How many bytes the keys in and before a group share with their neighbours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    /// The first key with the last of the group before. 0 for the first group.
    pub(super) before: usize,
    /// The fewest of the pairs within the group; `usize::MAX` if it has one entry.
    pub(super) within: usize,
}

/// Returns the groups of each space.
pub(super) fn spaces(links: &[Links]) -> Vec<Range<usize>> {
    let cuts_max = (links.len() / GROUPS_A_SPACE).min(SPACES_MAX - 1);
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
        // It is cut off on both sides.
        count(links.within, 2);
    }
    let mut cuts = 0;
    let limit = cuts_at.iter().take_while(|more| {
        cuts += **more;
        cuts <= cuts_max
    });
    let limit = limit.count();
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

/// Returns how many bytes all keys of a space begin with. `first_key_bytes`: the length of its first key.
pub(super) fn common_bytes(space: &[Links], first_key_bytes: usize) -> usize {
    let before = space.iter().skip(1).map(|links| links.before);
    before.chain(space.iter().map(|links| links.within)).fold(first_key_bytes, usize::min)
}

/// Returns the shortest prefix by which nearly all neighbouring groups differ. `spaces`: the groups and the common
/// bytes of each space.
pub(super) fn prefix_bytes<'a>(spaces: impl Iterator<Item = (&'a [Links], usize)>) -> usize {
    // For each length the pairs that it does not separate.
    let (mut ties, mut pairs) = ([0_usize; PREFIX_BYTES.len()], 0_usize);
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
        assert_eq!(spaces(&all), [0..50, 50..120, 120..121, 121..200]);
        assert_eq!(common_bytes(&all[50..120], 60), 40);
        assert_eq!(common_bytes(&all[120..121], 60), 5);
        assert_eq!(common_bytes(&[links(0, usize::MAX)], 7), 7);
    }

    #[test]
    fn a_table_without_a_collapse_is_one_space() {
        assert_eq!(spaces(&vec![links(2, 2); 1000]), vec![0..1000; 1]);
        assert_eq!(spaces(&[links(0, 0)]), vec![0..1; 1]);
        let mut small = vec![links(40, 40); 15];
        small[10].before = 0;
        assert_eq!(spaces(&small), vec![0..15; 1], "a small table pays for no space");
    }

    #[test]
    fn there_are_never_more_spaces_than_allowed() {
        let all: Vec<Links> = (0..100_000).map(|at| links(at % 97 % 13, at % 89 % 17 + 3)).collect();
        assert!(spaces(&all).len() <= SPACES_MAX);
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
