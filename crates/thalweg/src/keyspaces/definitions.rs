//! [`Definitions`]: creations, clears and drops of keyspaces that the log has and the manifest does not know yet.
//!
//! The record of a definition pins the log until the manifest knows the definition. So do the buffers of a keyspace
//! that is dropped or cleared: until then a power cut may bring the keyspace back, with its records.
//!
//! Locks: `queue` is held for a push, a look or a drain.

use super::keyspace::Keyspace;
use crate::format::{KeyspaceId, LogMark, SeqNo};
use crate::lineage::{Change, Edit};
use crate::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;

/// The creation, clear or drop of a keyspace by a record of the log.
pub(super) struct Definition {
    pub(super) change: Change,
    /// The number of its record.
    pub(super) seq: SeqNo,
    /// Where its record begins.
    pub(super) mark: LogMark,
    /// The generation that it ends, for a clear or a drop.
    pub(super) ended: Option<Arc<dyn Keyspace>>,
}

impl Definition {
    pub(super) fn create(change: Change, mark: LogMark, seq: SeqNo) -> Self {
        Definition { change, seq, mark, ended: None }
    }

    pub(super) fn clear(keyspace: Arc<dyn Keyspace>, mark: LogMark, seq: SeqNo) -> Self {
        let change = Change::ClearKeyspace { keyspace: keyspace.id(), seq };
        Definition { change, seq, mark, ended: Some(keyspace) }
    }

    pub(super) fn drop(keyspace: Arc<dyn Keyspace>, mark: LogMark, seq: SeqNo) -> Self {
        let change = Change::DropKeyspace { keyspace: keyspace.id() };
        Definition { change, seq, mark, ended: Some(keyspace) }
    }

    /// Whether the manifest must know this definition before a table of the keyspace's present generation.
    fn begins(&self, id: KeyspaceId) -> bool {
        match &self.change {
            Change::CreateKeyspace { keyspace, .. } | Change::ClearKeyspace { keyspace, .. } => *keyspace == id,
            _ => false,
        }
    }
}

/// See the module. In log order.
#[derive(Default)]
pub(crate) struct Definitions {
    queue: Mutex<VecDeque<Definition>>,
}

impl Definitions {
    pub(super) fn push(&self, definition: Definition) {
        self.queue().push_back(definition);
    }

    /// How many wait for the manifest.
    pub(crate) fn len(&self) -> usize {
        self.queue().len()
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue().is_empty()
    }

    /// Whether the manifest knows the present generation of a keyspace, which was in the registry before the call.
    pub(crate) fn is_known(&self, id: KeyspaceId) -> bool {
        !self.queue().iter().any(|definition| definition.begins(id))
    }

    /// Gives the mark of each definition to `mark`, and the generations that they end to `ended`.
    pub(super) fn pins(&self, mut mark: impl FnMut(LogMark), mut ended: impl FnMut(&Arc<dyn Keyspace>)) {
        for definition in self.queue().iter() {
            mark(definition.mark);
            definition.ended.iter().for_each(&mut ended);
        }
    }

    /// One edit of all definitions so far: the edit, how many they are, and the generations that they end.
    pub(super) fn edit(&self) -> (Edit, usize, Vec<Arc<dyn Keyspace>>) {
        let (mut edit, mut ended) = (Edit::default(), Vec::new());
        let queue = self.queue();
        for definition in queue.iter() {
            edit.changes.push(definition.change.clone());
            edit.seq = edit.seq.max(definition.seq);
            ended.extend(definition.ended.clone());
        }
        (edit, queue.len(), ended)
    }

    /// Removes the first `count` definitions, which the manifest knows. Passes each to `each` before the queue is seen
    /// without it.
    pub(super) fn remove(&self, count: usize, each: impl FnMut(Definition)) {
        let mut queue = self.queue();
        assert!(queue.len() >= count, "only one coroutine installs definitions");
        queue.drain(..count).for_each(each);
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Definition>> {
        self.queue.lock()
    }
}
