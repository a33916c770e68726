//! Finds one entry by an f-hash: the candidates are the items with the hash of its name, and their names are compared.
//! Neither filters nor fences are used.

use crate::directory::index::DirectoryIndex;
use crate::directory::lookup::Found;
use crate::error::Result;
use crate::format::{EntryKey, SeqNo};
use crate::table::Table;
use std::cmp::Reverse;
use std::sync::Arc;

impl DirectoryIndex {
    /// As [`DirectoryIndex::find`]. `None`: there is no f-hash to look into.
    pub(in crate::directory) fn find_by_f_hash(
        &self,
        key: &EntryKey<'_>,
        visible: SeqNo,
    ) -> Option<Result<Option<Found>>> {
        let f_hashes = self.f_hashes.get()?;
        let mut candidates = f_hashes.find(key.directory, key.hash, |descriptors| {
            let with_pack = descriptors.into_iter().map(|it| Some((self.pack_in(it.pack())?, it.place(), it.item())));
            with_pack.collect::<Option<Vec<(Arc<Table>, u32, usize)>>>()
        })??;
        candidates.sort_by_key(|(pack, ..)| Reverse(pack.meta().seq_max));
        let mut newest: Option<Found> = None;
        for (pack, place, item) in candidates {
            if newest.as_ref().is_some_and(|found| found.version.seq >= pack.meta().seq_max) {
                break;
            }
            match pack.version_at(place, item, key, visible) {
                Ok(Some(version)) if newest.as_ref().is_none_or(|found| found.version.seq < version.seq) => {
                    newest = Some(Found { pack, version });
                }
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(newest))
    }
}
