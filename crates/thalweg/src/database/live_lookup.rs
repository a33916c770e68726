//! [`LiveLookup`]: the lookup of an entry of a directory as it is now, in steps that do no I/O themselves.
//!
//! It sees the entry as it was at one moment between the first step and the last. If the keyspace is cleared in
//! between, the lookup begins again.

use super::entry_lookup::{index_of, value_of};
use super::keyspace::Keyspace;
use crate::directory::{EntrySearch, Step};
use crate::error::Result;
use crate::format::{EntryKey, SeqNo, Slice};
use crate::ordered::OrderedKeyspace;
use std::sync::Arc;

/// The lookup of an entry of a directory as it is now; see the module.
pub(super) struct LiveLookup {
    /// The key of the entry.
    key: Vec<u8>,
    /// The search in the packs of a generation; `None` before the first step and after the last.
    search: Option<(Arc<OrderedKeyspace>, EntrySearch)>,
}

impl LiveLookup {
    pub(super) fn new(key: Vec<u8>) -> LiveLookup {
        LiveLookup { key, search: None }
    }

    /// Takes the next step. `read`: the bytes that the previous step needed. Not called again after the result.
    pub(super) fn step(&mut self, keyspace: &Keyspace, mut read: Option<Slice>) -> Result<Step> {
        let Some(key) = EntryKey::decode(&self.key) else { unreachable!("the key was made of an entry") };
        loop {
            let (ordered, mut search) = match self.search.take() {
                Some(search) => search,
                None => {
                    let (ordered, super_version, seq) = keyspace.live_generation(&self.key)?;
                    if let Some(found) = super_version.in_memory(&self.key, seq) {
                        return Ok(Step::Done(value_of(found)));
                    }
                    // After the super version, as in a lookup that blocks.
                    let search = index_of(ordered.directories()).search(key.directory, SeqNo::MAX)?;
                    (Arc::clone(&*ordered), search)
                }
            };
            let step = search.step(&key, read.take())?;
            if matches!(step, Step::Needs(_)) {
                self.search = Some((ordered, search));
                return Ok(step);
            }
            match ordered.check_readable() {
                Ok(()) => return Ok(step),
                Err(_) if ordered.is_cleared() => {}
                Err(dropped) => return Err(dropped),
            }
        }
    }
}
