//! Clearing a keyspace: one record, after which the keyspace is empty, and snapshots that are older still read it.
//!
//! The record is reserved and the next generation put into the registry at one moment, under the log's reserve lock
//! ([`Workshop::clear_keyspace`]). So a record goes to the new generation exactly when its number is above the clear's:
//! a writer that was routed before and reserves afterwards is routed anew ([`Workshop::rerouted`]). The manifest hears
//! of it by an edit of the queue of definitions, as of a drop.
//!
//! Invariant: a generation that was cleared can be read while what is visible, or a snapshot, is older than the clear.

use super::{DefinitionEdit, OrderedKeyspace, Partition, Workshop};
use crate::format::{LogMark, SeqNo};
use crate::lineage::{Change, Edit};
use crate::planted::{Bug, planted};
use std::sync::{Arc, PoisonError};

/// A generation that was cleared.
pub(super) struct Cleared {
    at: SeqNo,
    keyspace: Arc<OrderedKeyspace>,
}

impl Workshop {
    /// Puts the next generation of `keyspace` in its place. `at` is the number of the record that clears it, which
    /// begins at `mark`. Called under the log's reserve lock: it wakes nobody ([`Workshop::cleared`] does).
    pub(crate) fn clear_keyspace(&self, keyspace: &Arc<OrderedKeyspace>, mark: LogMark, at: SeqNo) {
        let next = keyspace.clear(at, &self.memtable_pool);
        let change = Change::ClearKeyspace { keyspace: keyspace.id, seq: at };
        let edit = Edit { changes: vec![change], seq: at, log_start: None };
        let definition = DefinitionEdit { edit, mark, dropped: Some(Arc::clone(keyspace)) };
        self.change_registry(definition, |registry| {
            registry.insert(next.id, next);
        });
    }

    /// After the record of a clear was published: lets the background see to it.
    pub(crate) fn cleared(&self) {
        self.flush_wanted.notify_all();
        self.compaction_wanted.notify_all();
    }

    /// The partition that takes `key` of the record `seq`, whose writer was routed to one that a clear has replaced
    /// meanwhile. `None`: the one it was routed to.
    pub(crate) fn rerouted(&self, partition: &Partition, key: &[u8], seq: SeqNo) -> Option<Arc<Partition>> {
        if !partition.share.is_cleared() || planted(Bug::ClearLosesLateWrites) {
            return None;
        }
        let keyspaces = self.keyspaces();
        let generation = keyspaces.get(&partition.keyspace)?.generation_at(seq)?;
        let layout = generation.layout();
        Some(Arc::clone(layout.partition_for(key)))
    }

    /// Keeps a generation that was cleared, the manifest knowing of it, until nobody can read it.
    pub(super) fn keep_cleared(&self, keyspace: &Arc<OrderedKeyspace>, at: SeqNo) {
        let mut kept = self.kept_generations.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(Cleared { at, keyspace: Arc::clone(keyspace) });
        self.snapshots.tell_of_returns(true);
    }

    /// Lets go of the generations that nobody can read any more.
    pub(super) fn sweep_generations(&self) {
        if !self.snapshots.tells_of_returns() {
            return;
        }
        let oldest = self.snapshots.boundaries(|| self.log.visible()).first().copied().unwrap_or_default();
        let unread: Vec<Cleared> = {
            let mut kept = self.kept_generations.lock().unwrap_or_else(PoisonError::into_inner);
            let unread = kept.extract_if(.., |cleared| cleared.at <= oldest).collect();
            self.snapshots.tell_of_returns(!kept.is_empty());
            unread
        };
        for Cleared { keyspace, .. } in &unread {
            keyspace.empty();
        }
        if !unread.is_empty() {
            self.lineage.wake_cleanup();
            self.progress.notify_all();
        }
    }
}
