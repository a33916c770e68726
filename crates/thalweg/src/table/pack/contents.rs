//! [`Contents`]: which directories a pack has, and where their blocks are.
//!
//! The region begins with the key of the hashes (16 bytes) and the number of directories (varint). Each directory is,
//! as varints: its number less that of the directory before (of the first: its number), and how many blocks it has;
//! then for each block: how far it begins behind the end of the block before, and its bytes without extents, both in
//! units of 8 bytes. Of a directory with several blocks each but the first also has the highest 32 bits of the hash of
//! its first entry (4 bytes): its *fence*.
//!
//! In memory an open pack keeps the blocks of those directories only that have several: of the others, the index of the
//! keyspace has the place.

use super::ALIGNMENT;
use super::block::BLOCK_BYTES_MAX;
use super::items::PackItems;
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
    /// The highest bits of the hash of its first entry; 0 of the first block.
    pub(in crate::table) hash: u32,
}

/// Where the blocks of one directory are in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackSpan {
    /// One block: its offset in units of 8 bytes. Several: the number of the first in the fences.
    at: u32,
    /// One block: [`SINGLE`] and its bytes in units of 8. Several: how many.
    size: u32,
}

const SINGLE: u32 = 1 << 31;

/// A [`PackSpan`], to be matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) enum Blocks {
    /// The offset and the bytes of the only block.
    One(u64, usize),
    /// Where in the fences the blocks are.
    Several(usize, usize),
}

impl PackSpan {
    pub(in crate::table) fn blocks(self) -> Blocks {
        let unit = ALIGNMENT as u64;
        match self.size & SINGLE {
            0 => Blocks::Several(self.at as usize, self.at as usize + self.size as usize),
            _ => Blocks::One(u64::from(self.at) * unit, (self.size & !SINGLE) as usize * ALIGNMENT),
        }
    }
}

/// The blocks of directories that have several, in the order of the pack.
pub(in crate::table) type Fences = Box<[Fence]>;

/// The contents of packs that were just written, until the index has them: so it need not read them back.
#[derive(Debug, Default)]
pub(in crate::table) struct FreshContents {
    by_pack: Mutex<BTreeMap<TableId, Fresh>>,
    /// Their items, where an index has each item.
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

/// What the contents say beside the places of directories.
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
        let span = match *blocks.as_slice() {
            [ContentsBlock { fence: Fence { at, .. }, units }] => PackSpan { at, size: SINGLE | units },
            ref several => {
                let span = PackSpan { at: fences.len() as u32, size: several.len() as u32 };
                fences.extend(several.iter().map(|block| block.fence));
                span
            }
        };
        visit(directory, span);
    }
    Ok(Decoded { hash_key: walk.hash_key, fences: fences.into_boxed_slice(), blocks: numbers })
}

/// A block, as the contents say.
#[derive(Clone, Copy, Debug)]
pub(in crate::table) struct ContentsBlock {
    pub(in crate::table) fence: Fence,
    /// Its bytes in units of 8, without extents.
    units: u32,
}

/// A walk over the directories in contents. It keeps its place only, so that a merge of many packs takes little memory.
#[derive(Debug)]
pub(in crate::table) struct Walk {
    hash_key: HashKey,
    /// Directories that are left.
    left: u64,
    directory: Option<u64>,
    /// Where the block before ends, and where all blocks end.
    end: u64,
    data_end: u64,
    /// Bytes of the contents behind it.
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

    /// The next directory; `blocks` becomes its blocks, at least one. `None` at the end.
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
