//! [`EntrySearch`]: the lookup of one entry in the packs of a directory, in steps that do no I/O themselves. `lookup`
//! is the same for a caller that blocks.
//!
//! A search holds the packs that had the directory when it began. They never change, so a merge in between does no
//! harm.

use super::index::DirectoryIndex;
use super::lookup::Found;
use crate::error::Result;
use crate::format::{EntryKey, EntryKind, SeqNo, Slice};
use crate::planted::{Bug, planted};
use crate::table::{PackRead, PackSearch, PackSpan, PackStep, PackValue, Table};
use std::sync::Arc;

/// The lookup of one entry in the packs of a directory; see the module.
pub(crate) struct EntrySearch {
    visible: SeqNo,
    /// The packs that were not searched yet.
    packs: std::vec::IntoIter<(Arc<Table>, PackSpan)>,
    /// The search in the present pack.
    within: Option<PackSearch>,
    newest: Option<Found>,
    /// Whether the value is read.
    is_at_value: bool,
}

/// The result of a step.
pub(crate) enum Step {
    /// The value; `None`: there is none.
    Done(Option<Slice>),
    /// The next step needs the bytes of this read.
    Needs(PackRead),
}

impl DirectoryIndex {
    /// Begins to look for an entry of a directory: for its newest version with a sequence number of at most `visible`.
    pub(crate) fn search(&self, directory: u64, visible: SeqNo) -> Result<EntrySearch> {
        let packs = self.spans_of(directory)?.into_iter();
        Ok(EntrySearch { visible, packs, within: None, newest: None, is_at_value: false })
    }
}

impl EntrySearch {
    /// Takes the next step. `key`: the key of the entry. `read`: the bytes that the previous step needed.
    pub(crate) fn step(&mut self, key: &EntryKey<'_>, mut read: Option<Slice>) -> Result<Step> {
        if self.is_at_value {
            return Ok(Step::Done(read));
        }
        loop {
            if let Some(within) = &mut self.within {
                match within.step(key, self.visible, read.take())? {
                    PackStep::Needs(read) => return Ok(Step::Needs(read)),
                    PackStep::Done(version) => {
                        let found = version.map(|version| Found { pack: Arc::clone(within.pack()), version });
                        self.take(found);
                        self.within = None;
                    }
                }
            }
            match self.packs.next().filter(|(pack, _)| !self.is_enough(pack)) {
                Some((pack, span)) => self.within = PackSearch::begin(pack, span, key)?,
                None => return self.value(),
            }
        }
    }

    /// Whether this pack and those after it have no newer version than the one found.
    fn is_enough(&self, pack: &Table) -> bool {
        let is_newest = |found: &Found| found.version.seq >= pack.meta().seq_max || planted(Bug::PackOrderTrusted);
        self.newest.as_ref().is_some_and(is_newest)
    }

    fn take(&mut self, found: Option<Found>) {
        let newest = self.newest.as_ref().map(|newest| newest.version.seq);
        if let Some(found) = found
            && newest.is_none_or(|newest| newest < found.version.seq)
        {
            self.newest = Some(found);
        }
    }

    fn value(&mut self) -> Result<Step> {
        let Some(Found { pack, version }) = self.newest.take() else { return Ok(Step::Done(None)) };
        match (version.kind, version.value) {
            (EntryKind::Remove, _) => Ok(Step::Done(None)),
            (EntryKind::Put, PackValue::Here(value)) => Ok(Step::Done(Some(value))),
            (EntryKind::Put, PackValue::Extent(offset, bytes)) => {
                self.is_at_value = true;
                PackRead::of_extent(pack, offset, bytes).map(Step::Needs)
            }
        }
    }
}
