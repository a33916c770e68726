//! [`Registry`]: the keyspaces that exist now, of all kinds.
//!
//! A definition is queued before the map changes, and code that needs both reads the map first. So a keyspace that is
//! new in the map, or gone from it, has its definition in the queue until the manifest knows the definition.
//!
//! Locks: `map` is held for a clone or a swap, never together with that of the definitions.

use super::definitions::{Definition, Definitions};
use super::keyspace::{Keyspace, NewKeyspace};
use crate::format::{KeyspaceId, LogMark, SeqNo};
use crate::lineage::Change;
use crate::sync::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keyspaces by id.
#[derive(Clone, Default)]
pub(crate) struct KeyspaceMap {
    by_id: BTreeMap<KeyspaceId, Arc<dyn Keyspace>>,
}

impl KeyspaceMap {
    /// The keyspace of this id.
    pub(crate) fn get(&self, id: KeyspaceId) -> Option<&Arc<dyn Keyspace>> {
        self.by_id.get(&id)
    }

    /// The keyspace of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn Keyspace>> {
        self.iter().find(|keyspace| keyspace.name() == name)
    }

    /// All keyspaces, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Keyspace>> {
        self.by_id.values()
    }

    /// The keyspaces of kind `K`, by id.
    pub(crate) fn of_kind<K: Keyspace>(&self) -> impl Iterator<Item = Arc<K>> + '_ {
        self.iter().filter_map(|keyspace| Arc::clone(keyspace).downcast())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn insert(&mut self, keyspace: Arc<dyn Keyspace>) {
        self.by_id.insert(keyspace.id(), keyspace);
    }

    pub(super) fn remove(&mut self, id: KeyspaceId) -> Option<Arc<dyn Keyspace>> {
        self.by_id.remove(&id)
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Registry {
    map: RwLock<Arc<KeyspaceMap>>,
    definitions: Definitions,
    /// See [`Registry::unchanged_while`].
    epoch: AtomicU64,
}

impl Registry {
    /// A registry of these keyspaces, which the manifest knows.
    pub(super) fn new(map: KeyspaceMap) -> Self {
        Registry { map: RwLock::new(Arc::new(map)), ..Registry::default() }
    }

    /// The keyspaces that exist now.
    pub(crate) fn keyspaces(&self) -> Arc<KeyspaceMap> {
        Arc::clone(&self.map.read())
    }

    /// The definitions that the manifest does not know.
    pub(crate) fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Adds a keyspace that the record at `mark` creates. `creation` is the change for the manifest.
    pub(crate) fn create(&self, keyspace: Arc<dyn Keyspace>, creation: Change, mark: LogMark, seq: SeqNo) {
        self.define(Definition::create(creation, mark, seq), |map| map.insert(keyspace));
    }

    /// Removes a keyspace that the record at `mark` drops.
    pub(crate) fn drop_keyspace(&self, keyspace: &Arc<dyn Keyspace>, mark: LogMark, seq: SeqNo) {
        keyspace.lifecycle().set_dropped();
        self.define(Definition::drop(Arc::clone(keyspace), mark, seq), |map| drop(map.remove(keyspace.id())));
    }

    /// Replaces a keyspace by its next generation: the record `seq`, which begins at `mark`, clears it. Called where no
    /// log space can be reserved, so it wakes nobody.
    pub(crate) fn clear(&self, keyspace: &Arc<dyn Keyspace>, mark: LogMark, seq: SeqNo) {
        let next = Arc::clone(keyspace).next_generation(seq);
        self.define(Definition::clear(Arc::clone(keyspace), mark, seq), |map| map.insert(next));
    }

    fn define(&self, definition: Definition, change: impl FnOnce(&mut KeyspaceMap)) {
        self.definitions.push(definition);
        // Copies the map if a reader holds it.
        change(Arc::make_mut(&mut self.map.write()));
    }

    /// Whether a sealed buffer of any keyspace waits for its flush.
    pub(crate) fn has_pending_flush(&self) -> bool {
        !self.unchanged_while(|| !self.keyspaces().iter().any(|keyspace| keyspace.has_pending_flush()))
    }

    /// Whether `look` returned `true` and no buffers were divided or joined meanwhile. Otherwise `look`, which looks at
    /// all buffers of all keyspaces, may have missed one.
    pub(crate) fn unchanged_while(&self, look: impl FnOnce() -> bool) -> bool {
        let before = self.epoch.load(Ordering::SeqCst);
        look() && self.epoch.load(Ordering::SeqCst) == before
    }

    /// Notes that a keyspace has divided or joined buffers. Called after the change, before either buffer is flushed.
    pub(crate) fn buffers_changed(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }
}

impl NewKeyspace<'_> {
    /// The change that tells the manifest of it.
    pub(crate) fn change(&self) -> Change {
        Change::CreateKeyspace {
            keyspace: self.id,
            name: self.name.to_owned(),
            splits: self.splits.clone(),
            kind: self.kind,
        }
    }
}
