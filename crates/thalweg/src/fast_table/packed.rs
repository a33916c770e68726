//! The compressed groups of the layouts that compress:
//!
//! ```text
//! varint   bytes of the content
//! varint   bytes as stored; as many as the content has: it is not compressed
//! bytes    the content, in LZ4's block format
//! ```
//!
//! Zeros may follow.

use super::buffer::room;
use crate::format::codec::{Decoder, Encode};

/// LZ4 expands by at most this factor.
const EXPANSION_MAX: usize = 255;

/// Appends a group with this content. `scratch` is working memory.
pub(super) fn pack(out: &mut Vec<u8>, content: &[u8], scratch: &mut Vec<u8>) {
    let room = lz4_flex::block::get_maximum_output_size(content.len());
    if scratch.len() < room {
        scratch.resize(room, 0);
    }
    // Compression cannot fail, because there is room for the worst case. An uncompressed group would be right, too.
    let packed = lz4_flex::block::compress_into(content, scratch).ok().and_then(|bytes| scratch.get(..bytes));
    let stored = packed.filter(|packed| packed.len() < content.len()).unwrap_or(content);
    out.put_varint(content.len() as u64);
    out.put_bytes(stored);
}

/// Returns the content of a group, in `unpacked`. Bytes behind the content have no meaning. Returns `None` if the group
/// is damaged.
pub(super) fn unpack<'a>(group: &'a [u8], unpacked: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let mut decoder = Decoder::new(group);
    let bytes = decoder.varint_usize()?;
    let stored = decoder.bytes()?;
    if bytes / EXPANSION_MAX > stored.len() {
        return None;
    }
    let room = room(unpacked, bytes);
    if stored.len() == bytes {
        room.copy_from_slice(stored);
        return Some(room);
    }
    match lz4_flex::block::decompress_into(stored, room) {
        Ok(found) if found == bytes => Some(room),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_come_back_whether_they_shrink_or_not() {
        let mut scratch = Vec::new();
        for content in [&b""[..], b"short", &b"river ".repeat(100), &(0..=255).collect::<Vec<u8>>()] {
            let mut out = Vec::new();
            pack(&mut out, content, &mut scratch);
            out.extend_from_slice(&[0; 7]);
            assert_eq!(unpack(&out, &mut Vec::new()), Some(content));
            for len in 0..out.len() - 7 {
                assert_eq!(unpack(&out[..len], &mut Vec::new()), None);
            }
        }
    }
}
