//! [`Fjall`]: fjall 3.1, a log-structured merge tree in Rust, compiled in.
//!
//! Partitions are keyspaces of one database. A write is handed to the operating system before it returns, as with every
//! other engine here; a durable one is a batch with `PersistMode::SyncData`.

use crate::description_builder::{DescriptionBuilder, UNSYNCED};
use crate::partitions::Partitions;
use crate::syncs::Since;
use ::fjall::compaction::Leveled;
use ::fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use ::fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_bench::engine::{Counters, Description, Engine, Factory, Session};
use thalweg_bench::{Compression, Error, Result, Settings};

const NAME: &str = "fjall";
/// The minor version that is compiled in: the crate does not tell its own.
const VERSION: &str = "3.1";
/// How long its workers must have had nothing to do before no more is expected of them.
const QUIET: Duration = Duration::from_millis(500);
/// Work that is queued for so long without change is not done any more: a worker has failed.
const STUCK: Duration = Duration::from_secs(300);
/// fjall's defaults, which the size of level 1 follows from.
const TABLE_BYTES: u64 = 64 << 20;
const LEVEL0_TRIGGER: u8 = 4;

/// Opens fjall databases.
pub struct Fjall;

struct Opened {
    database: Database,
    keyspaces: Vec<Keyspace>,
    partitions: Partitions,
    description: Description,
    syncs: Since,
}

impl Factory for Fjall {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, settings: &Settings) -> Result<()> {
        configure(&settings.alike(Some(Compression::Lz4))).map(drop)
    }

    fn open(&self, path: &Path, settings: &Settings, splits: &[Vec<u8>]) -> Result<Box<dyn Engine>> {
        let syncs = Since::now();
        let settings = settings.alike(Some(Compression::Lz4));
        let partitions = Partitions::new(splits)?;
        let (options, mut description) = configure(&settings)?;
        let mut builder = Database::builder(path);
        if let Some(bytes) = settings.cache_bytes {
            builder = builder.cache_size(bytes);
            description.taken("cache_size", bytes);
        }
        if let Some(jobs) = settings.background_jobs {
            // One of several workers only flushes.
            let workers = jobs.max(1);
            builder = builder.worker_threads(workers as usize);
            description.taken("worker_threads", workers);
        }
        if let Some(compression) = settings.compression {
            builder = builder.journal_compression(kind(compression)?);
        }
        let database = builder.open().map_err(|error| refused("open", error))?;
        let found = database.keyspace_count();
        if found != 0 && found != partitions.count() {
            let wanted = partitions.count();
            return Err(refused("open", format!("it has {found} partitions, {wanted} are asked for")));
        }
        let mut keyspaces = Vec::with_capacity(partitions.count());
        for number in 0..partitions.count() {
            let keyspace = database.keyspace(&format!("partition-{number}"), || options.clone());
            keyspaces.push(keyspace.map_err(|error| refused("create a keyspace", error))?);
        }
        Ok(Box::new(Opened { database, keyspaces, partitions, description: description.build(NAME, VERSION), syncs }))
    }
}

fn kind(compression: Compression) -> Result<CompressionType> {
    match compression {
        Compression::None => Ok(CompressionType::None),
        Compression::Lz4 => Ok(CompressionType::Lz4),
        Compression::Snappy => Err(Error::Usage("fjall has no Snappy; choose none or lz4".into())),
    }
}

/// A keyspace's options for these settings, and their description.
fn configure(settings: &Settings) -> Result<(KeyspaceCreateOptions, DescriptionBuilder)> {
    let mut description = DescriptionBuilder::default();
    let mut options = KeyspaceCreateOptions::default();
    if let Some(bytes) = settings.memtable_bytes {
        options = options.max_memtable_size(bytes);
        description.taken("max_memtable_size", bytes);
    }
    if let Some(bits) = settings.filter_bits_per_key {
        let policy = match bits {
            0 => FilterPolicy::disabled(),
            bits => FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits as f32))),
        };
        options = options.filter_policy(policy);
        description.taken("filter_policy", format!("Bloom {bits} bits a key"));
    }
    if let Some(compression) = settings.compression {
        options = options.data_block_compression_policy(CompressionPolicy::all(kind(compression)?));
        description.taken("data_block_compression_policy", format!("{compression:?}").to_lowercase());
    }
    let mut levels = Leveled::default();
    let trigger = settings.level0_trigger.map(|trigger| u8::try_from(trigger).unwrap_or(u8::MAX));
    if let Some(trigger) = trigger {
        levels = levels.with_l0_threshold(trigger);
        description.taken("l0_threshold", trigger);
    }
    if let Some(bytes) = settings.table_bytes {
        levels = levels.with_table_target_size(bytes);
        description.taken("table_target_size", bytes);
    }
    if let Some(factor) = settings.growth_factor {
        levels = levels.with_level_ratio_policy(vec![factor as f32]);
        description.taken("level_ratio_policy", factor);
    }
    options = options.compaction_strategy(Arc::new(levels));
    let level1 = settings.table_bytes.unwrap_or(TABLE_BYTES) * u64::from(trigger.unwrap_or(LEVEL0_TRIGGER));
    description.taken("level 1", format!("{level1}: table_target_size times l0_threshold"));
    description.ignored("level1_bytes", settings.level1_bytes.filter(|bytes| *bytes != level1));
    description.taken("memtables", "writers wait at 4 sealed, compiled in");
    description.ignored("memtables_max", settings.memtables_max);
    description.taken("periodic log sync", "none; the log is synced when a memtable is sealed");
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

impl Opened {
    /// What changes while its workers get on.
    fn work(&self) -> (usize, usize) {
        let sealed = self.keyspaces.iter().map(Keyspace::sealed_memtable_count).sum();
        (self.database.compactions_completed(), sealed)
    }

    /// Whether no flush is queued, and no worker is at work.
    fn idle(&self) -> bool {
        let sealed: usize = self.keyspaces.iter().map(Keyspace::sealed_memtable_count).sum();
        sealed == 0 && self.database.outstanding_flushes() == 0 && self.database.active_compactions() == 0
    }
}

impl Engine for Opened {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Caller(self)))
    }

    fn persist(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(|error| refused("sync the log", error))
    }

    /// fjall cannot wait for compactions: a worker that ends one looks for the next only after another flush, so levels
    /// that are due stay due. The memtables are flushed, and its workers waited for until they have had nothing to do
    /// for half a second; what they leave is in none of its figures.
    fn settle(&self) -> Result<bool> {
        for keyspace in &self.keyspaces {
            // Not the call that waits: it waits for ever once a worker has failed.
            keyspace.rotate_memtable().map_err(|error| refused("flush", error))?;
        }
        let (mut busy, mut before) = (Instant::now(), self.work());
        let mut changed = busy;
        while busy.elapsed() < QUIET {
            std::thread::sleep(Duration::from_millis(5));
            let work = self.work();
            if work != before {
                (changed, before) = (Instant::now(), work);
            }
            if !self.idle() {
                busy = Instant::now();
            }
            busy = busy.max(changed);
            if changed.elapsed() > STUCK {
                let what = format!("work is queued and nothing changed for {} s", STUCK.as_secs());
                return Err(refused("settle", what));
            }
        }
        Ok(false)
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.syncs.add_to(&mut counters);
        let looked = u64::try_from(self.database.compactions_completed()).unwrap_or(u64::MAX);
        counters.other.insert("compaction attempts".to_owned(), looked);
        counters
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.persist()
    }
}

struct Caller<'a>(&'a Opened);

impl Caller<'_> {
    fn keyspace(&self, key: &[u8]) -> &Keyspace {
        &self.0.keyspaces[self.0.partitions.of(key)]
    }
}

impl Session for Caller<'_> {
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        if !sync {
            return self.keyspace(key).insert(key, value).map_err(|error| refused("put", error));
        }
        let mut batch = self.0.database.batch().durability(Some(PersistMode::SyncData));
        batch.insert(self.keyspace(key), key, value);
        batch.commit().map_err(|error| refused("put", error))
    }

    fn put_batch(&mut self, entries: &[(Vec<u8>, Vec<u8>)], sync: bool) -> Result<()> {
        let mut batch = self.0.database.batch();
        if sync {
            batch = batch.durability(Some(PersistMode::SyncData));
        }
        for (key, value) in entries {
            batch.insert(self.keyspace(key), key.as_slice(), value.as_slice());
        }
        batch.commit().map_err(|error| refused("put", error))
    }

    fn remove(&mut self, key: &[u8], sync: bool) -> Result<()> {
        if !sync {
            return self.keyspace(key).remove(key).map_err(|error| refused("remove", error));
        }
        let mut batch = self.0.database.batch().durability(Some(PersistMode::SyncData));
        batch.remove(self.keyspace(key), key);
        batch.commit().map_err(|error| refused("remove", error))
    }

    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self.keyspace(key).get(key).map_err(|error| refused("get", error))? {
            Some(found) => {
                value(&found);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn scan(&mut self, from: &[u8], entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        for keyspace in &self.0.keyspaces[self.0.partitions.of(from)..] {
            for next in keyspace.range(from..) {
                let (key, value) = next.into_inner().map_err(|error| refused("scan", error))?;
                if !entry(&key, &value) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn refused(operation: &'static str, error: impl std::fmt::Display) -> Error {
    Error::engine(NAME, operation, error)
}
