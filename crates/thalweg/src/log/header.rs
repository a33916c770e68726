//! [`SegmentHeader`]: the first bytes of a segment, and the segment's identity (`docs/format/log.md`, Segment header).
//! Pure.

use crate::format::EditId;
use crate::format::checksum;
use crate::format::codec::{Decoder, Encode};

/// The bytes of a block. No fragment crosses the end of one.
pub(super) const BLOCK_BYTES: u32 = 32 << 10;
/// The bytes of a segment header. The first fragment begins here.
pub(super) const HEADER_BYTES: u32 = 64;
/// The bytes of the smallest segment.
pub(super) const SEGMENT_BYTES_MIN: u32 = 2 * BLOCK_BYTES;
/// The bytes of the largest segment.
pub(super) const SEGMENT_BYTES_MAX: u32 = 1 << 30;
const MAGIC: &[u8; 8] = b"THALWLOG";
/// The newest version of the log that is read, and the one that is written.
pub(super) const VERSION: u32 = 1;
/// The bytes that the checksum of a header covers.
const HEADER_COVERED_BYTES: usize = 60;

/// The identity of a segment in seals, checksums and marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SegmentId {
    pub(super) index: u32,
    pub(super) generation: u64,
}

/// The first 64 bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) id: SegmentId,
    /// The size of the segment.
    pub(super) bytes: u32,
    /// The last settled edit when the segment was prepared.
    pub(super) settled: EditId,
}

impl SegmentHeader {
    /// Returns the bytes of the header.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        bytes.extend_from_slice(MAGIC);
        bytes.put_u32(VERSION);
        bytes.put_u32(self.id.index);
        bytes.put_u64(self.id.generation);
        bytes.put_u32(self.bytes);
        bytes.put_u32(0);
        bytes.put_u64(self.settled.0);
        bytes.resize(HEADER_COVERED_BYTES, 0);
        bytes.put_u32(checksum::crc32c(&bytes));
        bytes
    }

    /// Returns the version of the header at the start of `bytes`, if a newer program wrote it. Magic, version and
    /// checksum have the same places in every version (`docs/format/README.md`). The checksum must be right.
    pub(super) fn newer_version(bytes: &[u8]) -> Option<u32> {
        let mut decoder = Decoder::new(bytes.get(..HEADER_BYTES as usize)?);
        let is_log = decoder.take(MAGIC.len())? == MAGIC;
        let version = decoder.u32()?;
        decoder.take(HEADER_COVERED_BYTES - MAGIC.len() - 4)?;
        let is_intact = decoder.u32()? == checksum::crc32c(bytes.get(..HEADER_COVERED_BYTES)?);
        (is_log && is_intact && version > VERSION).then_some(version)
    }

    /// Decodes the header at the start of `bytes`, if there is one.
    pub(super) fn decode(bytes: &[u8]) -> Option<SegmentHeader> {
        let mut decoder = Decoder::new(bytes.get(..HEADER_BYTES as usize)?);
        let crc = checksum::crc32c(bytes.get(..HEADER_COVERED_BYTES)?);
        let known = decoder.take(MAGIC.len())? == MAGIC && decoder.u32()? == VERSION;
        let id = SegmentId { index: decoder.u32()?, generation: decoder.u64()? };
        let segment_bytes = decoder.u32()?;
        decoder.u32()?;
        let settled = EditId(decoder.u64()?);
        decoder.take(20)?;
        let size_is_right = (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
            && segment_bytes.is_multiple_of(BLOCK_BYTES);
        (known && size_is_right && decoder.u32()? == crc).then_some(SegmentHeader { id, bytes: segment_bytes, settled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SegmentId = SegmentId { index: 3, generation: 0x1234_5678_9abc_def0 };

    #[test]
    fn a_header_round_trips_and_any_flipped_bit_is_refused() {
        let header = SegmentHeader { id: ID, bytes: SEGMENT_BYTES_MIN, settled: EditId(9) };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Some(header));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&damaged), None, "bit {bit}");
        }
    }
}
