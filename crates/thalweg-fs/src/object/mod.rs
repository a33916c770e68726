//! [`ObjectStore`]: the bytes of files that are too large for rows, each in a file of its own.
//!
//! - `folder.rs`: [`FolderObjects`], plain files below a folder.
//!
//! An object has the number of its inode. Its size, its allocated bytes and its time of change are those of its file:
//! no row repeats them.

mod folder;

pub use folder::FolderObjects;

use crate::error::Result;
use crate::row::{Ino, Time};
use std::fs::File;
use std::sync::Arc;

/// The attributes of an object's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectAttributes {
    /// Its size in bytes.
    pub size: u64,
    /// The bytes that are allocated for it.
    pub bytes: u64,
    /// When its bytes changed, or what a caller has set.
    pub mtime: Time,
    /// When its bytes or its times changed. Nobody can set it.
    pub ctime: Time,
}

/// The room of the file system that objects and rows are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes that are free for users other than root.
    pub available_bytes: u64,
}

/// A store of objects. Calls for one object come one at a time, except reads and [`ObjectStore::sync`].
pub trait ObjectStore: Send + Sync {
    /// Creates the file of an object, empty; one that is there is emptied.
    ///
    /// # Errors
    /// Those of the file system, as for every call.
    fn create(&self, ino: Ino) -> Result<()>;

    /// Reads at `offset`; fewer bytes than `bytes` has only at the end of the object.
    ///
    /// # Errors
    /// See [`ObjectStore::create`].
    fn read_at(&self, ino: Ino, offset: u64, bytes: &mut [u8]) -> Result<usize>;

    /// As [`ObjectStore::read_at`] where that need not wait for the device; else `None`.
    ///
    /// # Errors
    /// See [`ObjectStore::create`].
    fn read_now(&self, ino: Ino, offset: u64, bytes: &mut [u8]) -> Result<Option<usize>> {
        self.read_at(ino, offset, bytes).map(Some)
    }

    /// The file of an object, for somebody who reads and writes it without this store. `None` if there is no file, or
    /// if objects are not files of the system.
    ///
    /// # Errors
    /// See [`ObjectStore::create`].
    fn file(&self, _ino: Ino) -> Result<Option<Arc<File>>> {
        Ok(None)
    }

    /// Writes at `offset`, all or an error.
    ///
    /// # Errors
    /// See [`ObjectStore::create`].
    fn write_at(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Sets the size.
    ///
    /// # Errors
    /// See [`ObjectStore::create`].
    fn truncate(&self, ino: Ino, size: u64) -> Result<()>;

    /// Allocates, punches or zeroes a range, with the mode of `fallocate`.
    ///
    /// # Errors
    /// See [`ObjectStore::create`].
    fn allocate(&self, ino: Ino, mode: i32, offset: u64, bytes: u64) -> Result<()>;

    /// The next place with data, or without, as for `lseek` with `SEEK_DATA` and `SEEK_HOLE`.
    ///
    /// # Errors
    /// `ENXIO` if there is none; see [`ObjectStore::create`].
    fn seek(&self, ino: Ino, offset: u64, is_hole: bool) -> Result<u64>;

    /// The attributes of the file; `None` if there is no file.
    ///
    /// # Errors
    /// See [`ObjectStore::create`].
    fn attributes(&self, ino: Ino) -> Result<Option<ObjectAttributes>>;

    /// Sets the time of change.
    ///
    /// # Errors
    /// See [`ObjectStore::create`].
    fn set_mtime(&self, ino: Ino, mtime: Time) -> Result<()>;

    /// Makes the object's bytes and its size durable, and its name if this process created it. A name that a killed
    /// process left needs an [`ObjectStore::sync_all`].
    ///
    /// # Errors
    /// See [`ObjectStore::create`].
    fn sync(&self, ino: Ino) -> Result<()>;

    /// Makes everything durable that was done to any object, by an earlier process too: bytes, names, removals.
    ///
    /// # Errors
    /// See [`ObjectStore::create`]. The next [`ObjectStore::sync`] of an object that has lost bytes fails, too.
    fn sync_all(&self) -> Result<()>;

    /// Removes the file of an object; nothing happens if there is none.
    ///
    /// # Errors
    /// See [`ObjectStore::create`].
    fn remove(&self, ino: Ino) -> Result<()>;

    /// The numbers of all objects that have a file, in any order.
    ///
    /// # Errors
    /// See [`ObjectStore::create`].
    fn list(&self) -> Result<Vec<Ino>>;

    /// How much room there is.
    ///
    /// # Errors
    /// See [`ObjectStore::create`].
    fn room(&self) -> Result<Room>;
}
