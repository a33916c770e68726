//! [`LevelDb`]: LevelDB 1.23, through the C interface of the system's library.
//!
//! It has one background thread, two memtables, and levels whose sizes are compiled in; it has no column families, so
//! partitions are refused.
//!
//! In reading order: `native` (the C interface), `shape` (which level is due by LevelDB's own rule), `settle` (waits
//! until none is), `volume` (the rows of a file system in it).

mod native;
mod settle;
mod shape;
mod volume;

pub use volume::open_rows;

use crate::description_builder::{DescriptionBuilder, UNSYNCED};
use crate::syncs::Since;
use native::{Client, Database, Library, Options};
use std::ffi::c_int;
use std::fmt::Display;
use std::path::Path;
use thalweg_bench::engine::{Counters, Description, Engine, Factory, Session};
use thalweg_bench::{Compression, Error, Result, Settings};

const NAME: &str = "leveldb";
const LIBRARIES: [&str; 3] = ["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"];

/// Opens LevelDB databases.
pub struct LevelDb;

struct Opened {
    database: Database,
    description: Description,
    syncs: Since,
}

fn load() -> Result<Library> {
    Library::load(&LIBRARIES).map_err(|error| {
        Error::engine(NAME, "load its library", format!("{error}; run `peers/fetch`, or install LevelDB 1.23"))
    })
}

impl Factory for LevelDb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, settings: &Settings) -> Result<()> {
        if settings.partitions.is_some_and(|partitions| partitions > 1) {
            return Err(Error::Usage("LevelDB has no column families: choose one partition".into()));
        }
        configure(&settings.alike(Some(Compression::Snappy))).map(drop)
    }

    fn open(&self, path: &Path, settings: &Settings, splits: &[Vec<u8>]) -> Result<Box<dyn Engine>> {
        if !splits.is_empty() {
            return Err(Error::Usage("LevelDB has no column families: choose one partition".into()));
        }
        let syncs = Since::now();
        let library = load()?;
        let (options, description) = configure(&settings.alike(Some(Compression::Snappy)))?;
        let database = Database::open(library, path, &options).map_err(|error| refused("open", error))?;
        Ok(Box::new(Opened { database, description: description.build(NAME, library.version()), syncs }))
    }
}

/// LevelDB's options for these settings, and their description.
fn configure(settings: &Settings) -> Result<(Options, DescriptionBuilder)> {
    let mut description = DescriptionBuilder::default();
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let compression = match settings.compression {
        Some(Compression::Lz4) => return Err(Error::Usage("LevelDB has no LZ4; choose none or snappy".into())),
        Some(Compression::Snappy) => Some(1),
        Some(Compression::None) => Some(0),
        None => None,
    };
    let options = Options {
        // LevelDB clips these two: to 64 KiB and 1 GiB, and to 1 MiB and 1 GiB (`db/db_impl.cc`: `SanitizeOptions`).
        write_buffer_size: settings.memtable_bytes.map(|bytes| size(bytes.clamp(64 << 10, 1 << 30))),
        max_file_size: settings.table_bytes.map(|bytes| size(bytes.clamp(1 << 20, 1 << 30))),
        block_cache_bytes: settings.cache_bytes.map(size),
        bloom_bits: settings.filter_bits_per_key.map(|bits| c_int::try_from(bits).unwrap_or(c_int::MAX)),
        compression,
    };
    describe_setting(&mut description, "write_buffer_size", options.write_buffer_size);
    describe_setting(&mut description, "max_file_size", options.max_file_size);
    describe_setting(&mut description, "block_cache", options.block_cache_bytes.map(|bytes| format!("LRU {bytes}")));
    describe_setting(
        &mut description,
        "filter_policy",
        options.bloom_bits.map(|bits| format!("Bloom {bits} bits a key")),
    );
    describe_setting(
        &mut description,
        "compression",
        settings.compression.map(|codec| format!("{codec:?}").to_lowercase()),
    );
    description.taken("level 1", "10 MiB, compiled in");
    description.taken("growth", "10, compiled in");
    description.taken("level 0", "4 files start a compaction, 8 slow writes down, 12 stop them, compiled in");
    description.taken("background threads", "1, compiled in");
    description.taken("memtables", "2, compiled in");
    description.ignored("memtables_max", settings.memtables_max);
    description.ignored("background_jobs", settings.background_jobs);
    description.ignored("level0_trigger", settings.level0_trigger.filter(|trigger| *trigger != 4));
    description.ignored("level1_bytes", settings.level1_bytes);
    description.ignored("growth_factor", settings.growth_factor);
    description.ignored("log_sync_interval_ms", settings.log_sync_interval_ms.filter(|interval| *interval > 0));
    description.ignored("backend", settings.backend);
    description.ignored("settle_interval_ms", settings.settle_interval_ms);
    description.ignored("flush_delay_us", settings.flush_delay_us);
    description.ignored("io", settings.io);
    description.ignored("table_io", settings.table_io);
    description.ignored("policy", settings.policy);
    description.ignored("phi", settings.phi);
    description.ignored("overlap", settings.overlap);
    description.ignored("debt_bytes", settings.debt_bytes);
    description.terms(settings, UNSYNCED);
    Ok((options, description))
}

fn describe_setting(description: &mut DescriptionBuilder, name: &str, value: Option<impl Display>) {
    if let Some(value) = value {
        description.taken(name, value);
    }
}

impl Engine for Opened {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self.database.client()))
    }

    /// LevelDB cannot sync its log but with a write, and that leaves out an earlier log whose memtable is not flushed
    /// yet; so the memtable is flushed, which syncs the table.
    fn persist(&self) -> Result<()> {
        settle::flush(&self.database);
        // The flush tells no error; after one every write is refused.
        self.database.client().put_batch(&[], true).map_err(|message| refused("sync the log", message))
    }

    fn settle(&self) -> Result<bool> {
        settle::settle(&self.database).map_err(|error| refused("compact", error))?;
        Ok(true)
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.syncs.add_to(&mut counters);
        let statistics = self.database.property("leveldb.stats");
        if let Some((read, written)) = statistics.as_deref().and_then(shape::transferred) {
            counters.read_bytes.insert("compaction".to_owned(), read);
            counters.written_bytes.insert("flush and compaction".to_owned(), written);
        }
        counters
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}

impl Session for Client<'_> {
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        Client::put(self, key, value, sync).map_err(|error| refused("put", error))
    }

    fn put_batch(&mut self, entries: &[(Vec<u8>, Vec<u8>)], sync: bool) -> Result<()> {
        Client::put_batch(self, entries, sync).map_err(|error| refused("put", error))
    }

    fn remove(&mut self, key: &[u8], sync: bool) -> Result<()> {
        Client::remove(self, key, sync).map_err(|error| refused("remove", error))
    }

    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Client::get(self, key, value).map_err(|error| refused("get", error))
    }

    fn scan(&mut self, from: &[u8], entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        Client::scan(self, from, entry).map_err(|error| refused("scan", error))
    }
}

fn refused(operation: &'static str, error: String) -> Error {
    Error::engine(NAME, operation, error)
}
