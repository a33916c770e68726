//! RocksDB's C interface (`rocksdb/c.h`): the few functions that are needed, and safe types over them.
//!
//! Invariants: every pointer comes from the library and is destroyed once, by the type that holds it; a [`Client`] and
//! what it makes live no longer than their [`Database`]. The database may be used by many threads at once, a client by
//! one.
//!
//! - `rows.rs`: [`RowDatabase`], snapshots and cursors, as the rows of a file system need them.

#![expect(unsafe_code, reason = "calls RocksDB through its C interface")]

mod rows;

pub use rows::RowDatabase;

use crate::library::{self, c_bytes, c_path, functions, message, slice};
use std::ffi::{CString, OsStr, c_char, c_double, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

enum Db {}
enum Family {}
enum OptionSet {}
enum TableOptions {}
enum Cache {}
enum Filter {}
enum ReadOptions {}
enum WriteOptions {}
enum Batch {}
enum Iterator {}
enum Pinned {}
enum WaitOptions {}
enum Snapshot {}

functions!(Functions, "rocksdb_", {
    open_column_families(*const OptionSet, *const c_char, c_int, *const *const c_char, *const *const OptionSet,
        *mut *mut Family, *mut *mut c_char) -> *mut Db;
    list_column_families(*const OptionSet, *const c_char, *mut usize, *mut *mut c_char) -> *mut *mut c_char;
    list_column_families_destroy(*mut *mut c_char, usize);
    column_family_handle_destroy(*mut Family);
    close(*mut Db);
    free(*mut c_void);
    options_create() -> *mut OptionSet;
    options_destroy(*mut OptionSet);
    options_set_create_if_missing(*mut OptionSet, c_uchar);
    options_set_create_missing_column_families(*mut OptionSet, c_uchar);
    options_set_write_buffer_size(*mut OptionSet, usize);
    options_set_max_write_buffer_number(*mut OptionSet, c_int);
    options_set_target_file_size_base(*mut OptionSet, u64);
    options_set_max_bytes_for_level_base(*mut OptionSet, u64);
    options_set_max_bytes_for_level_multiplier(*mut OptionSet, c_double);
    options_set_level_compaction_dynamic_level_bytes(*mut OptionSet, c_uchar);
    options_set_level0_file_num_compaction_trigger(*mut OptionSet, c_int);
    options_set_max_background_jobs(*mut OptionSet, c_int);
    options_set_compression(*mut OptionSet, c_int);
    options_set_use_direct_reads(*mut OptionSet, c_uchar);
    options_set_use_direct_io_for_flush_and_compaction(*mut OptionSet, c_uchar);
    options_set_block_based_table_factory(*mut OptionSet, *mut TableOptions);
    block_based_options_create() -> *mut TableOptions;
    block_based_options_destroy(*mut TableOptions);
    block_based_options_set_block_cache(*mut TableOptions, *mut Cache);
    block_based_options_set_filter_policy(*mut TableOptions, *mut Filter);
    cache_create_hyper_clock(usize, usize) -> *mut Cache;
    cache_destroy(*mut Cache);
    filterpolicy_create_bloom_full(c_double) -> *mut Filter;
    readoptions_create() -> *mut ReadOptions;
    readoptions_destroy(*mut ReadOptions);
    readoptions_set_snapshot(*mut ReadOptions, *const Snapshot);
    create_snapshot(*mut Db) -> *const Snapshot;
    release_snapshot(*mut Db, *const Snapshot);
    writeoptions_create() -> *mut WriteOptions;
    writeoptions_destroy(*mut WriteOptions);
    writeoptions_set_sync(*mut WriteOptions, c_uchar);
    put_cf(*mut Db, *const WriteOptions, *mut Family, *const c_char, usize, *const c_char, usize, *mut *mut c_char);
    delete_cf(*mut Db, *const WriteOptions, *mut Family, *const c_char, usize, *mut *mut c_char);
    get_pinned_cf(*mut Db, *const ReadOptions, *mut Family, *const c_char, usize, *mut *mut c_char) -> *mut Pinned;
    pinnableslice_value(*const Pinned, *mut usize) -> *const c_char;
    pinnableslice_destroy(*mut Pinned);
    writebatch_create() -> *mut Batch;
    writebatch_destroy(*mut Batch);
    writebatch_clear(*mut Batch);
    writebatch_put_cf(*mut Batch, *mut Family, *const c_char, usize, *const c_char, usize);
    writebatch_delete_cf(*mut Batch, *mut Family, *const c_char, usize);
    write(*mut Db, *const WriteOptions, *mut Batch, *mut *mut c_char);
    create_iterator_cf(*mut Db, *const ReadOptions, *mut Family) -> *mut Iterator;
    iter_destroy(*mut Iterator);
    iter_seek(*mut Iterator, *const c_char, usize);
    iter_next(*mut Iterator);
    iter_valid(*const Iterator) -> c_uchar;
    iter_key(*const Iterator, *mut usize) -> *const c_char;
    iter_value(*const Iterator, *mut usize) -> *const c_char;
    iter_get_error(*const Iterator, *mut *mut c_char);
    flush_wal(*mut Db, c_uchar, *mut *mut c_char);
    wait_for_compact(*mut Db, *mut WaitOptions, *mut *mut c_char);
    wait_for_compact_options_create() -> *mut WaitOptions;
    wait_for_compact_options_destroy(*mut WaitOptions);
    wait_for_compact_options_set_flush(*mut WaitOptions, c_uchar);
    compact_range_cf(*mut Db, *mut Family, *const c_char, usize, *const c_char, usize);
    property_value(*mut Db, *const c_char) -> *mut c_char;
});

/// The loaded library.
#[derive(Clone, Copy)]
pub struct Library {
    functions: &'static Functions,
}

impl Library {
    /// Loads it from there; once loaded it stays, whatever is asked for later.
    pub fn load(path: &OsStr) -> Result<Library, String> {
        static LOADED: OnceLock<Result<Functions, String>> = OnceLock::new();
        let loaded = LOADED.get_or_init(|| {
            let library = Box::leak(Box::new(library::load(path)?));
            Functions::find(library)
        });
        loaded.as_ref().map(|functions| Library { functions }).map_err(Clone::clone)
    }
}

/// What differs from RocksDB's defaults.
#[derive(Default)]
pub struct Options {
    /// `write_buffer_size`
    pub write_buffer_size: Option<usize>,
    /// `max_write_buffer_number`
    pub max_write_buffer_number: Option<c_int>,
    /// `target_file_size_base`
    pub target_file_size_base: Option<u64>,
    /// The capacity of one block cache of the kind `HyperClockCache`, for all column families.
    pub block_cache_bytes: Option<usize>,
    /// Bits a key of the Bloom filters; 0: none.
    pub bloom_bits: Option<f64>,
    /// 0: none, 1: Snappy, 4: LZ4
    pub compression: Option<c_int>,
    /// `max_background_jobs`
    pub max_background_jobs: Option<c_int>,
    /// `level0_file_num_compaction_trigger`
    pub level0_trigger: Option<c_int>,
    /// `max_bytes_for_level_base`
    pub level_base_bytes: Option<u64>,
    /// `max_bytes_for_level_multiplier`
    pub level_multiplier: Option<f64>,
    /// `level_compaction_dynamic_level_bytes`
    pub dynamic_level_bytes: Option<bool>,
    /// `use_direct_reads` and `use_direct_io_for_flush_and_compaction`
    pub direct_io: Option<bool>,
}

impl Options {
    /// The options as C has them; to be destroyed by the caller.
    fn build(&self, f: &Functions) -> *mut OptionSet {
        let set = |value: Option<usize>, with: unsafe extern "C" fn(*mut OptionSet, usize), to| {
            if let Some(value) = value {
                // SAFETY: `to` is the options that were created below.
                unsafe { with(to, value) }
            }
        };
        // SAFETY: the options are new and are passed to their own setters.
        unsafe {
            let options = (f.options_create)();
            (f.options_set_create_if_missing)(options, 1);
            (f.options_set_create_missing_column_families)(options, 1);
            set(self.write_buffer_size, f.options_set_write_buffer_size, options);
            self.max_write_buffer_number.inspect(|n| (f.options_set_max_write_buffer_number)(options, *n));
            self.target_file_size_base.inspect(|n| (f.options_set_target_file_size_base)(options, *n));
            self.compression.inspect(|n| (f.options_set_compression)(options, *n));
            self.max_background_jobs.inspect(|n| (f.options_set_max_background_jobs)(options, *n));
            self.level0_trigger.inspect(|n| (f.options_set_level0_file_num_compaction_trigger)(options, *n));
            self.level_base_bytes.inspect(|n| (f.options_set_max_bytes_for_level_base)(options, *n));
            self.level_multiplier.inspect(|n| (f.options_set_max_bytes_for_level_multiplier)(options, *n));
            self.dynamic_level_bytes
                .inspect(|on| (f.options_set_level_compaction_dynamic_level_bytes)(options, c_uchar::from(*on)));
            self.direct_io.inspect(|on| {
                (f.options_set_use_direct_reads)(options, c_uchar::from(*on));
                (f.options_set_use_direct_io_for_flush_and_compaction)(options, c_uchar::from(*on));
            });
            self.build_tables(f, options);
            options
        }
    }

    fn build_tables(&self, f: &Functions, options: *mut OptionSet) {
        // SAFETY: the options are alive; the table options, which the factory copies, and this handle of the cache,
        // which it shares, are destroyed once each. The filter policy belongs to the table options.
        unsafe {
            let tables = (f.block_based_options_create)();
            if let Some(bytes) = self.block_cache_bytes {
                // 0: the cache finds out itself how large an entry is.
                let cache = (f.cache_create_hyper_clock)(bytes, 0);
                (f.block_based_options_set_block_cache)(tables, cache);
                (f.cache_destroy)(cache);
            }
            if let Some(bits) = self.bloom_bits.filter(|bits| *bits > 0.0) {
                (f.block_based_options_set_filter_policy)(tables, (f.filterpolicy_create_bloom_full)(bits));
            }
            (f.options_set_block_based_table_factory)(options, tables);
            (f.block_based_options_destroy)(tables);
        }
    }
}

/// An open database with its column families.
pub struct Database {
    f: &'static Functions,
    db: *mut Db,
    families: Vec<*mut Family>,
}

// SAFETY: RocksDB's databases and column families may be used by any thread (`rocksdb/db.h`).
unsafe impl Send for Database {}
// SAFETY: as above: by many at once.
unsafe impl Sync for Database {}

impl Database {
    /// How many column families the database in `path` has. An error: there is none yet, or it cannot be read.
    pub fn count_families(library: Library, path: &Path) -> Result<usize, String> {
        let f = library.functions;
        let path = c_path(path)?;
        let (mut count, mut error) = (0, null_mut());
        // SAFETY: the options live through the call; the list is destroyed with the length it came with.
        unsafe {
            let options = (f.options_create)();
            let names = (f.list_column_families)(options, path.as_ptr(), &mut count, &mut error);
            (f.options_destroy)(options);
            match message(error, f.free) {
                Some(error) => Err(error),
                None => {
                    (f.list_column_families_destroy)(names, count);
                    Ok(count)
                }
            }
        }
    }

    /// Opens the database in `path` with the column family `default` and others, and creates what is missing.
    pub fn open(library: Library, path: &Path, options: &Options, families: usize) -> Result<Database, String> {
        let f = library.functions;
        let path = c_path(path)?;
        let names = family_names(families)?;
        let names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let count = c_int::try_from(families).map_err(|_| format!("{families} column families"))?;
        let mut handles = vec![null_mut(); families];
        let mut error = null_mut();
        let options = options.build(f);
        let each = vec![options.cast_const(); families];
        // SAFETY: the arrays have as many elements as `count` says; RocksDB copies the options.
        unsafe {
            let db = (f.open_column_families)(
                options,
                path.as_ptr(),
                count,
                names.as_ptr(),
                each.as_ptr(),
                handles.as_mut_ptr(),
                &mut error,
            );
            (f.options_destroy)(options);
            match message(error, f.free) {
                Some(error) => Err(error),
                None => Ok(Database { f, db, families: handles }),
            }
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

    /// Makes all that was written durable.
    pub fn sync_log(&self) -> Result<(), String> {
        // SAFETY: the database is open.
        self.call(|error| unsafe { (self.f.flush_wal)(self.db, 1, error) })
    }

    /// Flushes every memtable, and waits until no flush or compaction is due.
    pub fn wait_for_compactions(&self) -> Result<(), String> {
        // SAFETY: the database is open, and the options live through the call.
        self.call(|error| unsafe {
            let options = (self.f.wait_for_compact_options_create)();
            (self.f.wait_for_compact_options_set_flush)(options, 1);
            (self.f.wait_for_compact)(self.db, options, error);
            (self.f.wait_for_compact_options_destroy)(options);
        })
    }

    /// Compacts all of every column family; an error is not told.
    pub fn compact(&self) {
        for family in &self.families {
            // SAFETY: the database is open; without keys it is the whole family.
            unsafe { (self.f.compact_range_cf)(self.db, *family, null(), 0, null(), 0) }
        }
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
        // SAFETY: what RocksDB leaves there is null or a message that belongs to the caller.
        unsafe { message(error, self.f.free) }.map_or(Ok(()), Err)
    }
}

/// `default`, `partition-1`, `partition-2` …
fn family_names(count: usize) -> Result<Vec<CString>, String> {
    let name = |number| if number == 0 { "default".to_owned() } else { format!("partition-{number}") };
    (0..count).map(|number| CString::new(name(number)).map_err(|error| error.to_string())).collect()
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: clients borrow the database and are gone; each handle is destroyed once, before the database.
        unsafe {
            for family in &self.families {
                (self.f.column_family_handle_destroy)(*family);
            }
            (self.f.close)(self.db);
        }
    }
}

/// One thread's use of a database. Column families are numbered as they were opened.
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
    pub fn put(&mut self, family: usize, key: &[u8], value: &[u8], sync: bool) -> Result<(), String> {
        let Database { f, db, families } = self.database;
        let (key, key_bytes) = c_bytes(key);
        let (value, value_bytes) = c_bytes(value);
        let options = self.write_options(sync);
        // SAFETY: the database is open; pointers and lengths are of live slices.
        self.database.call(|error| unsafe {
            (f.put_cf)(*db, options, families[family], key, key_bytes, value, value_bytes, error)
        })
    }

    /// Removes a key.
    pub fn remove(&mut self, family: usize, key: &[u8], sync: bool) -> Result<(), String> {
        let Database { f, db, families } = self.database;
        let (key, key_bytes) = c_bytes(key);
        let options = self.write_options(sync);
        // SAFETY: the database is open; pointer and length are of a live slice.
        self.database.call(|error| unsafe { (f.delete_cf)(*db, options, families[family], key, key_bytes, error) })
    }

    /// Writes entries, each with its column family, all or none.
    pub fn put_batch<'e>(
        &mut self,
        entries: impl core::iter::Iterator<Item = (usize, &'e [u8], &'e [u8])>,
        sync: bool,
    ) -> Result<(), String> {
        let Database { f, db, families } = self.database;
        let (batch, options) = (self.batch, self.write_options(sync));
        // SAFETY: the batch is this client's; it copies keys and values.
        unsafe { (f.writebatch_clear)(batch) };
        for (family, key, value) in entries {
            let (key, key_bytes) = c_bytes(key);
            let (value, value_bytes) = c_bytes(value);
            // SAFETY: as above; pointers and lengths are of live slices.
            unsafe { (f.writebatch_put_cf)(batch, families[family], key, key_bytes, value, value_bytes) };
        }
        // SAFETY: the database is open, the batch is this client's.
        self.database.call(|error| unsafe { (f.write)(*db, options, batch, error) })
    }

    /// Gives the value, where it lies in the block cache if it does. `false`: there is none.
    pub fn get(&mut self, family: usize, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let Database { f, db, families } = self.database;
        let (key, key_bytes) = c_bytes(key);
        let mut pinned = null_mut();
        // SAFETY: the database is open; pointer and length are of a live slice.
        self.database.call(|error| unsafe {
            pinned = (f.get_pinned_cf)(*db, self.read, families[family], key, key_bytes, error);
        })?;
        if pinned.is_null() {
            return Ok(false);
        }
        let mut bytes = 0;
        // SAFETY: the value stays where it is until the pin is destroyed, which is after its last use.
        unsafe {
            let start = (f.pinnableslice_value)(pinned, &mut bytes);
            value(slice(start, bytes));
            (f.pinnableslice_destroy)(pinned);
        }
        Ok(true)
    }

    /// As [`Database::compact`].
    pub fn compact(&self) {
        self.database.compact();
    }

    /// Gives a column family's entries from `from` on, until `entry` says `false`. `false`: it did.
    pub fn scan(
        &mut self,
        family: usize,
        from: &[u8],
        entry: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<bool, String> {
        let Database { f, db, families } = self.database;
        let (from, from_bytes) = c_bytes(from);
        let mut more = true;
        // SAFETY: the iterator is destroyed before the database is closed; a key and a value lie still until it moves.
        self.database.call(|error| unsafe {
            let iterator = (f.create_iterator_cf)(*db, self.read, families[family]);
            (f.iter_seek)(iterator, from, from_bytes);
            while more && (f.iter_valid)(iterator) != 0 {
                let (mut key_bytes, mut value_bytes) = (0, 0);
                let key = (f.iter_key)(iterator, &mut key_bytes);
                let value = (f.iter_value)(iterator, &mut value_bytes);
                more = entry(slice(key, key_bytes), slice(value, value_bytes));
                if more {
                    (f.iter_next)(iterator);
                }
            }
            (f.iter_get_error)(iterator, error);
            (f.iter_destroy)(iterator);
        })?;
        Ok(more)
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
