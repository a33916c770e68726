//! [`Known`]: the entry of a directory in the index, in 10 bytes: its only span, or the beginning of the list of its
//! spans.
//!
//! The number of a pack has 16 bits there. A span of a pack with a higher number is in a list, even if it is the only
//! one.

use super::span_lists::{First, Span, SpanLists};
use crate::table::PackSpan;
use std::num::{NonZeroU16, NonZeroU32};

/// Stands in the place of a pack if the spans are in a list.
const SEVERAL: NonZeroU16 = NonZeroU16::MAX;

/// The entry of a directory in the index; see the module.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// The slot of the pack, plus one; or [`SEVERAL`].
    pack: NonZeroU16,
    /// For a span, the two numbers of its place. For a list, the number of its first node, and 0. These are bytes,
    /// because numbers would have an alignment.
    rest: [[u8; 4]; 2],
}

const _: () = assert!(size_of::<Option<Known>>() == 10, "18 bytes a directory");

impl Known {
    /// The entry of a directory with only this span; `None` if the number of the pack is too high.
    fn of_span(span: Span) -> Option<Known> {
        let pack = NonZeroU16::try_from(span.pack).ok().filter(|pack| *pack != SEVERAL)?;
        Some(Known { pack, rest: span.place.numbers().map(u32::to_le_bytes) })
    }

    /// The entry of a directory whose spans are in a list.
    pub(super) fn of_list(first: First) -> Known {
        Known { pack: SEVERAL, rest: [first.0, 0].map(u32::to_le_bytes) }
    }

    /// The list of the spans, if there is one.
    pub(super) fn several(self) -> Option<First> {
        let [first, _] = self.rest.map(u32::from_le_bytes);
        (self.pack == SEVERAL).then_some(First(first))
    }

    /// The span, if there is no list.
    fn one(self) -> Option<Span> {
        let place = PackSpan::of_numbers(self.rest.map(u32::from_le_bytes));
        (self.pack != SEVERAL).then_some(Span { pack: NonZeroU32::from(self.pack), place })
    }

    /// The spans.
    pub(super) fn spans(self, lists: &SpanLists) -> impl Iterator<Item = Span> {
        self.one().into_iter().chain(self.several().map(|first| lists.spans(first)).into_iter().flatten())
    }

    /// The entry of a directory with one span more.
    pub(super) fn with(before: Option<Known>, span: Span, lists: &mut SpanLists) -> Known {
        let Some(before) = before else {
            return Known::of_span(span).unwrap_or_else(|| Known::of_list(lists.push(None, span)));
        };
        let first = match before.several() {
            Some(first) => Some(first),
            None => before.one().map(|other| lists.push(None, other)),
        };
        Known::of_list(lists.push(first, span))
    }

    /// The entry of a directory with these spans; `None` if there are none.
    pub(super) fn of(spans: &[Span], lists: &mut SpanLists) -> Option<Known> {
        let one = if let [span] = spans { Known::of_span(*span) } else { None };
        one.or_else(|| lists.list(spans.iter().copied()).map(Known::of_list))
    }
}

/// The spans of what is known of a directory.
pub(super) fn spans_in(known: Option<Known>, lists: &SpanLists) -> impl Iterator<Item = Span> {
    known.into_iter().flat_map(|known| known.spans(lists))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(pack: u32) -> Span {
        Span { pack: NonZeroU32::new(pack).unwrap(), place: PackSpan::single(pack ^ 0x8000_0001) }
    }

    fn packs(known: Option<Known>, lists: &SpanLists) -> Vec<u32> {
        let mut packs: Vec<u32> = spans_in(known, lists).map(|span| span.pack.get()).collect();
        assert!(spans_in(known, lists).all(|one| one.place == span(one.pack.get()).place));
        packs.sort_unstable();
        packs
    }

    #[test]
    fn packs_of_any_number_are_known_alone_and_with_others() {
        let mut lists = SpanLists::default();
        let numbers = [1, 2, 0xfffe, 0xffff, 0x1_0000, 0x1_0001, u32::MAX];
        for number in numbers {
            let one = Known::with(None, span(number), &mut lists);
            assert_eq!(packs(Some(one), &lists), [number]);
            assert_eq!(one.several().is_none(), number < 0xffff);
            let two = Known::with(Some(one), span(7), &mut lists);
            assert!(two.several().is_some());
            let mut both = [number, 7];
            both.sort_unstable();
            assert_eq!(packs(Some(two), &lists), both);
            assert_eq!(packs(Known::of(&[span(number)], &mut lists), &lists), [number]);
            assert_eq!(packs(Known::of(&[span(number), span(7)], &mut lists), &lists), both);
        }
        assert!(Known::of(&[], &mut lists).is_none());
    }
}
