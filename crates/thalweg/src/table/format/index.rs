//! [`Index`]: the place and the last key of each data block; in memory while the table is open.
//!
//! A search compares the first bytes of keys ([`PrefixTree`]), and whole keys only where those are equal.

use super::block::TRAILER_BYTES;
use super::damage::Damage;
use super::prefix_tree::PrefixTree;
use crate::format::codec::{Decoder, Encode};
use crate::format::{EntryKind, SeqNo, Slice, key};
use std::cmp::Ordering;

/// The offset of a data block, and its lengths, stored and uncompressed, without the trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) struct BlockHandle {
    pub(in crate::table) offset: u64,
    pub(in crate::table) bytes: u64,
    pub(in crate::table) raw_bytes: u64,
}

impl BlockHandle {
    /// Returns the offset at which the trailer ends; `None` past 64 bits.
    pub(in crate::table) fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.bytes)?.checked_add(TRAILER_BYTES as u64)
    }

    /// Returns the bytes of the block and its trailer.
    pub(in crate::table) fn sealed_bytes(&self) -> Option<usize> {
        usize::try_from(self.end()?.checked_sub(self.offset)?).ok()
    }
}

/// Lays out the index block.
#[derive(Default)]
pub(in crate::table) struct IndexBuilder {
    buffer: Vec<u8>,
}

impl IndexBuilder {
    /// Appends the next data block, given its last entry.
    pub(in crate::table) fn add(&mut self, user_key: &[u8], seq: SeqNo, kind: EntryKind, handle: BlockHandle) {
        self.buffer.put_bytes(user_key);
        self.buffer.put_u64(key::pack_trailer(seq, kind));
        self.buffer.put_varint(handle.offset);
        self.buffer.put_varint(handle.bytes);
        self.buffer.put_varint(handle.raw_bytes);
    }

    pub(in crate::table) fn content(&self) -> &[u8] {
        &self.buffer
    }
}

/// The index of an open table. Invariant: it has at least one block, keys ascend, and blocks have no gaps from offset
/// 0.
#[derive(Debug)]
pub(in crate::table) struct Index {
    content: Slice,
    /// The offset in `content` of the entry of each block. Opening the index decodes all entries once, and each use
    /// decodes its entry again, because decoded entries would take six times the memory.
    starts: Box<[usize]>,
    tree: PrefixTree,
}

/// The entry of a block.
struct IndexEntry<'a> {
    user_key: &'a [u8],
    seq: SeqNo,
    handle: BlockHandle,
}

impl Index {
    /// Decodes an index, whose blocks must fill `[0, data_end)`.
    pub(in crate::table) fn decode(content: Slice, data_end: u64) -> Result<Index, Damage> {
        let mut starts = Vec::new();
        let mut decoder = Decoder::new(&content);
        let mut end = 0;
        let mut last: Option<(&[u8], SeqNo)> = None;
        while !decoder.is_empty() {
            let at = decoder.offset();
            let entry =
                decode_entry(&mut decoder).ok_or_else(|| Damage::new(at, "an index entry", "malformed bytes"))?;
            let next = entry.handle.end().filter(|next| entry.handle.offset == end && *next <= data_end);
            end = next.ok_or_else(|| {
                Damage::new(at, format!("a block from {end}, before {data_end}"), format!("{:?}", entry.handle))
            })?;
            let new = (entry.user_key, entry.seq);
            if last.is_some_and(|last| key::compare(last, new) != Ordering::Less) {
                return Err(Damage::new(at, "a key after the one before", "one that is not"));
            }
            last = Some(new);
            starts.push(at);
        }
        if starts.is_empty() || end != data_end {
            return Err(Damage::new(0, format!("blocks that end at {data_end}"), format!("an end at {end}")));
        }
        let keys = starts.iter().map(|start| entry_at(&content, *start).map_or(&[][..], |entry| entry.user_key));
        let tree = PrefixTree::new(keys);
        Ok(Index { content, starts: starts.into_boxed_slice(), tree })
    }

    /// The bytes of memory that it takes.
    pub(in crate::table) fn memory_bytes(&self) -> usize {
        self.content.len() + size_of_val(&*self.starts) + self.tree.memory_bytes()
    }

    /// The number of data blocks; at least 1.
    pub(in crate::table) fn blocks(&self) -> usize {
        self.starts.len()
    }

    fn entry(&self, block: usize) -> Option<IndexEntry<'_>> {
        entry_at(&self.content, *self.starts.get(block)?)
    }

    #[inline]
    pub(in crate::table) fn handle(&self, block: usize) -> Option<BlockHandle> {
        Some(self.entry(block)?.handle)
    }

    /// Returns the key of the last entry of a block.
    pub(in crate::table) fn last_key(&self, block: usize) -> Option<(&[u8], SeqNo)> {
        let entry = self.entry(block)?;
        Some((entry.user_key, entry.seq))
    }

    /// Returns the first block whose last entry is at or after `(user_key, seq)`. This block has the first such entry.
    /// Returns [`Index::blocks`] if there is none.
    pub(in crate::table) fn find(&self, user_key: &[u8], seq: SeqNo) -> usize {
        let around = self.tree.around(user_key);
        let starts = self.starts.get(around.clone()).unwrap_or_default();
        let is_before = |start: &usize| {
            entry_at(&self.content, *start)
                .is_some_and(|entry| key::compare((entry.user_key, entry.seq), (user_key, seq)) == Ordering::Less)
        };
        around.start + starts.partition_point(is_before)
    }
}

#[inline]
fn entry_at(content: &[u8], start: usize) -> Option<IndexEntry<'_>> {
    decode_entry(&mut Decoder::new(content.get(start..)?))
}

fn decode_entry<'a>(decoder: &mut Decoder<'a>) -> Option<IndexEntry<'a>> {
    let user_key = decoder.bytes()?;
    let (seq, _) = key::unpack_trailer(decoder.u64()?)?;
    let handle = BlockHandle { offset: decoder.varint()?, bytes: decoder.varint()?, raw_bytes: decoder.varint()? };
    Some(IndexEntry { user_key, seq, handle })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(offset: u64, bytes: u64) -> BlockHandle {
        BlockHandle { offset, bytes, raw_bytes: 100 }
    }

    fn decode(entries: &[(&[u8], u64, BlockHandle)], data_end: u64) -> Result<Index, Damage> {
        let mut builder = IndexBuilder::default();
        for (key, seq, handle) in entries {
            builder.add(key, SeqNo(*seq), EntryKind::Put, *handle);
        }
        Index::decode(Slice::from(builder.content()), data_end)
    }

    #[test]
    fn a_key_is_found_in_the_first_block_that_ends_at_or_after_it() {
        let entries = [(&b"b"[..], 5, handle(0, 10)), (b"b", 2, handle(15, 10)), (b"d", 9, handle(30, 10))];
        let index = decode(&entries, 45).unwrap();
        let cases =
            [(&b"a"[..], 1, 0), (b"b", 6, 0), (b"b", 5, 0), (b"b", 4, 1), (b"b", 1, 2), (b"d", 9, 2), (b"d", 8, 3)];
        for (key, seq, block) in cases {
            assert_eq!(index.find(key, SeqNo(seq)), block, "{key:?} {seq}");
        }
    }

    #[test]
    fn blocks_with_a_gap_an_overlap_or_beyond_the_end_are_refused() {
        assert!(decode(&[(b"a", 1, handle(0, 10)), (b"b", 1, handle(15, 10))], 30).is_ok());
        for entries in [
            [(&b"a"[..], 1, handle(1, 9)), (&b"b"[..], 1, handle(15, 10))],
            [(b"a", 1, handle(0, 10)), (b"b", 1, handle(14, 11))],
            [(b"a", 1, handle(0, 10)), (b"b", 1, handle(16, 9))],
            [(b"a", 1, handle(0, 10)), (b"b", 1, handle(15, 9))],
            [(b"a", 1, handle(0, 10)), (b"b", 1, handle(15, 11))],
            [(b"a", 1, handle(0, 10)), (b"b", 1, handle(15, u64::MAX))],
        ] {
            assert!(decode(&entries, 30).is_err(), "{entries:?}");
        }
        assert!(decode(&[], 0).is_err());
    }

    #[test]
    fn keys_out_of_order_are_refused() {
        for (first, second) in [((&b"b"[..], 1), (&b"a"[..], 1)), ((b"a", 1), (b"a", 1)), ((b"a", 1), (b"a", 2))] {
            let entries = [(first.0, first.1, handle(0, 10)), (second.0, second.1, handle(15, 10))];
            assert!(decode(&entries, 30).is_err(), "{first:?} {second:?}");
        }
    }
}
