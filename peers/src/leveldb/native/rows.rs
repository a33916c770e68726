//! [`RowDatabase`]: one ordered key space of LevelDB, with snapshots and cursors.
//!
//! Invariants: as in the module above; a [`View`] and a [`Place`] live no longer than their [`RowDatabase`], and a
//! place no longer than its view.

use super::{Batch, Database, Iterator, ReadOptions, Snapshot, WriteOptions};
use crate::library::{c_bytes, message, slice};
use crate::volume::{Change, Cursor, OrderedReader, Row};
use std::ptr::null_mut;
use thalweg::Slice;

/// A database whose rows may be read and written by many threads at once.
pub struct RowDatabase {
    database: Database,
    read: *mut ReadOptions,
    buffered: *mut WriteOptions,
    synced: *mut WriteOptions,
}

// SAFETY: the database may be used by any thread; the options are not changed while it lives.
unsafe impl Send for RowDatabase {}
// SAFETY: as above: by many at once.
unsafe impl Sync for RowDatabase {}

impl RowDatabase {
    /// The rows of a database.
    pub fn new(database: Database) -> RowDatabase {
        let f = database.f;
        // SAFETY: all of them are new, and destroyed with this value.
        unsafe {
            let synced = (f.writeoptions_create)();
            (f.writeoptions_set_sync)(synced, 1);
            RowDatabase { read: (f.readoptions_create)(), buffered: (f.writeoptions_create)(), synced, database }
        }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Applies changes, all or none.
    pub fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<(), String> {
        let batch = OwnedBatch::new(&self.database);
        for change in changes {
            batch.add(change);
        }
        let Database { f, db, .. } = &self.database;
        let options = if sync { self.synced } else { self.buffered };
        // SAFETY: the database is open, the batch is alive.
        self.database.call(|error| unsafe { (f.write)(*db, options, batch.batch, error) })
    }

    /// The rows as they are now.
    pub fn snapshot(&self) -> View<'_> {
        let Database { f, db, .. } = &self.database;
        // SAFETY: the database is open; the options are new. Both are given back with the view.
        unsafe {
            let (snapshot, read) = ((f.create_snapshot)(*db), (f.readoptions_create)());
            (f.readoptions_set_snapshot)(read, snapshot);
            View { rows: self, snapshot, read }
        }
    }

    fn cursor_with(&self, read: *const ReadOptions, from: &[u8]) -> Place<'_> {
        let Database { f, db, .. } = &self.database;
        let (from, from_bytes) = c_bytes(from);
        // SAFETY: the database is open, the options are alive; pointer and length are of a live slice.
        unsafe {
            let iterator = (f.create_iterator)(*db, read);
            (f.iter_seek)(iterator, from, from_bytes);
            Place { rows: self, iterator }
        }
    }

    fn get_with(&self, read: *const ReadOptions, key: &[u8]) -> Result<Option<Slice>, String> {
        let Database { f, db, .. } = &self.database;
        let (key, key_bytes) = c_bytes(key);
        let (mut found, mut bytes) = (null_mut(), 0);
        // SAFETY: the database is open; pointer and length are of a live slice.
        self.database.call(|error| unsafe { found = (f.get)(*db, read, key, key_bytes, &mut bytes, error) })?;
        if found.is_null() {
            return Ok(None);
        }
        // SAFETY: LevelDB's copy belongs to the caller, and is freed after it was copied.
        unsafe {
            let row = Slice::from(slice(found, bytes));
            (f.free)(found.cast());
            Ok(Some(row))
        }
    }
}

impl OrderedReader for RowDatabase {
    fn get(&self, key: &[u8]) -> Result<Option<Slice>, String> {
        self.get_with(self.read, key)
    }

    fn cursor(&self, from: &[u8]) -> Box<dyn Cursor + '_> {
        Box::new(self.cursor_with(self.read, from))
    }
}

impl Drop for RowDatabase {
    fn drop(&mut self) {
        let f = self.database.f;
        // SAFETY: each was made with this value, and is destroyed once.
        unsafe {
            (f.readoptions_destroy)(self.read);
            (f.writeoptions_destroy)(self.buffered);
            (f.writeoptions_destroy)(self.synced);
        }
    }
}

struct OwnedBatch<'a> {
    database: &'a Database,
    batch: *mut Batch,
}

impl<'a> OwnedBatch<'a> {
    fn new(database: &'a Database) -> Self {
        // SAFETY: it is new, and destroyed with this value.
        OwnedBatch { database, batch: unsafe { (database.f.writebatch_create)() } }
    }

    fn add(&self, change: &Change<'_>) {
        let f = self.database.f;
        let (key, key_bytes) = c_bytes(&change.key);
        // SAFETY: the batch is alive, and copies keys and rows; pointers and lengths are of live slices.
        unsafe {
            match change.row {
                Some(row) => {
                    let (row, row_bytes) = c_bytes(row);
                    (f.writebatch_put)(self.batch, key, key_bytes, row, row_bytes);
                }
                None => (f.writebatch_delete)(self.batch, key, key_bytes),
            }
        }
    }
}

impl Drop for OwnedBatch<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made with this value, and is destroyed once.
        unsafe { (self.database.f.writebatch_destroy)(self.batch) }
    }
}

/// The rows as they were at one moment.
pub struct View<'a> {
    rows: &'a RowDatabase,
    snapshot: *const Snapshot,
    read: *mut ReadOptions,
}

// SAFETY: snapshots may be read by any thread; the options are not changed while the view lives.
unsafe impl Send for View<'_> {}
// SAFETY: as above: by many at once.
unsafe impl Sync for View<'_> {}

impl OrderedReader for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Slice>, String> {
        self.rows.get_with(self.read, key)
    }

    fn cursor(&self, from: &[u8]) -> Box<dyn Cursor + '_> {
        Box::new(self.rows.cursor_with(self.read, from))
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        let Database { f, db, .. } = &self.rows.database;
        // SAFETY: cursors borrow the view and are gone; both were made with it, and are given back once.
        unsafe {
            (f.readoptions_destroy)(self.read);
            (f.release_snapshot)(*db, self.snapshot);
        }
    }
}

/// A place among the rows.
struct Place<'a> {
    rows: &'a RowDatabase,
    iterator: *mut Iterator,
}

impl Cursor for Place<'_> {
    fn row(&self) -> Result<Option<Row<'_>>, String> {
        let f = self.rows.database.f;
        let (mut key_bytes, mut row_bytes, mut error) = (0, 0, null_mut());
        // SAFETY: key and row lie still until the iterator moves, which borrows it mutably.
        unsafe {
            if (f.iter_valid)(self.iterator) == 0 {
                (f.iter_get_error)(self.iterator, &mut error);
                return message(error, f.free).map_or(Ok(None), Err);
            }
            let key = (f.iter_key)(self.iterator, &mut key_bytes);
            let row = (f.iter_value)(self.iterator, &mut row_bytes);
            Ok(Some((slice(key, key_bytes), slice(row, row_bytes))))
        }
    }

    fn advance(&mut self) {
        let f = self.rows.database.f;
        // SAFETY: the iterator is alive, and is at a row.
        unsafe {
            if (f.iter_valid)(self.iterator) != 0 {
                (f.iter_next)(self.iterator);
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made with this value, and is destroyed once, before the database is closed.
        unsafe { (self.rows.database.f.iter_destroy)(self.iterator) }
    }
}
