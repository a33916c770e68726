//! The contents of a pack: which directories it has, and where their blocks are.
//!
//! The region begins with the key of the hashes (16 bytes) and the number of directories (varint). Each directory then
//! has, as varints:
//! - its number less that of the previous directory (for the first directory: its number)
//! - the number of its blocks
//! - for each block, in units of 8 bytes: how far it begins behind the end of the previous block, and its length
//!   without extents
//!
//! In a directory with several blocks, each block but the first also has its *fence*: the highest 32 bits of the hash
//! of its first entry (4 bytes).
//!
//! In memory an open pack keeps only the blocks of directories that have several. The index of the keyspace has the
//! place of a directory with one block. It also has the place of a directory with two blocks if the second begins with
//! the page after that of the first, as in most packs of small directories.

use super::block::BLOCK_BYTES_MAX;
use super::items::PackItems;
use super::{ALIGNMENT, PAGE_BYTES};
use crate::format::codec::{Decoder, Encode};
use crate::format::{HashKey, TableId};
use crate::sync::Mutex;
use crate::table::format::damage::Damage;
use std::collections::BTreeMap;

/// A block of a directory that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) struct Fence {
    /// The offset of the block in units of 8 bytes.
    pub(in crate::table) at: u32,
    /// The highest bits of the hash of its first entry; 0 for the first block.
    pub(in crate::table) hash: u32,
}

/// Where the blocks of one directory are in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackSpan {
    /// One block, or a pair: the offset of the first in units of 8 bytes. Several: the number of the first in the
    /// fences.
    at: u32,
    /// One block: [`SINGLE`] and its bytes in units of 8. A pair: [`PAIR`], the bytes of the second block in units of
    /// 8, and the highest [`PAIR_FENCE_BITS`] of its fence. Several: how many.
    size: u32,
}

const SINGLE: u32 = 1 << 31;

/// Two blocks, the second at the beginning of the page after that of the first.
const PAIR: u32 = 1 << 30;

/// The bits of the second fence that a pair has.
const PAIR_FENCE_BITS: u32 = 20;

const PAIR_FENCE_MASK: u32 = u32::MAX << (u32::BITS - PAIR_FENCE_BITS);

/// Units of 8 bytes in a page.
const PAGE_UNITS: u32 = (PAGE_BYTES / ALIGNMENT) as u32;

const _: () = assert!((BLOCK_BYTES_MAX / ALIGNMENT) << PAIR_FENCE_BITS < PAIR as usize, "the parts of a pair fit");

/// The blocks of a [`PackSpan`].
#[derive(Clone, Copy, Debug)]
pub(in crate::table) enum Blocks<'a> {
    /// One block or two, and where the last one ends.
    Here([Fence; 2], usize, u64),
    /// In the fences of the pack; no block reaches beyond this offset.
    Listed(&'a [Fence], u64),
}

/// A block to be read.
#[derive(Clone, Copy, Debug)]
pub(in crate::table) struct BlockAt {
    pub(in crate::table) offset: u64,
    /// The most bytes that the block has.
    pub(in crate::table) bytes_max: usize,
    /// The highest bits of its first hash, for a pair cut to [`PAIR_FENCE_BITS`]; 0 for the first block.
    pub(in crate::table) fence: u32,
}

impl Blocks<'_> {
    fn fences(&self) -> &[Fence] {
        match self {
            Blocks::Here(fences, count, _) => fences.get(..*count).unwrap_or(fences),
            Blocks::Listed(fences, _) => fences,
        }
    }

    /// The number of blocks.
    pub(in crate::table) fn len(&self) -> usize {
        self.fences().len()
    }

    /// The number of the first block that may have entries with a hash of this fence.
    pub(in crate::table) fn first_for(&self, fence: u32) -> usize {
        let fence = if matches!(self, Blocks::Here(..)) { fence & PAIR_FENCE_MASK } else { fence };
        // Entries with one hash may begin in the block before the one that begins with this hash.
        self.fences().partition_point(|block| block.hash < fence).saturating_sub(1)
    }

    /// A block by its number.
    pub(in crate::table) fn block(&self, number: usize) -> Option<BlockAt> {
        let offset_of = |fence: &Fence| u64::from(fence.at) * ALIGNMENT as u64;
        let (fences, end) = (
            self.fences(),
            match self {
                Blocks::Here(_, _, end) | Blocks::Listed(_, end) => *end,
            },
        );
        let fence = fences.get(number)?;
        let (offset, next) = (offset_of(fence), fences.get(number + 1).map_or(end, offset_of));
        let bytes_max = next.saturating_sub(offset).min(BLOCK_BYTES_MAX as u64) as usize;
        Some(BlockAt { offset, bytes_max, fence: fence.hash })
    }
}

impl PackSpan {
    /// A span of one block.
    #[cfg(test)]
    pub(crate) fn single(at: u32) -> PackSpan {
        PackSpan { at, size: SINGLE | 1 }
    }

    /// Returns the two numbers of the span, for an index that stores them in less space.
    pub(crate) fn numbers(self) -> [u32; 2] {
        [self.at, self.size]
    }

    /// Returns the span that has these numbers.
    pub(crate) fn of_numbers([at, size]: [u32; 2]) -> PackSpan {
        PackSpan { at, size }
    }

    /// Returns the span of `blocks` if they are one block or a pair.
    fn of(blocks: &[ContentsBlock]) -> Option<PackSpan> {
        match *blocks {
            [ContentsBlock { fence: Fence { at, .. }, units }] => Some(PackSpan { at, size: SINGLE | units }),
            [first, second] if second.fence.at == page_after(first.fence.at) => {
                let fence = second.fence.hash >> (u32::BITS - PAIR_FENCE_BITS);
                Some(PackSpan { at: first.fence.at, size: PAIR | second.units << PAIR_FENCE_BITS | fence })
            }
            _ => None,
        }
    }

    /// Its blocks, in a pack with these fences whose blocks end at `data_end`.
    pub(in crate::table) fn blocks(self, fences: &[Fence], data_end: u64) -> Blocks<'_> {
        let PackSpan { at, size } = self;
        let end_of = |at: u32, units: u32| (u64::from(at) + u64::from(units)) * ALIGNMENT as u64;
        let first = Fence { at, hash: 0 };
        if size & SINGLE != 0 {
            return Blocks::Here([first; 2], 1, end_of(at, size & !SINGLE));
        }
        if size & PAIR == 0 {
            let listed = fences.get(at as usize..).and_then(|fences| fences.get(..size as usize));
            return Blocks::Listed(listed.unwrap_or_default(), data_end);
        }
        let second = Fence { at: page_after(at), hash: size << (u32::BITS - PAIR_FENCE_BITS) };
        Blocks::Here([first, second], 2, end_of(second.at, (size & !PAIR) >> PAIR_FENCE_BITS))
    }
}

/// Returns where the page after the page of `at` begins, in units of 8 bytes.
fn page_after(at: u32) -> u32 {
    (at / PAGE_UNITS + 1).saturating_mul(PAGE_UNITS)
}

/// The blocks of directories that have several, in the order of the pack.
pub(in crate::table) type Fences = Box<[Fence]>;

/// The contents of packs that were just written, kept until the index takes them, so that it need not read them back.
#[derive(Debug, Default)]
pub(in crate::table) struct FreshContents {
    by_pack: Mutex<BTreeMap<TableId, Fresh>>,
    /// The items of these packs, if an index has each item.
    items: Mutex<BTreeMap<TableId, PackItems>>,
}

/// A region of contents, and where the blocks of the pack end.
pub(in crate::table) type Fresh = (Vec<u8>, u64);

impl FreshContents {
    pub(in crate::table) fn put(&self, pack: TableId, fresh: Fresh) {
        self.by_pack.lock().insert(pack, fresh);
    }

    pub(in crate::table) fn take(&self, pack: TableId) -> Option<Fresh> {
        self.by_pack.lock().remove(&pack)
    }

    pub(in crate::table) fn put_items(&self, pack: TableId, items: PackItems) {
        self.items.lock().insert(pack, items);
    }

    pub(in crate::table) fn take_items(&self, pack: TableId) -> Option<PackItems> {
        self.items.lock().remove(&pack)
    }
}

/// Encodes the contents while blocks are written.
#[derive(Debug, Default)]
pub(in crate::table) struct ContentsBuilder {
    directories: Vec<u8>,
    count: u64,
    last: u64,
    /// The blocks of the open directory: offset, bytes, fence.
    blocks: Vec<(u64, usize, u32)>,
    /// Where the last block of the directory before ended.
    end: u64,
}

impl ContentsBuilder {
    /// Adds a block of the open directory.
    pub(in crate::table) fn add_block(&mut self, offset: u64, bytes: usize, fence: u32) {
        self.blocks.push((offset, bytes, fence));
    }

    /// Ends the open directory. Directories ascend.
    pub(in crate::table) fn end_directory(&mut self, directory: u64) {
        assert!(!self.blocks.is_empty() && (self.count == 0 || self.last < directory), "directories ascend");
        self.directories.put_varint(directory - self.last);
        self.directories.put_varint(self.blocks.len() as u64);
        for (number, (offset, bytes, fence)) in self.blocks.drain(..).enumerate() {
            self.directories.put_varint((offset - self.end) / ALIGNMENT as u64);
            self.directories.put_varint((bytes / ALIGNMENT) as u64);
            if number > 0 {
                self.directories.put_u32(fence);
            }
            self.end = offset + bytes as u64;
        }
        self.last = directory;
        self.count += 1;
    }

    /// Whether no directory has ended.
    pub(in crate::table) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes so far.
    pub(in crate::table) fn bytes(&self) -> usize {
        self.directories.len()
    }

    /// Appends the region.
    pub(in crate::table) fn encode(&self, key: &HashKey, out: &mut Vec<u8>) {
        out.extend_from_slice(&key.0);
        out.put_varint(self.count);
        out.extend_from_slice(&self.directories);
    }
}

/// The decoded contents without the places of directories.
pub(in crate::table) struct Decoded {
    pub(in crate::table) hash_key: HashKey,
    pub(in crate::table) fences: Fences,
    /// The number of all blocks.
    pub(in crate::table) blocks: u64,
}

/// Decodes the contents of a pack whose blocks end at `data_end`, and gives each directory to `visit`.
pub(in crate::table) fn decode(
    content: &[u8],
    data_end: u64,
    visit: &mut dyn FnMut(u64, PackSpan),
) -> Result<Decoded, Damage> {
    let mut walk = Walk::new(content, data_end)?;
    let (mut fences, mut blocks, mut numbers) = (Vec::new(), Vec::new(), 0);
    while let Some(directory) = walk.next(content, &mut blocks)? {
        numbers += blocks.len() as u64;
        let span = PackSpan::of(&blocks).unwrap_or_else(|| {
            let span = PackSpan { at: fences.len() as u32, size: blocks.len() as u32 };
            fences.extend(blocks.iter().map(|block| block.fence));
            span
        });
        visit(directory, span);
    }
    Ok(Decoded { hash_key: walk.hash_key, fences: fences.into_boxed_slice(), blocks: numbers })
}

/// A block, as the contents describe it.
#[derive(Clone, Copy, Debug)]
pub(in crate::table) struct ContentsBlock {
    pub(in crate::table) fence: Fence,
    /// Its bytes in units of 8, without extents.
    units: u32,
}

impl ContentsBlock {
    /// Its offset and its bytes, without extents.
    pub(in crate::table) fn place(&self) -> (u64, usize) {
        (u64::from(self.fence.at) * ALIGNMENT as u64, self.units as usize * ALIGNMENT)
    }
}

/// A walk over the directories in contents. It keeps only its place, so that a merge of many packs takes little memory.
#[derive(Debug)]
pub(in crate::table) struct Walk {
    hash_key: HashKey,
    /// Directories that are left.
    left: u64,
    directory: Option<u64>,
    /// Where the block before ends, and where all blocks end.
    end: u64,
    data_end: u64,
    /// The bytes of the contents that the walk has passed.
    offset: usize,
}

impl Walk {
    /// A walk over the contents of a pack whose blocks end at `data_end`.
    pub(in crate::table) fn new(content: &[u8], data_end: u64) -> Result<Walk, Damage> {
        let mut decoder = Decoder::new(content);
        let key = decoder.take(16).and_then(|key| key.try_into().ok());
        let (Some(key), Some(left)) = (key, decoder.varint()) else {
            return Err(Damage::new(decoder.offset(), "a hash key and a number of directories", "fewer bytes"));
        };
        Ok(Walk { hash_key: HashKey(key), left, directory: None, end: 0, data_end, offset: decoder.offset() })
    }

    /// Returns the next directory, or `None` at the end. Replaces `blocks` by the blocks of the directory, at least
    /// one.
    pub(in crate::table) fn next(
        &mut self,
        content: &[u8],
        blocks: &mut Vec<ContentsBlock>,
    ) -> Result<Option<u64>, Damage> {
        let mut decoder = Decoder::new(content.get(self.offset..).unwrap_or_default());
        let is_end = self.left == 0;
        let directory = if is_end { None } else { self.fields(&mut decoder, blocks) };
        let offset = self.offset + decoder.offset();
        if directory.is_none() && !(is_end && decoder.is_empty()) {
            return Err(Damage::new(offset, "directories and their blocks, ascending", "other bytes"));
        }
        self.offset = offset;
        Ok(directory)
    }

    fn fields(&mut self, decoder: &mut Decoder<'_>, blocks: &mut Vec<ContentsBlock>) -> Option<u64> {
        blocks.clear();
        let step = decoder.varint()?;
        let directory = match self.directory {
            None => step,
            Some(before) => before.checked_add(step).filter(|_| step > 0)?,
        };
        let count = decoder.varint()?;
        if count == 0 {
            return None;
        }
        let mut before = 0;
        for number in 0..count {
            let begin = self.end.checked_add(decoder.varint()?.checked_mul(ALIGNMENT as u64)?)?;
            let bytes = decoder.varint()?.checked_mul(ALIGNMENT as u64)?;
            let end = begin.checked_add(bytes);
            self.end = end.filter(|end| *end <= self.data_end && bytes <= BLOCK_BYTES_MAX as u64)?;
            let hash = if number == 0 { 0 } else { decoder.u32()? };
            if hash < before {
                return None;
            }
            before = hash;
            let at = u32::try_from(begin / ALIGNMENT as u64).ok()?;
            blocks.push(ContentsBlock { fence: Fence { at, hash }, units: (bytes / ALIGNMENT as u64) as u32 });
        }
        (self.directory, self.left) = (Some(directory), self.left - 1);
        Some(directory)
    }
}
