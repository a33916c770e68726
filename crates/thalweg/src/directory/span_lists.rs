//! [`SpanLists`]: the spans of those directories of a stripe that have several. A directory has the number of the first
//! node of its list; each node has the number of the next.
//!
//! Invariants: a node is in one list, or free. `used` nodes are in lists. Locks: none; the caller holds that of the
//! stripe.

use super::mapped_vec::MappedVec;
use crate::table::PackSpan;
use std::num::NonZeroU32;

/// The blocks that one pack has of a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The slot of the pack in the packs of the index, plus one.
    pub(super) pack: NonZeroU32,
    pub(super) place: PackSpan,
}

/// The number of the first node of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct First(pub(super) u32);

#[derive(Clone, Copy)]
struct Node {
    span: Span,
    /// The number of the next node of its list, or of the next free one; [`END`] for none.
    next: u32,
}

const END: u32 = u32::MAX;

const _: () = assert!(size_of::<Node>() == 16, "16 bytes for each span of a directory with several");

/// Lists are rebuilt when fewer than one node in this many is used.
const SPARSE_PART: usize = 4;

/// Fewer nodes than this are not worth a rebuild.
const SPARSE_MIN: usize = 64;

/// The spans of directories that have several; see the module.
pub(super) struct SpanLists {
    nodes: MappedVec<Node>,
    free: u32,
    used: usize,
}

impl Default for SpanLists {
    fn default() -> Self {
        SpanLists { nodes: MappedVec::default(), free: END, used: 0 }
    }
}

impl SpanLists {
    /// A list of these spans; `None` for an empty one.
    pub(super) fn list(&mut self, spans: impl Iterator<Item = Span>) -> Option<First> {
        spans.fold(None, |first, span| Some(self.push(first, span)))
    }

    /// Adds a span to a list. Returns the new beginning of the list.
    pub(super) fn push(&mut self, first: Option<First>, span: Span) -> First {
        let node = Node { span, next: first.map_or(END, |first| first.0) };
        self.used += 1;
        match self.nodes.get_mut(self.free as usize) {
            Some(free) => {
                let number = std::mem::replace(&mut self.free, free.next);
                *free = node;
                First(number)
            }
            None => {
                let number = u32::try_from(self.nodes.len()).ok().filter(|number| *number < END);
                self.nodes.push(node);
                First(number.unwrap_or_else(|| unreachable!("a stripe has fewer spans than numbers")))
            }
        }
    }

    /// The spans of a list.
    pub(super) fn spans(&self, first: First) -> impl Iterator<Item = Span> {
        let mut next = first.0;
        std::iter::from_fn(move || {
            let node = self.nodes.get(next as usize)?;
            next = node.next;
            Some(node.span)
        })
    }

    /// Drops a list.
    pub(super) fn drop_list(&mut self, first: First) {
        let mut next = first.0;
        while let Some(node) = self.nodes.get_mut(next as usize) {
            let number = std::mem::replace(&mut next, std::mem::replace(&mut node.next, self.free));
            self.free = number;
            self.used -= 1;
        }
    }

    /// Whether most of the memory is of free nodes.
    pub(super) fn is_sparse(&self) -> bool {
        self.nodes.len() >= SPARSE_MIN && self.used * SPARSE_PART < self.nodes.len()
    }

    /// The bytes of memory that the lists take.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(number: u32) -> Span {
        Span { pack: NonZeroU32::new(number + 1).unwrap(), place: PackSpan::single(number) }
    }

    #[test]
    fn lists_have_what_was_put_into_them() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut lists = SpanLists::default();
        let mut model: Vec<(Option<First>, Vec<u32>)> = vec![(None, Vec::new()); 50];
        for number in 0..20_000 {
            let (first, expected) = &mut model[random.usize(..50)];
            if random.u8(..) < 240 {
                *first = Some(lists.push(*first, span(number)));
                expected.push(number);
            } else {
                first.take().into_iter().for_each(|first| lists.drop_list(first));
                expected.clear();
            }
        }
        let used: usize = model.iter().map(|(_, expected)| expected.len()).sum();
        assert_eq!(lists.used, used);
        for (first, expected) in &model {
            let found = first.iter().flat_map(|first| lists.spans(*first)).map(|span| span.pack.get() - 1);
            assert!(found.eq(expected.iter().rev().copied()));
        }
        assert!(lists.nodes.len() < 4 * used, "free nodes are used again: {} for {used}", lists.nodes.len());
    }

    #[test]
    fn lists_are_sparse_when_most_nodes_are_free() {
        let mut lists = SpanLists::default();
        let firsts: Vec<First> = (0..100).map(|number| lists.push(None, span(number))).collect();
        firsts[..75].iter().for_each(|first| lists.drop_list(*first));
        assert!(!lists.is_sparse());
        lists.drop_list(firsts[75]);
        assert!(lists.is_sparse());
    }
}
