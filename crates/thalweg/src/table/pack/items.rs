//! [`PackItems`]: the hashes of all items of a pack, block by block; for indexes that have each item.

use super::ALIGNMENT;
use crate::format::NameHash;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct PackItems {
    pub(crate) blocks: Vec<PackBlock>,
    hashes: Vec<NameHash>,
}

/// One block of a pack.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "experiments"), expect(dead_code, reason = "such indexes are experiments"))]
pub(crate) struct PackBlock {
    pub(crate) directory: u64,
    /// Its offset in units of 8 bytes.
    pub(crate) place: u32,
    /// Where its hashes begin, and end.
    from: u32,
    to: u32,
}

impl PackItems {
    /// Adds an item to the block that is open.
    #[inline]
    pub(in crate::table) fn add(&mut self, hash: NameHash) {
        self.hashes.push(hash);
    }

    /// Ends the open block, which has `items` items.
    pub(in crate::table) fn end_block(&mut self, directory: u64, offset: u64, items: usize) {
        let from = self.blocks.last().map_or(0, |last| last.to);
        let place = u32::try_from(offset / ALIGNMENT as u64).unwrap_or(u32::MAX);
        self.blocks.push(PackBlock { directory, place, from, to: from + items as u32 });
    }

    /// The hashes of the items of a block, in their order.
    #[cfg(feature = "experiments")]
    pub(crate) fn hashes_of(&self, block: &PackBlock) -> &[NameHash] {
        self.hashes.get(block.from as usize..block.to as usize).unwrap_or_default()
    }
}
