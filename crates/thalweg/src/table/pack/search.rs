//! [`PackSearch`]: looks for an entry in one pack without doing I/O itself. A step returns the version, or the read
//! that is needed next; the bytes of that read go to the next step. [`PackSearch::begin`] opens the pack if it is not
//! open yet.

use super::block::Content;
use super::contents::{BlockAt, PackSpan};
use super::open_pack::{OpenPack, PackValue, PackVersion, entry_hash, version};
use super::part_read::{PackRead, cache, in_memory, of_pages};
use super::read::trimmed;
use crate::error::Result;
use crate::format::{EntryKey, SeqNo, Slice};
use crate::table::read::table::Table;
use std::sync::Arc;

/// See the module.
pub(crate) struct PackSearch {
    pack: Arc<Table>,
    span: PackSpan,
    /// The number of the next block, among those that may have the entry.
    block: usize,
    newest: Option<PackVersion>,
}

/// The result of a step.
pub(crate) enum PackStep {
    /// The newest version that is visible.
    Done(Option<PackVersion>),
    /// The next step needs the bytes of this read.
    Needs(PackRead),
}

impl PackSearch {
    /// Begins a search among the entries of a span. Returns `None` if the filter says that the entry is not there.
    pub(crate) fn begin(pack: Arc<Table>, span: PackSpan, key: &EntryKey<'_>) -> Result<Option<PackSearch>> {
        let reads = pack.metrics.reads();
        reads.filter_checks.increment();
        if !pack.pack()?.may_have(entry_hash(key)) {
            reads.filter_negatives.increment();
            return Ok(None);
        }
        Ok(Some(PackSearch { pack, span, block: 0, newest: None }))
    }

    pub(crate) fn pack(&self) -> &Arc<Table> {
        &self.pack
    }

    /// Continues the search for the newest version with a sequence number of at most `visible`. `read`: the bytes of
    /// the read that the previous step needed.
    pub(crate) fn step(&mut self, key: &EntryKey<'_>, visible: SeqNo, mut read: Option<Slice>) -> Result<PackStep> {
        let pack = Arc::clone(&self.pack);
        let open = pack.pack()?;
        for at in open.blocks_from(self.span, key.hash).skip(self.block) {
            if self.block > 0 && at.fence > key.hash.fence() {
                break;
            }
            match read.take() {
                Some(pages) => {
                    self.look_into(open, at, trimmed(of_pages(&pages, at)), key, visible)?;
                    // The pages are now known to be undamaged.
                    cache(open, at, &pages);
                }
                None => match in_memory(&pack, open, at) {
                    Some(bytes) => self.look_into(open, at, trimmed(bytes), key, visible)?,
                    None => return Ok(PackStep::Needs(PackRead::of_pages(&pack, open, at))),
                },
            }
            self.block += 1;
        }
        Ok(PackStep::Done(self.newest.take()))
    }

    /// Takes the newest version from a block.
    fn look_into(
        &mut self,
        open: &OpenPack,
        at: BlockAt,
        bytes: Slice,
        key: &EntryKey<'_>,
        visible: SeqNo,
    ) -> Result<()> {
        let block = open.decode(&bytes, at.offset, key.directory)?;
        let fingerprint = key.hash.fingerprint();
        for (number, other) in block.fingerprints().enumerate() {
            if other != fingerprint {
                continue;
            }
            let item = block.item(number)?;
            let is_newer = self.newest.as_ref().is_none_or(|found| found.seq < item.seq);
            if item.name == key.name && item.seq <= visible && is_newer {
                let mut extent = at.offset + bytes.len() as u64;
                if matches!(item.content, Content::Extent(_)) {
                    extent += block.extents_before(number)?;
                }
                self.newest = Some(version(&bytes, &item, extent));
            }
        }
        // A small value is copied, or it would keep its page in memory.
        if let Some(PackVersion { value: PackValue::Here(value), .. }) = &mut self.newest {
            *value = Slice::from(&**value);
        }
        Ok(())
    }
}
