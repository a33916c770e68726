//! Names and attributes, in memory.
//!
//! The table of nodes is split into shards. A directory and a node's attributes have a lock each. Locks are taken in
//! the order directory, attributes, shard. Two directories are locked by a rename, the lower number first, and by the
//! removal of a directory, its parent first. The kernel lets no two such calls meet.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fuser::{Errno, FileAttr, INodeNo, Request};
use parking_lot::{Mutex, MutexGuard};

use crate::node::{Names, Node, replaceable};

const SHARDS: usize = 64;

/// All nodes that have a name or that the kernel knows.
pub(crate) struct Tree {
    shards: [Mutex<HashMap<u64, Arc<Node>>>; SHARDS],
    last_ino: AtomicU64,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let tree = Self { shards: std::array::from_fn(|_| Mutex::default()), last_ino: AtomicU64::new(1) };
        tree.shard(1).insert(1, Arc::new(Node::new(1, libc::S_IFDIR | 0o755, 0, 0, 0)));
        tree
    }

    fn shard(&self, ino: u64) -> MutexGuard<'_, HashMap<u64, Arc<Node>>> {
        self.shards[ino as usize % SHARDS].lock()
    }

    pub(crate) fn node(&self, ino: INodeNo) -> Result<Arc<Node>, Errno> {
        self.shard(ino.0).get(&ino.0).cloned().ok_or(Errno::ESTALE)
    }

    pub(crate) fn lookup(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let parent = self.node(parent)?;
        let names = parent.names()?;
        names.get(name).map(|node| node.looked_up()).ok_or(Errno::ENOENT)
    }

    /// Makes a file or a directory, and returns its attributes with one reference of the kernel counted.
    pub(crate) fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        rdev: u32,
    ) -> Result<FileAttr, Errno> {
        let parent = self.node(parent)?;
        let mut names = parent.names()?;
        if names.by_name.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let ino = self.last_ino.fetch_add(1, Relaxed) + 1;
        let node = Arc::new(Node::new(ino, mode, rdev, request.uid(), request.gid()));
        let attr = node.looked_up();
        parent.touch(i32::from(node.is_directory()));
        self.shard(ino).insert(ino, Arc::clone(&node));
        names.insert(name, ino, node);
        Ok(attr)
    }

    /// Removes a name. `directory` says which call this is.
    pub(crate) fn remove(&self, parent: INodeNo, name: &OsStr, directory: bool) -> Result<(), Errno> {
        let parent = self.node(parent)?;
        let mut names = parent.names()?;
        replaceable(names.get(name).ok_or(Errno::ENOENT)?, directory)?;
        if let Some(node) = names.remove(name) {
            parent.touch(-i32::from(directory));
            self.unlinked(&node);
        }
        Ok(())
    }

    /// Renames within a directory or between two. A name that is replaced goes as by a removal.
    pub(crate) fn rename(&self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr), keep: bool) -> Result<(), Errno> {
        let source = self.node(from.0)?;
        if from.0 == to.0 {
            let mut names = source.names()?;
            let node = Arc::clone(names.get(from.1).ok_or(Errno::ENOENT)?);
            let replaced = self.replace(&mut names, to.1, &node, keep)?;
            names.remove(from.1);
            self.placed(&mut names, to.1, node);
            source.touch(-i32::from(replaced));
            return Ok(());
        }
        let target = self.node(to.0)?;
        let (mut source_names, mut target_names);
        if from.0 < to.0 {
            source_names = source.names()?;
            target_names = target.names()?;
        } else {
            target_names = target.names()?;
            source_names = source.names()?;
        }
        let node = Arc::clone(source_names.get(from.1).ok_or(Errno::ENOENT)?);
        let replaced = self.replace(&mut target_names, to.1, &node, keep)?;
        source_names.remove(from.1);
        let links = i32::from(node.is_directory());
        self.placed(&mut target_names, to.1, node);
        source.touch(-links);
        target.touch(links - i32::from(replaced));
        Ok(())
    }

    fn placed(&self, names: &mut Names, name: &OsStr, node: Arc<Node>) {
        let ino = node.attr.lock().ino.0;
        names.insert(name, ino, node);
    }

    /// Removes what a rename replaces, and returns whether that was a directory.
    fn replace(&self, names: &mut Names, name: &OsStr, by: &Arc<Node>, keep: bool) -> Result<bool, Errno> {
        let Some(old) = names.get(name).cloned() else { return Ok(false) };
        if keep {
            return Err(Errno::EEXIST);
        }
        replaceable(&old, by.is_directory())?;
        names.remove(name);
        self.unlinked(&old);
        Ok(old.is_directory())
    }

    /// Takes the last link of a node. It stays as long as the kernel knows it.
    fn unlinked(&self, node: &Node) {
        let mut attr = node.attr.lock();
        attr.nlink = 0;
        if node.lookups.load(Relaxed) == 0 {
            self.shard(attr.ino.0).remove(&attr.ino.0);
        }
    }

    /// Gives references of the kernel back.
    pub(crate) fn forget(&self, ino: INodeNo, lookups: u64) {
        let Ok(node) = self.node(ino) else { return };
        let attr = node.attr.lock();
        if node.lookups.fetch_sub(lookups, Relaxed) == lookups && attr.nlink == 0 {
            self.shard(ino.0).remove(&ino.0);
        }
    }

    /// The number of nodes that were ever made.
    pub(crate) fn made(&self) -> u64 {
        self.last_ino.load(Relaxed)
    }
}
