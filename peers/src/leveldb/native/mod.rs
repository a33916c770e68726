//! LevelDB's C interface (`leveldb/c.h`): the few functions that are needed, and safe types over them.
//!
//! Invariants: every pointer comes from the library and is destroyed once, by the type that holds it; a [`Client`] and
//! what it makes live no longer than their [`Database`]. The database may be used by many threads at once, a client by
//! one. What the options name (cache, filter policy) lives as long as the database.
//!
//! - `rows.rs`: [`RowDatabase`], snapshots and cursors, as the rows of a file system need them.

#![expect(unsafe_code, reason = "calls LevelDB through its C interface")]

mod rows;

pub use rows::RowDatabase;

use crate::library::{self, c_bytes, c_path, functions, message, slice};
use std::ffi::{CString, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::OnceLock;

enum Db {}
enum OptionSet {}
enum Cache {}
enum Filter {}
enum ReadOptions {}
enum WriteOptions {}
enum Batch {}
enum Iterator {}
enum Snapshot {}

functions!(Functions, "leveldb_", {
    open(*const OptionSet, *const c_char, *mut *mut c_char) -> *mut Db;
    close(*mut Db);
    free(*mut c_void);
    major_version() -> c_int;
    minor_version() -> c_int;
    options_create() -> *mut OptionSet;
    options_destroy(*mut OptionSet);
    options_set_create_if_missing(*mut OptionSet, c_uchar);
    options_set_write_buffer_size(*mut OptionSet, usize);
    options_set_max_file_size(*mut OptionSet, usize);
    options_set_cache(*mut OptionSet, *mut Cache);
    options_set_filter_policy(*mut OptionSet, *mut Filter);
    options_set_compression(*mut OptionSet, c_int);
    cache_create_lru(usize) -> *mut Cache;
    cache_destroy(*mut Cache);
    filterpolicy_create_bloom(c_int) -> *mut Filter;
    filterpolicy_destroy(*mut Filter);
    readoptions_create() -> *mut ReadOptions;
    readoptions_destroy(*mut ReadOptions);
    readoptions_set_snapshot(*mut ReadOptions, *const Snapshot);
    create_snapshot(*mut Db) -> *const Snapshot;
    release_snapshot(*mut Db, *const Snapshot);
    writeoptions_create() -> *mut WriteOptions;
    writeoptions_destroy(*mut WriteOptions);
    writeoptions_set_sync(*mut WriteOptions, c_uchar);
    put(*mut Db, *const WriteOptions, *const c_char, usize, *const c_char, usize, *mut *mut c_char);
    delete(*mut Db, *const WriteOptions, *const c_char, usize, *mut *mut c_char);
    get(*mut Db, *const ReadOptions, *const c_char, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
    writebatch_create() -> *mut Batch;
    writebatch_destroy(*mut Batch);
    writebatch_clear(*mut Batch);
    writebatch_put(*mut Batch, *const c_char, usize, *const c_char, usize);
    writebatch_delete(*mut Batch, *const c_char, usize);
    write(*mut Db, *const WriteOptions, *mut Batch, *mut *mut c_char);
    create_iterator(*mut Db, *const ReadOptions) -> *mut Iterator;
    iter_destroy(*mut Iterator);
    iter_seek(*mut Iterator, *const c_char, usize);
    iter_next(*mut Iterator);
    iter_valid(*const Iterator) -> c_uchar;
    iter_key(*const Iterator, *mut usize) -> *const c_char;
    iter_value(*const Iterator, *mut usize) -> *const c_char;
    iter_get_error(*const Iterator, *mut *mut c_char);
    compact_range(*mut Db, *const c_char, usize, *const c_char, usize);
    property_value(*mut Db, *const c_char) -> *mut c_char;
});

/// The loaded library.
#[derive(Clone, Copy)]
pub struct Library {
    functions: &'static Functions,
}

impl Library {
    /// Loads the first of these that is there; once loaded it stays, whatever is asked for later.
    pub fn load(names: &[&str]) -> Result<Library, String> {
        static LOADED: OnceLock<Result<Functions, String>> = OnceLock::new();
        let loaded = LOADED.get_or_init(|| {
            let mut errors = Vec::new();
            for name in names {
                match library::load(name) {
                    Ok(library) => return Functions::find(Box::leak(Box::new(library))),
                    Err(error) => errors.push(error),
                }
            }
            Err(errors.join("; "))
        });
        loaded.as_ref().map(|functions| Library { functions }).map_err(Clone::clone)
    }

    /// Its version: `1.23`.
    pub fn version(self) -> String {
        // SAFETY: the functions take nothing.
        unsafe { format!("{}.{}", (self.functions.major_version)(), (self.functions.minor_version)()) }
    }
}

/// What differs from LevelDB's defaults.
#[derive(Default)]
pub struct Options {
    /// `write_buffer_size`
    pub write_buffer_size: Option<usize>,
    /// `max_file_size`
    pub max_file_size: Option<usize>,
    /// The capacity of the block cache.
    pub block_cache_bytes: Option<usize>,
    /// Bits a key of the Bloom filters; 0: none.
    pub bloom_bits: Option<c_int>,
    /// 0: none, 1: Snappy
    pub compression: Option<c_int>,
}

/// An open database.
pub struct Database {
    f: &'static Functions,
    db: *mut Db,
    cache: Option<*mut Cache>,
    filter: Option<*mut Filter>,
}

// SAFETY: LevelDB's databases may be used by any thread (`leveldb/db.h`).
unsafe impl Send for Database {}
// SAFETY: as above: by many at once.
unsafe impl Sync for Database {}

impl Database {
    /// Opens the database in `path`, and creates it if it is missing.
    pub fn open(library: Library, path: &Path, options: &Options) -> Result<Database, String> {
        let f = library.functions;
        let path = c_path(path)?;
        let mut error = null_mut();
        // SAFETY: the options are new, go to their own setters and are copied by the database; cache and filter policy
        // live until the database was closed.
        unsafe {
            let set = (f.options_create)();
            (f.options_set_create_if_missing)(set, 1);
            options.write_buffer_size.inspect(|bytes| (f.options_set_write_buffer_size)(set, *bytes));
            options.max_file_size.inspect(|bytes| (f.options_set_max_file_size)(set, *bytes));
            options.compression.inspect(|kind| (f.options_set_compression)(set, *kind));
            let cache = options.block_cache_bytes.map(|bytes| (f.cache_create_lru)(bytes));
            cache.inspect(|cache| (f.options_set_cache)(set, *cache));
            let bits = options.bloom_bits.filter(|bits| *bits > 0);
            let filter = bits.map(|bits| (f.filterpolicy_create_bloom)(bits));
            filter.inspect(|filter| (f.options_set_filter_policy)(set, *filter));
            let db = (f.open)(set, path.as_ptr(), &mut error);
            (f.options_destroy)(set);
            let database = Database { f, db, cache, filter };
            message(error, f.free).map_or(Ok(database), Err)
        }
    }

    /// A client for one thread.
    pub fn client(&self) -> Client<'_> {
        let f = self.f;
        // SAFETY: all of them are new, and destroyed with the client.
        unsafe {
            let synced = (f.writeoptions_create)();
            (f.writeoptions_set_sync)(synced, 1);
            Client {
                database: self,
                read: (f.readoptions_create)(),
                buffered: (f.writeoptions_create)(),
                synced,
                batch: (f.writebatch_create)(),
            }
        }
    }

    /// Compacts what lies between the two keys, after it flushed the memtable.
    pub fn compact_range(&self, from: &[u8], to: &[u8]) {
        let ((from, from_bytes), (to, to_bytes)) = (c_bytes(from), c_bytes(to));
        // SAFETY: the database is open; pointers and lengths are of live slices.
        unsafe { (self.f.compact_range)(self.db, from, from_bytes, to, to_bytes) }
    }

    /// A property of the database, as a text. `None`: it does not know it.
    pub fn property(&self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        // SAFETY: the database is open; the text belongs to the caller.
        unsafe { message((self.f.property_value)(self.db, name.as_ptr()), self.f.free) }
    }

    fn call(&self, call: impl FnOnce(*mut *mut c_char)) -> Result<(), String> {
        let mut error = null_mut();
        call(&mut error);
        // SAFETY: what LevelDB leaves there is null or a message that belongs to the caller.
        unsafe { message(error, self.f.free) }.map_or(Ok(()), Err)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: clients borrow the database and are gone; each pointer is destroyed once, what the database uses
        // after it. The database is null if it could not be opened.
        unsafe {
            if !self.db.is_null() {
                (self.f.close)(self.db);
            }
            self.cache.inspect(|cache| (self.f.cache_destroy)(*cache));
            self.filter.inspect(|filter| (self.f.filterpolicy_destroy)(*filter));
        }
    }
}

/// One thread's use of a database.
pub struct Client<'a> {
    database: &'a Database,
    read: *mut ReadOptions,
    buffered: *mut WriteOptions,
    synced: *mut WriteOptions,
    batch: *mut Batch,
}

impl Client<'_> {
    fn write_options(&self, sync: bool) -> *const WriteOptions {
        if sync { self.synced } else { self.buffered }
    }

    /// Writes one entry.
    pub fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> Result<(), String> {
        let Database { f, db, .. } = self.database;
        let ((key, key_bytes), (value, value_bytes)) = (c_bytes(key), c_bytes(value));
        let options = self.write_options(sync);
        // SAFETY: the database is open; pointers and lengths are of live slices.
        self.database.call(|error| unsafe { (f.put)(*db, options, key, key_bytes, value, value_bytes, error) })
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &[u8], sync: bool) -> Result<(), String> {
        let Database { f, db, .. } = self.database;
        let (key, key_bytes) = c_bytes(key);
        let options = self.write_options(sync);
        // SAFETY: the database is open; pointer and length are of a live slice.
        self.database.call(|error| unsafe { (f.delete)(*db, options, key, key_bytes, error) })
    }

    /// Writes entries, all or none.
    pub fn put_batch(&mut self, entries: &[(Vec<u8>, Vec<u8>)], sync: bool) -> Result<(), String> {
        let Database { f, db, .. } = self.database;
        let (batch, options) = (self.batch, self.write_options(sync));
        // SAFETY: the batch is this client's; it copies keys and values.
        unsafe { (f.writebatch_clear)(batch) };
        for (key, value) in entries {
            let ((key, key_bytes), (value, value_bytes)) = (c_bytes(key), c_bytes(value));
            // SAFETY: as above; pointers and lengths are of live slices.
            unsafe { (f.writebatch_put)(batch, key, key_bytes, value, value_bytes) };
        }
        // SAFETY: the database is open, the batch is this client's.
        self.database.call(|error| unsafe { (f.write)(*db, options, batch, error) })
    }

    /// Gives the value, which LevelDB copies. `false`: there is none.
    pub fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let Database { f, db, .. } = self.database;
        let (key, key_bytes) = c_bytes(key);
        let (mut found, mut bytes) = (null_mut(), 0);
        // SAFETY: the database is open; pointer and length are of a live slice.
        self.database.call(|error| unsafe { found = (f.get)(*db, self.read, key, key_bytes, &mut bytes, error) })?;
        if found.is_null() {
            return Ok(false);
        }
        // SAFETY: the copy belongs to the caller, and is freed after its last use.
        unsafe {
            value(slice(found, bytes));
            (f.free)(found.cast());
        }
        Ok(true)
    }

    /// Gives the entries from `from` on, until `entry` says `false`.
    pub fn scan(&mut self, from: &[u8], entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), String> {
        let Database { f, db, .. } = self.database;
        let (from, from_bytes) = c_bytes(from);
        // SAFETY: the iterator is destroyed before the database is closed; a key and a value lie still until it moves.
        self.database.call(|error| unsafe {
            let iterator = (f.create_iterator)(*db, self.read);
            (f.iter_seek)(iterator, from, from_bytes);
            while (f.iter_valid)(iterator) != 0 {
                let (mut key_bytes, mut value_bytes) = (0, 0);
                let key = (f.iter_key)(iterator, &mut key_bytes);
                let value = (f.iter_value)(iterator, &mut value_bytes);
                if !entry(slice(key, key_bytes), slice(value, value_bytes)) {
                    break;
                }
                (f.iter_next)(iterator);
            }
            (f.iter_get_error)(iterator, error);
            (f.iter_destroy)(iterator);
        })
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        let f = self.database.f;
        // SAFETY: each was made with this client, and is destroyed once.
        unsafe {
            (f.writebatch_destroy)(self.batch);
            (f.readoptions_destroy)(self.read);
            (f.writeoptions_destroy)(self.buffered);
            (f.writeoptions_destroy)(self.synced);
        }
    }
}
