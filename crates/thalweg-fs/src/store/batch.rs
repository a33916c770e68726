//! [`Batch`]: the changes of one operation, applied together or not at all.

use super::Space;
use crate::row::Ino;
use std::borrow::Cow;

/// A key of [`Space::Volume`] without a row.
const NEVER_THERE: &[u8] = b"never there";

/// A change of one row. A row that is put replaces the row at its key; `None` removes the row at the key.
#[derive(Debug)]
pub enum Operation<'a> {
    /// An entry of a directory.
    Entry {
        /// The directory.
        directory: Ino,
        /// The entry's name.
        name: &'a [u8],
        /// Its row.
        row: Option<Vec<u8>>,
    },
    /// A row of a space.
    Row {
        /// The space.
        space: Space,
        /// The row's key.
        key: Vec<u8>,
        /// The row.
        row: Option<Cow<'a, [u8]>>,
    },
}

/// The changes of one operation.
#[derive(Debug, Default)]
pub struct Batch<'a> {
    operations: Vec<Operation<'a>>,
    frees_space: bool,
}

impl<'a> Batch<'a> {
    /// An empty batch.
    pub fn new() -> Self {
        Batch::default()
    }

    /// The changes in their order. Of two changes of one row the later counts.
    pub fn operations(&self) -> &[Operation<'a>] {
        &self.operations
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Whether the batch makes room, so that a full disk must not refuse it.
    pub fn frees_space(&self) -> bool {
        self.frees_space
    }

    /// Says that the batch makes room.
    pub(crate) fn set_frees_space(&mut self) {
        self.frees_space = true;
    }

    /// Says that a full disk must not refuse the batch, because removals can only follow it. The engine takes such a
    /// batch only if it removes something.
    pub(crate) fn set_needs_no_room(&mut self) {
        self.remove(Space::Volume, NEVER_THERE);
        self.set_frees_space();
    }

    pub(crate) fn put_entry(&mut self, directory: Ino, name: &'a [u8], row: Vec<u8>) {
        self.operations.push(Operation::Entry { directory, name, row: Some(row) });
    }

    pub(crate) fn remove_entry(&mut self, directory: Ino, name: &'a [u8]) {
        self.operations.push(Operation::Entry { directory, name, row: None });
    }

    pub(crate) fn put(&mut self, space: Space, key: impl Into<Vec<u8>>, row: impl Into<Cow<'a, [u8]>>) {
        self.operations.push(Operation::Row { space, key: key.into(), row: Some(row.into()) });
    }

    pub(crate) fn remove(&mut self, space: Space, key: impl Into<Vec<u8>>) {
        self.operations.push(Operation::Row { space, key: key.into(), row: None });
    }
}
