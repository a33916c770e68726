//! [`Part`]: where the bytes of a record go in one segment. Pure.

use super::framing::{Head, Piece, ROOM_BYTES, RecordHeader, SEAL_FRAGMENT_BYTES, Seal, align};
use super::header::{HEADER_BYTES, SegmentId};
use super::segment::Segment;
use super::supply::Supply;
use crate::format::{LogMark, LogPosition, SeqNo};
use std::sync::Arc;

/// The bytes between a fragment and the end of its block, where no other fragment fits.
const PADDING: [u8; ROOM_BYTES as usize] = [0; _];

/// The part of a record in one segment: fragments, then padding or a seal.
pub(super) struct Part {
    pub(super) segment: Arc<Segment>,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) body_from: u32,
    pub(super) body_to: u32,
    /// The segment that the seal names, if a seal ends the part.
    pub(super) successor: Option<SegmentId>,
}

/// Lays a record out from `offset` of `segment` on, over as many spares as it needs. Returns the mark of its first
/// fragment, without the sequence number. An error is the number of spares that it needs, if there are too few.
pub(super) fn plan(
    segment: &Arc<Segment>,
    offset: u32,
    body_bytes: u32,
    supply: &mut Supply,
    parts: &mut Vec<Part>,
) -> Result<LogMark, usize> {
    parts.clear();
    let (mut segment, mut from, mut done, mut begun) = (segment, offset, 0, false);
    let mut mark = LogMark::default();
    for next in supply.spares.iter().map(Some).chain([None]) {
        let first_done = done;
        let (to, is_whole) = place(&mut done, &mut begun, from, body_bytes, segment.bytes);
        if begun && mark.position == LogPosition::default() {
            let position = LogPosition::new(segment.id.index, from);
            mark = LogMark { position, generation: segment.id.generation, seq: SeqNo(0) };
        }
        let successor = if is_whole { None } else { next };
        parts.push(Part {
            segment: Arc::clone(segment),
            from,
            to: if is_whole { to } else { to + SEAL_FRAGMENT_BYTES },
            body_from: first_done,
            body_to: done,
            successor: successor.map(|next| next.id),
        });
        match successor {
            _ if is_whole => return Ok(mark),
            Some(next) => (segment, from) = (next, HEADER_BYTES),
            None => break,
        }
    }
    supply.sizing.record_waits(body_bytes - done);
    let mut needed = supply.spares.len();
    loop {
        needed += 1;
        if place(&mut done, &mut begun, HEADER_BYTES, body_bytes, supply.sizing.next()).1 {
            return Err(needed);
        }
    }
}

/// Places the fragments that fit a segment from `offset` on. Returns where they end, and whether the record ends, too.
pub(super) fn place(
    done: &mut u32,
    begun: &mut bool,
    mut offset: u32,
    body_bytes: u32,
    segment_bytes: u32,
) -> (u32, bool) {
    while let Some(piece) = Piece::at(offset, body_bytes - *done, *begun, segment_bytes) {
        offset = align(offset + piece.bytes());
        *done += piece.body_bytes;
        *begun = true;
        if piece.is_end() {
            return (offset, true);
        }
    }
    (offset, false)
}

impl Part {
    /// Passes the bytes of this part to `put`, piece after piece, without gaps.
    #[inline]
    pub(super) fn lay_out(&self, header: &RecordHeader, body: &[u8], mut put: impl FnMut(&[u8])) {
        let id = self.segment.id;
        let (mut offset, mut done) = (self.from, self.body_from);
        // A part without a byte of the record is only a seal.
        let mut begun = done > 0;
        while done < self.body_to {
            let Some(piece) = Piece::at(offset, header.body_bytes - done, begun, self.segment.bytes) else {
                break;
            };
            let end = done + piece.body_bytes;
            put(Head::of_piece(id, offset, piece, header).as_slice());
            put(body.get(done as usize..end as usize).unwrap_or(&[]));
            let written = offset + piece.bytes();
            let next = align(written);
            if next > written {
                // A recycled segment holds other bytes here.
                put(PADDING.get(..(next - written) as usize).unwrap_or(&PADDING));
            }
            (offset, done, begun) = (next, end, true);
        }
        if let Some(successor) = self.successor {
            let seal = Seal { successor, next_seq: header.first_seq, synced: header.synced };
            put(seal.encode(id, offset).as_slice());
            offset += SEAL_FRAGMENT_BYTES;
        }
        assert_eq!(offset, self.to, "a part fills what was reserved for it");
        assert_eq!(done, self.body_to, "a part holds its share of the body");
    }
}
