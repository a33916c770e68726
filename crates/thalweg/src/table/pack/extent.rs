//! Extents: values too long for a data block.
//!
//! An extent is the bytes of the value, then for each 64 KiB of them a checksum (CRC-32C of the piece, the number of
//! the pack and the offset of the piece), then zeros up to a multiple of 8 bytes.

use super::{ALIGNMENT, Place};
use crate::error::{Error, Result};
use crate::format::codec::Encode;
use crate::planted::{Bug, planted};

/// The bytes under one checksum.
const PIECE_BYTES: usize = 64 << 10;

/// The bytes of the extent of a value with `value_bytes` bytes.
pub(in crate::table) fn extent_bytes(value_bytes: usize) -> usize {
    (value_bytes + value_bytes.div_ceil(PIECE_BYTES) * 4).next_multiple_of(ALIGNMENT)
}

/// Appends the extent of a value, which will lie at `place`, to `out`.
pub(in crate::table) fn write_extent(value: &[u8], place: Place<'_>, out: &mut Vec<u8>) {
    let end = out.len() + extent_bytes(value.len());
    out.extend_from_slice(value);
    for (offset, piece) in (place.offset..).step_by(PIECE_BYTES).zip(value.chunks(PIECE_BYTES)) {
        out.put_u32(Place { offset, ..place }.checksum_of(piece));
    }
    out.resize(end, 0);
}

/// Verifies the extent at `place`, which is all of `bytes`, and returns its value.
pub(in crate::table) fn verify_extent<'a>(bytes: &'a [u8], value_bytes: usize, place: Place<'_>) -> Result<&'a [u8]> {
    let Some((value, checksums)) = bytes.split_at_checked(value_bytes) else {
        let expected = format!("an extent of {value_bytes} bytes");
        return Err(Error::corruption(place.path, place.offset, expected, format!("{} bytes", bytes.len())));
    };
    let (stored, _) = checksums.as_chunks::<4>();
    for ((offset, piece), stored) in (place.offset..).step_by(PIECE_BYTES).zip(value.chunks(PIECE_BYTES)).zip(stored) {
        let (stored, found) = (u32::from_le_bytes(*stored), Place { offset, ..place }.checksum_of(piece));
        if stored != found && !planted(Bug::ChecksumNotVerified) {
            let expected = format!("extent checksum {stored:#010x}");
            return Err(Error::corruption(place.path, offset, expected, format!("{found:#010x}")));
        }
    }
    Ok(value)
}
