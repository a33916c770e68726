//! [`MetaStore`]: where the rows of a volume are, as a trait, so that the file system runs on Thalweg and, to be
//! measured beside it, on other engines.
//!
//! - `batch.rs`: [`Batch`], the changes of one operation.
//! - `engine.rs`: [`EngineStore`], on a Thalweg database.
//!
//! A store promises this: a batch is applied whole or not at all; batches become durable in the order of their commits;
//! a read sees every batch that was committed before it began.

mod batch;
mod engine;

pub use batch::{Batch, Operation};
pub use engine::EngineStore;

use crate::error::Result;
use crate::row::Ino;
use thalweg::Slice;

/// The rows that are found by the number of an inode or a fixed key, in the order of their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Attributes of files with several names or none.
    Inodes,
    /// Bytes of files.
    Data,
    /// Extended attributes.
    Xattrs,
    /// Which objects have a file of their own.
    Objects,
    /// The work left for inodes without a name.
    Reclaim,
    /// The rows that exist once: superblock, counters.
    Volume,
}

impl Space {
    /// Every space.
    pub const ALL: [Space; 6] =
        [Space::Inodes, Space::Data, Space::Xattrs, Space::Objects, Space::Reclaim, Space::Volume];

    /// The name of the space, as that of a keyspace.
    pub fn name(self) -> &'static str {
        match self {
            Space::Inodes => "inodes",
            Space::Data => "data",
            Space::Xattrs => "xattrs",
            Space::Objects => "objects",
            Space::Reclaim => "reclaim",
            Space::Volume => "volume",
        }
    }
}

/// The name of the keyspace that has the entries of directories.
pub const NAMES: &str = "names";

/// A row of a directory that was listed.
pub struct Listed {
    /// Its name.
    pub name: Box<[u8]>,
    /// The row.
    pub row: Slice,
    /// Its place in the listing, from 3 to 2⁶³ − 2, ascending. A listing can begin after it.
    pub cursor: u64,
}

/// Rows of a directory.
pub type Listing<'a> = Box<dyn Iterator<Item = Result<Listed>> + 'a>;

/// Numbers of directories.
pub type Directories<'a> = Box<dyn Iterator<Item = Result<Ino>> + 'a>;

/// Rows of a space with their keys.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<(Slice, Slice)>> + 'a>;

/// The callback for a promise that is kept, or cannot be.
pub type WhenDurable = Box<dyn FnOnce(Result<()>) + Send>;

/// All that was committed before some moment.
pub trait Promise: Send + Sync {
    /// Whether no power cut can take it any more.
    fn is_durable(&self) -> bool;

    /// Makes it durable.
    ///
    /// # Errors
    /// Those of the store; then none of it is promised.
    fn wait(&self) -> Result<()>;

    /// Makes it durable in the background and then calls `done`: at once if it is durable, else on another thread.
    /// `done` must not block.
    fn when_durable(&self, done: WhenDurable);
}

/// Reads rows: those of a store as they are, or as they were at one moment.
pub trait RowReader: Send + Sync {
    /// The row of the entry `name` of a directory.
    ///
    /// # Errors
    /// `EIO`.
    fn entry(&self, directory: Ino, name: &[u8]) -> Result<Option<Slice>>;

    /// The rows of a directory, those after `cursor`; 0 begins at the first. All rows with one cursor come one after
    /// the other. About `wanted` of them will be taken.
    fn list(&self, directory: Ino, cursor: u64, wanted: usize) -> Listing<'_>;

    /// The numbers of the directories that have rows, ascending.
    fn directories(&self) -> Directories<'_>;

    /// The row at a key.
    ///
    /// # Errors
    /// `EIO`.
    fn row(&self, space: Space, key: &[u8]) -> Result<Option<Slice>>;

    /// The rows from the key `from` on, before the key `to`, as of one moment.
    fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Rows<'_>;
}

/// A store of the rows of a volume.
pub trait MetaStore: RowReader {
    /// The rows as they are now, whatever is written later.
    ///
    /// # Errors
    /// `EIO`.
    fn snapshot(&self) -> Result<Box<dyn RowReader + '_>>;

    /// Applies a batch.
    ///
    /// # Errors
    /// `ENOSPC`: nothing was written. `EROFS`, `EIO`.
    fn commit(&self, batch: &Batch<'_>) -> Result<()>;

    /// The promise of everything committed so far.
    ///
    /// # Errors
    /// `EROFS` or `EIO` when none of it can become durable.
    fn promise(&self) -> Result<Box<dyn Promise>>;

    /// Closes the store. Later calls fail.
    ///
    /// # Errors
    /// Those of the last sync.
    fn close(&self) -> Result<()>;
}
