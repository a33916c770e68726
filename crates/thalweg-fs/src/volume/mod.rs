//! [`Volume`]: a file system. Its operations are in `namespace/`, `data/`, `inode/`, `reclaim/` and `check/`.
//!
//! - `count.rs`: [`InodeCount`], how many inodes there are.
//! - `lifetime.rs`: format, open, close.
//! - `load.rs`: from a name to an inode in use.
//! - `numbers.rs`: the numbers of new inodes.
//! - `tasks.rs`: [`Tasks`], what is left for the background.

mod count;
mod lifetime;
mod load;
mod numbers;
mod tasks;

pub(crate) use lifetime::read_number;
pub use lifetime::{FormatOptions, OBJECTS, OpenOptions};
pub(crate) use tasks::{Inherited, Looks, Tasks, Watched};

use crate::clock::Clock;
use crate::error::Result;
use crate::node::NodeTable;
use crate::object::{ObjectStore, Room};
use crate::planted::{Bug, planted};
use crate::row::{Ino, Time};
use crate::store::{Batch, MetaStore, Promise};
use count::InodeCount;
use numbers::Numbers;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The longest name of an entry, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest target of a symbolic link, in bytes.
pub const TARGET_BYTES_MAX: usize = 4095;

/// A file system on a store of rows and a store of objects.
///
/// Inodes are named by number. A number is valid while its caller refers to the inode: from a [`Volume::lookup`], a
/// listing, or a call that creates, until the [`Volume::forget`] for it; the root's is always valid. All operations may
/// be called from any thread. The effect of an operation that has returned survives the death of the process. It
/// survives a power cut once [`Volume::sync`] or [`Volume::sync_file`] has returned, or after about 100 ms. After a
/// power cut the names and small files of a volume are as they were after some prefix of its operations.
pub struct Volume {
    pub(crate) store: Box<dyn MetaStore>,
    pub(crate) objects: Box<dyn ObjectStore>,
    pub(crate) nodes: NodeTable,
    numbers: Numbers,
    /// Held over a rename that moves a directory to another, so that no cycle can form. Taken before any inode's lock.
    pub(crate) renames: Mutex<()>,
    clock: Box<dyn Clock>,
    pub(crate) epoch: u32,
    pub(crate) inodes: InodeCount,
    /// The stored number of inodes.
    saved_inodes: AtomicU64,
    pub(crate) tasks: Mutex<Tasks>,
    /// Held over the syncs of dirty objects. A caller that finds none dirty must not return before those in flight end.
    pub(crate) syncing: Mutex<()>,
    /// Held over the removal of the objects of files that are gone: two callers would remove the same ones.
    pub(crate) removing: Mutex<()>,
    /// Held over the removal of an object's file that no row knows, and while a promotion says which file it makes.
    pub(crate) searching: Mutex<()>,
    /// Each is held over the sync of an object; the number of the object picks the lock.
    pub(crate) object_syncs: [Mutex<()>; OBJECT_SYNCS],
    pub(crate) limits: Limits,
}

/// Objects that may be synced at the same time.
pub(crate) const OBJECT_SYNCS: usize = 64;

/// How much a volume has and may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The room of the file system below.
    pub room: Room,
    /// How many inodes there are. After a crash it is off by those of the last second, until
    /// [`Volume::recount`] has ended.
    pub inodes: u64,
}

/// Where rows end and objects begin.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A file that grows beyond this becomes an object, in bytes.
    pub rows_bytes_max: u64,
    /// So does a file of which more than this was written again because parts of rows were overwritten, in bytes.
    pub rewritten_bytes_max: u32,
    /// If at most this number of objects are dirty, the background syncs each of them. If there are more, it syncs the
    /// file system that they are on, once.
    pub synced_singly_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { rows_bytes_max: 256 << 10, rewritten_bytes_max: 256 << 10, synced_singly_max: 16 }
    }
}

impl Volume {
    /// The time by the volume's clock.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        match self.store.commit(batch) {
            Err(error) if planted(Bug::WriteErrorSwallowed) && error.errno() == libc::EIO => Ok(()),
            done => done,
        }
    }

    /// The number of a new inode.
    pub(crate) fn new_number(&self) -> Result<Ino> {
        self.numbers.take(&*self.store)
    }

    /// Commits a batch that adds `difference` inodes.
    pub(crate) fn commit_counted(&self, batch: &Batch<'_>, difference: i64) -> Result<()> {
        self.inodes.change(difference, || self.commit(batch))
    }

    pub(crate) fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all operations that have returned durable, and what was written to objects.
    ///
    /// # Errors
    /// `EIO`, `EROFS`.
    pub fn sync(&self) -> Result<()> {
        // The log is synced first: a promotion that has not seen it durable has listed its object by now.
        self.store.promise()?.wait()?;
        self.sync_objects(Looks::All)?;
        Ok(())
    }

    /// The promise of all operations so far: it tells when they are durable. Objects are not part of it.
    ///
    /// # Errors
    /// `EIO`, `EROFS`.
    pub fn promise(&self) -> Result<Box<dyn Promise>> {
        self.store.promise()
    }

    /// Gives `lookups` references to an inode back.
    pub fn forget(&self, ino: Ino, lookups: u64) {
        self.nodes.release(ino, lookups);
    }

    /// How much room there is, and how many inodes: what `statfs` tells.
    ///
    /// # Errors
    /// Those of the file system below.
    pub fn usage(&self) -> Result<Usage> {
        Ok(Usage { room: self.objects.room()?, inodes: self.inodes.get() })
    }

    /// How many inodes are in use by callers.
    pub fn inodes_in_use(&self) -> usize {
        self.nodes.len()
    }
}
