//! The rows of a `thalweg-fs` volume in an engine that has one ordered key space: `TableFS`' design, with the volume
//! above it.
//!
//! - `key.rs`: the keys of entries and of other rows.
//! - `store.rs`: [`OrderedStore`], the volume's `MetaStore` on an [`OrderedEngine`].
//! - `open.rs`: [`open`], a volume on an engine by name.
//!
//! An engine adapter implements [`OrderedReader`] and [`OrderedEngine`].

mod key;
mod open;
mod store;

pub use open::{STORES, Store, open};
pub use store::OrderedStore;

use thalweg::Slice;

/// A change of one row.
pub struct Change<'a> {
    /// Its key.
    pub key: Vec<u8>,
    /// The row; `None` removes it.
    pub row: Option<&'a [u8]>,
}

/// Reads rows in the order of their keys: those of a database as they are, or as they were at one moment.
pub trait OrderedReader: Send + Sync {
    /// The row at a key.
    ///
    /// # Errors
    /// The engine's message, as for every call.
    fn get(&self, key: &[u8]) -> Result<Option<Slice>, String>;

    /// A cursor at the first row whose key is not below `from`.
    fn cursor(&self, from: &[u8]) -> Box<dyn Cursor + '_>;
}

/// The key of a row, and the row.
pub type Row<'a> = (&'a [u8], &'a [u8]);

/// A place among the rows.
pub trait Cursor {
    /// The key and the row at this place; `None`: there are no more.
    ///
    /// # Errors
    /// See [`OrderedReader::get`].
    fn row(&self) -> Result<Option<Row<'_>>, String>;

    /// Goes to the next row.
    fn advance(&mut self);
}

/// An engine with one ordered key space.
pub trait OrderedEngine: OrderedReader + 'static {
    /// The rows as they are now, whatever is written later.
    fn snapshot(&self) -> Box<dyn OrderedReader + '_>;

    /// Applies changes in their order, all or none. Their log is not synced.
    ///
    /// # Errors
    /// See [`OrderedReader::get`].
    fn write(&self, changes: &[Change<'_>]) -> Result<(), String>;

    /// Makes the log of all that was written durable.
    ///
    /// # Errors
    /// See [`OrderedReader::get`].
    fn sync(&self) -> Result<(), String>;

    /// Flushes memtables and waits until no compaction is due.
    ///
    /// # Errors
    /// See [`OrderedReader::get`].
    fn settle(&self) -> Result<(), String>;
}
