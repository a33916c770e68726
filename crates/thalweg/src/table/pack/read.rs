//! Foreground reads of a [`Table`] that is a pack.

use super::block::ALIGNMENT;
use super::contents::PackSpan;
use super::open_pack::{BlocksFrom, PackValue, PackVersion};
use crate::error::Result;
use crate::format::{EntryKey, NameHash, SeqNo, Slice};
use crate::table::read::table::Table;

impl Table {
    /// The newest version of an entry with a sequence number of at most `visible`, among those of a span.
    pub(crate) fn newest_of(&self, span: PackSpan, key: &EntryKey<'_>, visible: SeqNo) -> Result<Option<PackVersion>> {
        let pack = self.pack()?;
        if !pack.may_have(key.directory, key.hash) {
            return Ok(None);
        }
        pack.newest(span, key, visible, &self.metrics)
    }

    /// Gives the versions in some blocks of a span to `visit`: those from the block on that has the hash `from`, at
    /// least `blocks` blocks. Returns the hash from which on others follow; `None`: none do.
    pub(crate) fn visit_entries(
        &self,
        span: PackSpan,
        directory: u64,
        from: NameHash,
        blocks: usize,
        visit: &mut dyn FnMut(Slice, PackVersion),
    ) -> Result<Option<NameHash>> {
        let pack = self.pack()?;
        let offset = |at: u32| u64::from(at) * ALIGNMENT as u64;
        let fences = match pack.blocks_from(span, from) {
            BlocksFrom::One(offset) => {
                return pack.visit_block(offset, directory, &self.metrics, visit).map(|()| None);
            }
            BlocksFrom::Several(fences) => fences,
        };
        for (number, fence) in fences.iter().enumerate() {
            if number >= blocks && fence.hash > from.fence() {
                return Ok(Some(NameHash(u64::from(fence.hash) << 32)));
            }
            pack.visit_block(offset(fence.at), directory, &self.metrics, visit)?;
        }
        Ok(None)
    }

    /// A value that [`Table::newest_of`] or [`Table::visit_entries`] has found.
    pub(crate) fn pack_value(&self, value: PackValue) -> Result<Slice> {
        match value {
            PackValue::Here(value) => Ok(value),
            PackValue::Extent(offset, bytes) => self.pack()?.read_extent(offset, bytes),
        }
    }
}
