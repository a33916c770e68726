//! [`Lmdb`]: LMDB 0.9.70, a B+ tree in a memory map, compiled in.
//!
//! It has no log, no memtable and no compaction: a put is a write transaction of its own, of which there is one at a
//! time, and its cache is the page cache. Without `sync` in the settings the environment is opened with `MDB_NOSYNC`:
//! a commit is handed to the operating system, as other engines' buffered writes are, but a power cut may then damage
//! the whole database and not only the last writes. With `sync`, every commit is durable: LMDB's own default.

#![expect(unsafe_code, reason = "maps a file, whose content must not be changed behind the map")]

use crate::description_builder::DescriptionBuilder;
use crate::syncs::Since;
use heed::types::Bytes;
use heed::{Env, EnvFlags, EnvOpenOptions, WithTls};
use std::ops::Bound;
use std::path::Path;
use thalweg_bench::engine::{Counters, Description, Engine, Factory, Session};
use thalweg_bench::{Compression, Error, Result, Settings};

const NAME: &str = "lmdb";
/// Of the sources that `heed` carries: `MDB_VERSION_*` in `lmdb.h`.
const VERSION: &str = "0.9.70";
/// The largest database: address space only, nothing is allocated for it.
const MAP_BYTES: usize = 1 << 40;
const READERS_MAX: u32 = 1024;

type Table = heed::Database<Bytes, Bytes>;

/// Opens LMDB environments.
pub struct Lmdb;

struct Opened {
    environment: Env<WithTls>,
    table: Table,
    durable: bool,
    description: Description,
    syncs: Since,
}

impl Factory for Lmdb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, settings: &Settings) -> Result<()> {
        if settings.partitions.is_some_and(|partitions| partitions > 1) {
            return Err(Error::Usage("LMDB has one writer, however many databases: choose one partition".into()));
        }
        if let Some(compression @ (Compression::Lz4 | Compression::Snappy)) = settings.compression {
            let name = format!("{compression:?}").to_lowercase();
            return Err(Error::Usage(format!("LMDB cannot compress: choose none, not {name}")));
        }
        Ok(())
    }

    fn open(&self, path: &Path, settings: &Settings, splits: &[Vec<u8>]) -> Result<Box<dyn Engine>> {
        self.check(settings)?;
        if !splits.is_empty() {
            return Err(Error::Usage("LMDB has one writer, however many databases: choose one partition".into()));
        }
        let syncs = Since::now();
        let settings = settings.alike(None);
        let environment = environment(path, settings.sync).map_err(|error| refused("open", error))?;
        let table = table(&environment).map_err(|error| refused("open", error))?;
        let description = description(&settings).build(NAME, VERSION);
        Ok(Box::new(Opened { environment, table, durable: settings.sync, description, syncs }))
    }
}

fn environment(path: &Path, durable: bool) -> heed::Result<Env<WithTls>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_readers(READERS_MAX);
    if !durable {
        // SAFETY: what `MDB_NOSYNC` gives up is what the machine's failure leaves; no process sees less for it.
        unsafe { options.flags(EnvFlags::NO_SYNC) };
    }
    // SAFETY: the directory is this run's alone, on a local disk; nothing else writes the file or its lock file.
    unsafe { options.open(path) }
}

fn table(environment: &Env<WithTls>) -> heed::Result<Table> {
    let mut transaction = environment.write_txn()?;
    let table = environment.create_database(&mut transaction, None)?;
    transaction.commit()?;
    Ok(table)
}

fn description(settings: &Settings) -> DescriptionBuilder {
    let mut description = DescriptionBuilder::default();
    description.taken("flags", if settings.sync { "none: every commit is durable" } else { "MDB_NOSYNC" });
    description.taken("map size", MAP_BYTES);
    description.taken("put", "one write transaction");
    description.taken("get", "one read transaction");
    description.taken("cache", "the page cache");
    description.ignored("memtable_bytes", settings.memtable_bytes);
    description.ignored("memtables_max", settings.memtables_max);
    description.ignored("table_bytes", settings.table_bytes);
    description.ignored("cache_bytes", settings.cache_bytes);
    description.ignored("filter_bits_per_key", settings.filter_bits_per_key);
    description.ignored("background_jobs", settings.background_jobs);
    description.ignored("level0_trigger", settings.level0_trigger);
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
    description.terms(settings, "nothing is synced (MDB_NOSYNC): a power cut may damage the whole database");
    description.term("memory", "none of its own: the page cache, and what is mapped of it counts as resident");
    description.term("tables", "none: one file, a B+ tree, no compression");
    description
}

impl Engine for Opened {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Caller(self)))
    }

    fn persist(&self) -> Result<()> {
        self.environment.force_sync().map_err(|error| refused("sync", error))
    }

    /// There is nothing to flush and nothing to compact: it is settled after every commit.
    fn settle(&self) -> Result<bool> {
        Ok(true)
    }

    /// The meta page of a durable commit is written through a file opened with `O_DSYNC`: a sync, but no call of one,
    /// so it is not counted.
    fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.syncs.add_to(&mut counters);
        counters
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.persist()?;
        self.environment.prepare_for_closing().wait();
        Ok(())
    }
}

struct Caller<'a>(&'a Opened);

impl Caller<'_> {
    fn write(&self, sync: bool, change: impl FnOnce(&Table, &mut heed::RwTxn) -> heed::Result<()>) -> heed::Result<()> {
        let Opened { environment, table, durable, .. } = self.0;
        let mut transaction = environment.write_txn()?;
        change(table, &mut transaction)?;
        transaction.commit()?;
        if sync && !durable { environment.force_sync() } else { Ok(()) }
    }
}

impl Session for Caller<'_> {
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.write(sync, |table, transaction| table.put(transaction, key, value)).map_err(|error| refused("put", error))
    }

    fn put_batch(&mut self, entries: &[(Vec<u8>, Vec<u8>)], sync: bool) -> Result<()> {
        let put = |table: &Table, transaction: &mut heed::RwTxn| {
            entries.iter().try_for_each(|(key, value)| table.put(transaction, key, value))
        };
        self.write(sync, put).map_err(|error| refused("put", error))
    }

    fn remove(&mut self, key: &[u8], sync: bool) -> Result<()> {
        let remove = |table: &Table, transaction: &mut heed::RwTxn| table.delete(transaction, key).map(drop);
        self.write(sync, remove).map_err(|error| refused("remove", error))
    }

    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Opened { environment, table, .. } = self.0;
        let transaction = environment.read_txn().map_err(|error| refused("get", error))?;
        match table.get(&transaction, key).map_err(|error| refused("get", error))? {
            Some(found) => {
                value(found);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn scan(&mut self, from: &[u8], entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let Opened { environment, table, .. } = self.0;
        let transaction = environment.read_txn().map_err(|error| refused("scan", error))?;
        // LMDB has no empty key, also not to start from.
        let first = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        let range = (first, Bound::Unbounded);
        for next in table.range(&transaction, &range).map_err(|error| refused("scan", error))? {
            let (key, value) = next.map_err(|error| refused("scan", error))?;
            if !entry(key, value) {
                break;
            }
        }
        Ok(())
    }
}

fn refused(operation: &'static str, error: heed::Error) -> Error {
    Error::engine(NAME, operation, error)
}
