//! Finds one entry in the packs of a directory.

use super::index::DirectoryIndex;
use crate::error::Result;
use crate::format::{EntryKey, EntryKind, SeqNo, Slice};
use crate::planted::{Bug, planted};
use crate::table::{PackVersion, Table, entry_hash};
use std::sync::Arc;

/// A version that was found, and the pack that has it.
pub(crate) struct Found {
    pub(crate) pack: Arc<Table>,
    pub(crate) version: PackVersion,
}

impl Found {
    /// The value; `None` for a tombstone.
    pub(crate) fn value(self) -> Result<Option<Slice>> {
        match self.version.kind {
            EntryKind::Put => self.pack.pack_value(self.version.value).map(Some),
            EntryKind::Remove => Ok(None),
        }
    }
}

impl DirectoryIndex {
    /// The newest version of an entry with a sequence number of at most `visible`.
    ///
    /// Newest is by sequence number, not by the order of packs: a merge may put old versions into a pack with new ones.
    pub(crate) fn find(&self, key: &EntryKey<'_>, visible: SeqNo) -> Result<Option<Found>> {
        #[cfg(feature = "experiments")]
        if let Some(found) = self.find_by_f_hash(key, visible) {
            return found;
        }
        let hash = entry_hash(key);
        let mut newest: Option<Found> = None;
        for (pack, span) in self.spans_from(key.directory, |pack| !pack.rules_out(hash))? {
            let is_enough = |found: &Found| found.version.seq >= pack.meta().seq_max || planted(Bug::PackOrderTrusted);
            if newest.as_ref().is_some_and(is_enough) {
                break;
            }
            if let Some(version) = pack.newest_of(span, (key, hash), visible)?
                && newest.as_ref().is_none_or(|found| found.version.seq < version.seq)
            {
                newest = Some(Found { pack, version });
            }
        }
        Ok(newest)
    }
}
