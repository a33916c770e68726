//! [`NodeTable`]: the inodes in use, by number.
//!
//! An inode is in the table while somebody refers to it: a caller that looked it up, an open, or an operation
//! ([`Pin`]). There is one node for an inode at any time, so its lock is *the* lock.
//!
//! **Entering.** A thread that finds an inode's row, and no node for the inode, enters one with the content of the row.
//! Between the read and the entry another thread might have entered a node, changed the row, and dropped the node. So
//! the table counts removals: the reader takes the counts before it reads ([`NodeTable::removals`]), and enters only if
//! the count of the inode's shard is the same. Otherwise it reads again.
//!
//! Locks: each shard's, for a few instructions; no other lock is taken under it.

use super::state::State;
use crate::error::{Error, Result};
use crate::row::{Ino, Kind};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const SHARDS: usize = 16;

/// How many nodes each shard has removed.
pub(crate) type Removals = [u64; SHARDS];

/// The inodes in use.
pub(crate) struct NodeTable {
    shards: [Mutex<HashMap<Ino, Slot>>; SHARDS],
    removals: [AtomicU64; SHARDS],
}

struct Slot {
    node: Arc<Node>,
    references: u64,
}

struct Node {
    ino: Ino,
    kind: Kind,
    state: RwLock<State>,
}

/// A reference to an inode in use, for an operation. The inode stays in the table while it lives.
pub(crate) struct Pin<'t> {
    table: &'t NodeTable,
    node: Arc<Node>,
}

impl NodeTable {
    pub(crate) fn new() -> Self {
        NodeTable { shards: std::array::from_fn(|_| Mutex::default()), removals: Default::default() }
    }

    fn shard_of(ino: Ino) -> usize {
        (ino % SHARDS as u64) as usize
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, HashMap<Ino, Slot>> {
        self.shards[Self::shard_of(ino)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many inodes are in use.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    /// The counts for [`NodeTable::enter`], to be taken before the row is read.
    pub(crate) fn removals(&self) -> Removals {
        std::array::from_fn(|shard| self.removals[shard].load(Ordering::Acquire))
    }

    /// Refers to an inode in use.
    ///
    /// # Errors
    /// `ESTALE` for a number that nobody refers to.
    pub(crate) fn pin(&self, ino: Ino) -> Result<Pin<'_>> {
        self.try_pin(ino).ok_or(Error::posix(libc::ESTALE))
    }

    /// Refers to an inode if it is in use.
    pub(crate) fn try_pin(&self, ino: Ino) -> Option<Pin<'_>> {
        let mut shard = self.shard(ino);
        let slot = shard.get_mut(&ino)?;
        slot.references += 1;
        Some(Pin { table: self, node: Arc::clone(&slot.node) })
    }

    /// Refers to an inode, whose row said `state` after the counts were taken. `None`: read it again.
    pub(crate) fn enter(&self, seen: &Removals, state: State) -> Option<Pin<'_>> {
        let (ino, kind) = (state.attributes.ino, state.attributes.kind);
        let mut shard = self.shard(ino);
        let slot = match shard.entry(ino) {
            Entry::Occupied(slot) => slot.into_mut(),
            Entry::Vacant(vacant) => {
                let index = Self::shard_of(ino);
                if self.removals[index].load(Ordering::Acquire) != seen[index] {
                    return None;
                }
                vacant.insert(Slot { node: Arc::new(Node { ino, kind, state: RwLock::new(state) }), references: 0 })
            }
        };
        slot.references += 1;
        Some(Pin { table: self, node: Arc::clone(&slot.node) })
    }

    /// Refers to an inode that was just created. Another thread may have found its row since, and refer to it already.
    pub(crate) fn enter_new(&self, state: State) -> Pin<'_> {
        let (ino, kind) = (state.attributes.ino, state.attributes.kind);
        let mut shard = self.shard(ino);
        let slot = shard
            .entry(ino)
            .or_insert_with(|| Slot { node: Arc::new(Node { ino, kind, state: RwLock::new(state) }), references: 0 });
        slot.references += 1;
        Pin { table: self, node: Arc::clone(&slot.node) }
    }

    /// Adds references to an inode that is in use, which [`NodeTable::release`] gives back.
    fn keep(&self, ino: Ino, references: u64) {
        if let Some(slot) = self.shard(ino).get_mut(&ino) {
            slot.references += references;
        }
    }

    /// Gives references back. With the last one the inode leaves the table.
    pub(crate) fn release(&self, ino: Ino, references: u64) {
        let mut shard = self.shard(ino);
        let removed = match shard.entry(ino) {
            Entry::Occupied(mut slot) => {
                let left = slot.get().references.saturating_sub(references);
                slot.get_mut().references = left;
                (left == 0).then(|| slot.remove())
            }
            Entry::Vacant(_) => None,
        };
        if removed.is_some() {
            self.removals[Self::shard_of(ino)].fetch_add(1, Ordering::Release);
        }
        drop(shard);
    }
}

impl Pin<'_> {
    pub(crate) fn ino(&self) -> Ino {
        self.node.ino
    }

    pub(crate) fn kind(&self) -> Kind {
        self.node.kind
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.node.kind == Kind::Directory
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.node.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.node.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a reference behind, for a caller that has the number now.
    pub(crate) fn keep(&self) {
        self.table.keep(self.ino(), 1);
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.table.release(self.node.ino, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Place;
    use crate::row::{Attributes, Time};

    #[test]
    fn an_inode_that_another_thread_has_found_before_its_creator_entered_it_has_one_node() {
        let table = NodeTable::new();
        let state = || {
            let attributes = Attributes::new(9, Kind::File, 0o644, (0, 0), Time::default());
            State::new(attributes, Place::Inode, Box::default())
        };
        let found = table.enter(&table.removals(), state());
        let made = table.enter_new(state());
        found.iter().for_each(|found| found.write().opens = 3);
        assert_eq!(made.read().opens, 3);
        drop(found);
        assert_eq!(table.len(), 1);
        drop(made);
        assert_eq!(table.len(), 0);
    }
}
