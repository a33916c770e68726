//! Fragments: record headers, seals and pieces of records as bytes, and where they go (`docs/format/log.md`). Pure.
//!
//! Invariant: offsets given to these functions are *aligned* (see [`align`]), so a seal fits at each of them.

use super::header::{BLOCK_BYTES, HEADER_BYTES, SegmentId};
use crate::format::checksum;
use crate::format::codec::Decoder;
use crate::format::{LogPosition, SeqNo};

/// The bytes of a fragment before its payload.
pub(super) const FRAGMENT_BYTES: u32 = 8;
/// The bytes of a record header.
pub(super) const RECORD_HEADER_BYTES: u32 = 28;
const SEAL_BYTES: u32 = 28;
const CLOSE_BYTES: u32 = 32;
/// No fragment begins where fewer bytes than this remain in the block. The segment keeps the same number of bytes free
/// for a seal.
pub(super) const ROOM_BYTES: u32 = FRAGMENT_BYTES + CLOSE_BYTES;
/// The bytes of a whole seal fragment.
pub(super) const SEAL_FRAGMENT_BYTES: u32 = FRAGMENT_BYTES + SEAL_BYTES;

/// The type of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Full = 1,
    First = 2,
    Middle = 3,
    Last = 4,
    Seal = 5,
    Close = 6,
}

impl Kind {
    fn from_code(code: u8) -> Option<Kind> {
        Some(match code {
            1 => Kind::Full,
            2 => Kind::First,
            3 => Kind::Middle,
            4 => Kind::Last,
            5 => Kind::Seal,
            6 => Kind::Close,
            _ => return None,
        })
    }
    /// Returns how many bytes of the payload the fragment's checksum covers.
    fn covered_bytes(self) -> usize {
        match self {
            Kind::Full | Kind::First => RECORD_HEADER_BYTES as usize,
            Kind::Middle | Kind::Last => 0,
            Kind::Seal => SEAL_BYTES as usize,
            Kind::Close => CLOSE_BYTES as usize,
        }
    }
}

/// The header of a record, which stands before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) first_seq: SeqNo,
    pub(super) operations: u32,
    /// The durable frontier when the record was reserved.
    pub(super) synced: LogPosition,
    pub(super) body_bytes: u32,
    pub(super) body_checksum: u32,
}

impl RecordHeader {
    fn encode(&self, head: &mut Head) {
        head.put(&self.first_seq.0.to_le_bytes());
        head.put(&self.operations.to_le_bytes());
        head.put(&self.synced.raw().to_le_bytes());
        head.put(&self.body_bytes.to_le_bytes());
        head.put(&self.body_checksum.to_le_bytes());
    }
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(payload);
        Some(RecordHeader {
            first_seq: SeqNo(decoder.u64()?),
            operations: decoder.u32()?,
            synced: LogPosition::from_raw(decoder.u64()?),
            body_bytes: decoder.u32()?,
            body_checksum: decoder.u32()?,
        })
    }
    /// Returns the sequence number of the last operation, if all are in range.
    pub(super) fn last_seq(&self) -> Option<SeqNo> {
        let last = self.first_seq.0.checked_add(u64::from(self.operations.checked_sub(1)?))?;
        (last <= SeqNo::MAX.0).then_some(SeqNo(last))
    }
}

/// The seal of a segment: it ends the segment, and the log continues in `successor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) successor: SegmentId,
    pub(super) next_seq: SeqNo,
    pub(super) synced: LogPosition,
}

impl Seal {
    /// Returns the whole fragment.
    pub(super) fn encode(&self, id: SegmentId, offset: u32) -> Head {
        let mut head = Head::begin(id, offset, Kind::Seal, SEAL_BYTES);
        head.put(&self.successor.index.to_le_bytes());
        head.put(&self.successor.generation.to_le_bytes());
        head.put(&self.next_seq.0.to_le_bytes());
        head.put(&self.synced.raw().to_le_bytes());
        head.finish()
    }
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(payload);
        Some(Seal {
            successor: SegmentId { index: decoder.u32()?, generation: decoder.u64()? },
            next_seq: SeqNo(decoder.u64()?),
            synced: LogPosition::from_raw(decoder.u64()?),
        })
    }
}

/// The clean-close seal: it ends the log of a database that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Close {
    pub(super) manifest_number: u64,
    pub(super) manifest_end: u64,
    pub(super) synced: LogPosition,
    pub(super) last_seq: SeqNo,
}

impl Close {
    /// Returns the whole fragment.
    pub(super) fn encode(&self, id: SegmentId, offset: u32) -> Head {
        let mut head = Head::begin(id, offset, Kind::Close, CLOSE_BYTES);
        head.put(&self.manifest_number.to_le_bytes());
        head.put(&self.manifest_end.to_le_bytes());
        head.put(&self.synced.raw().to_le_bytes());
        head.put(&self.last_seq.0.to_le_bytes());
        head.finish()
    }
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(payload);
        Some(Close {
            manifest_number: decoder.u64()?,
            manifest_end: decoder.u64()?,
            synced: LogPosition::from_raw(decoder.u64()?),
            last_seq: SeqNo(decoder.u64()?),
        })
    }
}

/// The start of a fragment, up to the last byte that its checksum covers. It is on the stack. Bytes of the record's
/// body follow it.
pub(super) struct Head {
    /// The place of the fragment, which the checksum also covers, and then the bytes after the checksum.
    /// [`Head::finish`] overwrites the last bytes of the place with the checksum.
    bytes: [u8; PLACE_BYTES + ROOM_BYTES as usize - CRC_BYTES],
    end: usize,
}

/// The bytes of a fragment's place: generation, index and offset.
const PLACE_BYTES: usize = 16;
const CRC_BYTES: usize = 4;

impl Head {
    fn begin(id: SegmentId, offset: u32, kind: Kind, length: u32) -> Head {
        let length = u16::try_from(length);
        assert!(length.is_ok(), "a fragment is shorter than a block");
        let mut head = Head { bytes: [0; _], end: 0 };
        head.put(&id.generation.to_le_bytes());
        head.put(&id.index.to_le_bytes());
        head.put(&offset.to_le_bytes());
        head.put(&length.unwrap_or_default().to_le_bytes());
        head.put(&[kind as u8, 0]);
        head
    }

    /// The head of a fragment of a record. The first fragment also has the record's header.
    pub(super) fn of_piece(id: SegmentId, offset: u32, piece: Piece, header: &RecordHeader) -> Head {
        let mut head = Head::begin(id, offset, piece.kind, piece.bytes() - FRAGMENT_BYTES);
        if matches!(piece.kind, Kind::Full | Kind::First) {
            header.encode(&mut head);
        }
        head.finish()
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        let room = self.bytes.get_mut(self.end..end);
        assert!(room.is_some(), "no head is longer than a close");
        if let Some(room) = room {
            room.copy_from_slice(bytes);
        }
        self.end = end;
    }

    fn finish(mut self) -> Head {
        let crc = checksum::crc32c(self.bytes.get(..self.end).unwrap_or_default());
        if let Some(room) = self.bytes.get_mut(PLACE_BYTES - CRC_BYTES..PLACE_BYTES) {
            room.copy_from_slice(&crc.to_le_bytes());
        }
        self
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(PLACE_BYTES - CRC_BYTES..self.end).unwrap_or_default()
    }
}

/// Returns the checksum of a fragment, which covers its place, too.
fn checksum(id: SegmentId, offset: u32, covered: &[u8]) -> u32 {
    let place = checksum::crc32c(&id.generation.to_le_bytes());
    let place = checksum::crc32c_append(place, &id.index.to_le_bytes());
    let place = checksum::crc32c_append(place, &offset.to_le_bytes());
    checksum::crc32c_append(place, covered)
}

/// A fragment whose checksum is right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    pub(super) kind: Kind,
    pub(super) payload: &'a [u8],
}

/// Decodes the fragment at the start of `bytes`, which end with the block. An error says what is wrong.
pub(super) fn decode_fragment(bytes: &[u8], id: SegmentId, offset: u32) -> Result<Fragment<'_>, String> {
    let mut decoder = Decoder::new(bytes);
    let (Some(crc), Some(length), Some(code), Some(flags)) = (decoder.u32(), decoder.u16(), decoder.u8(), decoder.u8())
    else {
        return Err("the end of the block".into());
    };
    if (crc, length, code, flags) == (0, 0, 0, 0) {
        return Err("zeros".into());
    }
    let Some(kind) = Kind::from_code(code).filter(|_| flags == 0) else {
        return Err(format!("type {code}, flags {flags}"));
    };
    let Some(payload) = decoder.take(usize::from(length)) else {
        return Err(format!("a length of {length} bytes, beyond the block"));
    };
    let covered_end = FRAGMENT_BYTES as usize + kind.covered_bytes();
    let exact = matches!(kind, Kind::Seal | Kind::Close);
    if payload.len() < kind.covered_bytes() || (exact && payload.len() != kind.covered_bytes()) {
        return Err(format!("a length of {length} bytes for type {code}"));
    }
    let computed = checksum(id, offset, bytes.get(4..covered_end).unwrap_or_default());
    if computed != crc {
        return Err(format!("fragment checksum {crc:#010x} where {computed:#010x} is right"));
    }
    Ok(Fragment { kind, payload })
}

/// Returns the end of the block that `offset` is in.
pub(super) fn block_end(offset: u32) -> u32 {
    (offset / BLOCK_BYTES + 1) * BLOCK_BYTES
}

/// Returns where the next fragment begins after one that ends at `offset`: at `offset`, or after the padding.
pub(super) fn align(offset: u32) -> u32 {
    let end = if offset.is_multiple_of(BLOCK_BYTES) { offset } else { block_end(offset) };
    if end - offset < ROOM_BYTES { end } else { offset }
}

/// Returns whether a fragment may begin at `offset` of a segment.
pub(super) fn is_aligned(offset: u32, segment_bytes: u32) -> bool {
    (HEADER_BYTES..=segment_bytes - ROOM_BYTES).contains(&offset) && align(offset) == offset
}

/// A fragment of a record that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    /// How many bytes of the body are in it.
    pub(super) body_bytes: u32,
}

impl Piece {
    /// Returns the fragment at the aligned `offset`, for a record that has `left` bytes of body to write and may have
    /// `begun` already. `None`: the segment is full, and a seal goes here.
    pub(super) fn at(offset: u32, left: u32, begun: bool, segment_bytes: u32) -> Option<Piece> {
        debug_assert!(is_aligned(offset, segment_bytes));
        let room = block_end(offset).min(segment_bytes - ROOM_BYTES) - offset;
        if room < ROOM_BYTES {
            return None;
        }
        let capacity = room - FRAGMENT_BYTES - if begun { 0 } else { RECORD_HEADER_BYTES };
        let kind = match (begun, left <= capacity) {
            (false, true) => Kind::Full,
            (false, false) => Kind::First,
            (true, false) => Kind::Middle,
            (true, true) => Kind::Last,
        };
        Some(Piece { kind, body_bytes: left.min(capacity) })
    }
    /// Returns the bytes of the whole fragment.
    pub(super) fn bytes(&self) -> u32 {
        let header = if matches!(self.kind, Kind::Full | Kind::First) { RECORD_HEADER_BYTES } else { 0 };
        FRAGMENT_BYTES + header + self.body_bytes
    }
    /// Returns whether the record ends with this fragment.
    pub(super) fn is_end(&self) -> bool {
        matches!(self.kind, Kind::Full | Kind::Last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::header::SEGMENT_BYTES_MIN;

    const ID: SegmentId = SegmentId { index: 3, generation: 0x1234_5678_9abc_def0 };

    #[test]
    fn a_fragment_is_bound_to_generation_index_and_offset() {
        let seal = Seal { successor: ID, next_seq: SeqNo(1), synced: LogPosition::new(1, 64) };
        let head = seal.encode(ID, 64);
        let bytes = head.as_slice();
        assert!(decode_fragment(bytes, ID, 64).is_ok());
        assert!(decode_fragment(bytes, ID, 65).is_err());
        assert!(decode_fragment(bytes, SegmentId { index: 4, ..ID }, 64).is_err());
        assert!(decode_fragment(bytes, SegmentId { generation: 1, ..ID }, 64).is_err());
    }

    #[test]
    fn a_seal_fits_wherever_records_stop() {
        for left in 1..3 * BLOCK_BYTES {
            let (mut offset, mut left, mut begun) = (HEADER_BYTES, left, false);
            while let Some(piece) = Piece::at(offset, left, begun, SEGMENT_BYTES_MIN) {
                let end = offset + piece.bytes();
                assert!(end <= block_end(offset) && end <= SEGMENT_BYTES_MIN - ROOM_BYTES);
                (offset, left, begun) = (align(end), left - piece.body_bytes, true);
                assert!(is_aligned(offset, SEGMENT_BYTES_MIN), "{offset}");
                if piece.is_end() {
                    break;
                }
            }
            assert!(block_end(offset) - offset >= ROOM_BYTES);
        }
    }
}
