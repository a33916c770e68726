//! The trailer of every block: its codec, and a checksum of content, codec, table id and offset.
//!
//! The checksum covers the table id and the offset. So it finds a block at a wrong offset or in a wrong file as surely
//! as a flipped bit.

use crate::error::{Error, Result};
use crate::format::checksum;
use crate::format::codec::Encode;
use crate::format::{Slice, TableId};
use crate::memory::Buffer;
use crate::planted::{Bug, planted};
use std::path::Path;

/// The bytes of a trailer: codec u8, checksum u32.
pub(in crate::table) const TRAILER_BYTES: usize = 5;

const CODEC_NONE: u8 = 0;
const CODEC_LZ4: u8 = 1;

/// An upper bound of the bytes of a data block: the size at which it is closed, and the largest entry.
const RAW_BYTES_MAX: u64 = 128 << 20;

/// LZ4 expands by at most this factor.
const LZ4_EXPANSION_MAX: u64 = 255;

/// The file, table and offset of a block.
#[derive(Clone, Copy, Debug)]
pub(in crate::table) struct BlockAddress<'a> {
    pub(in crate::table) path: &'a Path,
    pub(in crate::table) table: TableId,
    pub(in crate::table) offset: u64,
}

/// Seals the content in `out` from `start` on as the block at `offset` of `table`: appends its trailer. Returns the
/// stored bytes of the block, without the trailer.
pub(in crate::table) fn seal(out: &mut Vec<u8>, start: usize, table: TableId, offset: u64) -> u64 {
    put_trailer(out, start, CODEC_NONE, table, offset)
}

/// As [`seal`], compressed with LZ4 if that saves at least an eighth. `scratch` is working memory, kept for the next
/// block.
pub(in crate::table) fn seal_compressed(
    out: &mut Vec<u8>,
    start: usize,
    table: TableId,
    offset: u64,
    scratch: &mut Vec<u8>,
) -> u64 {
    let content = out.get(start..).unwrap_or_default();
    let worth = content.len() - content.len() / 8;
    let room = lz4_flex::block::get_maximum_output_size(content.len());
    if scratch.len() < room {
        scratch.resize(room, 0);
    }
    // Compression cannot fail, because there is room for the worst case. An uncompressed block would be right, too.
    let compressed = lz4_flex::block::compress_into(content, scratch).ok().and_then(|bytes| scratch.get(..bytes));
    let Some(compressed) = compressed.filter(|compressed| compressed.len() <= worth) else {
        return seal(out, start, table, offset);
    };
    out.truncate(start);
    out.extend_from_slice(compressed);
    put_trailer(out, start, CODEC_LZ4, table, offset)
}

/// Appends the trailer of the content in `out` from `start` on. Returns the bytes of that content.
fn put_trailer(out: &mut Vec<u8>, start: usize, codec: u8, table: TableId, offset: u64) -> u64 {
    let content = out.get(start..).unwrap_or_default();
    let bytes = content.len() as u64;
    let checksum = checksum(content, codec, table, offset);
    out.put_u8(codec);
    out.put_u32(checksum);
    bytes
}

fn checksum(content: &[u8], codec: u8, table: TableId, offset: u64) -> u32 {
    let mut end = [codec; 17];
    let [_, rest @ ..] = &mut end;
    let both = u128::from(table.0) | u128::from(offset) << 64;
    rest.copy_from_slice(&both.to_le_bytes());
    checksum::crc32c_append(checksum::crc32c(content), &end)
}

/// Returns the content of the block in `sealed` (stored bytes and trailer), which has `raw_bytes` when uncompressed.
/// The checksum is verified before anything else, unless `verify` is off, which only fuzzing does.
pub(in crate::table) fn unseal(
    sealed: &Slice,
    address: BlockAddress<'_>,
    raw_bytes: u64,
    verify: bool,
) -> Result<Slice> {
    let damaged = |expected: String, found: String| Error::corruption(address.path, address.offset, expected, found);
    let split = sealed.len().checked_sub(TRAILER_BYTES).and_then(|len| sealed.split_at_checked(len));
    let Some((stored, [codec, c0, c1, c2, c3])) = split else {
        return Err(damaged("a block with a trailer".into(), format!("{} bytes", sealed.len())));
    };
    let expected = u32::from_le_bytes([*c0, *c1, *c2, *c3]);
    let found = checksum(stored, *codec, address.table, address.offset);
    if expected != found && verify && !planted(Bug::ChecksumNotVerified) {
        return Err(damaged(format!("block checksum {expected:#010x}"), format!("{found:#010x}")));
    }
    let wrong_bytes = |found: u64| damaged(format!("a block of {raw_bytes} bytes"), format!("{found} bytes"));
    match *codec {
        CODEC_NONE if stored.len() as u64 == raw_bytes => Ok(sealed.slice(0..stored.len())),
        CODEC_NONE => Err(wrong_bytes(stored.len() as u64)),
        CODEC_LZ4 => {
            if raw_bytes > RAW_BYTES_MAX || raw_bytes / LZ4_EXPANSION_MAX > stored.len() as u64 {
                return Err(damaged("a possible uncompressed length".into(), format!("{raw_bytes} bytes")));
            }
            let content =
                Buffer::filled(raw_bytes as usize, |content| match lz4_flex::block::decompress_into(stored, content) {
                    Ok(bytes) if bytes as u64 == raw_bytes => Ok(()),
                    Ok(bytes) => Err(wrong_bytes(bytes as u64)),
                    Err(error) => Err(damaged("an LZ4 block".into(), error.to_string())),
                });
            content.map(Slice::from)
        }
        code => Err(damaged("codec 0 or 1".into(), format!("codec {code}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(table: u64, offset: u64) -> BlockAddress<'static> {
        BlockAddress { path: Path::new("t"), table: TableId(table), offset }
    }

    #[test]
    fn a_block_opens_only_at_its_own_place() {
        let content = vec![7u8; 1000];
        let compressed =
            |out: &mut Vec<u8>, start, table, offset| seal_compressed(out, start, table, offset, &mut Vec::new());
        for seal in [seal, compressed] {
            let mut out = b"what is before stays".to_vec();
            let start = out.len();
            out.extend_from_slice(&content);
            seal(&mut out, start, TableId(3), 4096);
            assert!(out.starts_with(b"what is before stays"));
            let sealed = Slice::from(out.split_off(start));
            assert_eq!(unseal(&sealed, address(3, 4096), 1000, true).unwrap(), content);
            assert!(unseal(&sealed, address(3, 8192), 1000, true).is_err());
            assert!(unseal(&sealed, address(4, 4096), 1000, true).is_err());
            assert!(unseal(&sealed, address(3, 4096), 999, true).is_err());
        }
    }

    #[test]
    fn a_block_that_does_not_shrink_by_an_eighth_is_stored_as_it_is() {
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(1000)
        .collect();
        let mut out = noise;
        assert_eq!(seal_compressed(&mut out, 0, TableId(1), 0, &mut Vec::new()), 1000);
        assert_eq!(out.get(1000), Some(&CODEC_NONE));
    }

    #[test]
    fn every_flipped_bit_of_a_block_is_caught() {
        let mut out = b"content".to_vec();
        seal(&mut out, 0, TableId(1), 5);
        for bit in 0..out.len() * 8 {
            let mut bytes = out.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(&Slice::from(bytes), address(1, 5), 7, true).is_err(), "bit {bit}");
        }
    }
}
