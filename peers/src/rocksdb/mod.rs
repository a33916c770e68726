//! [`RocksDb`]: RocksDB 11.8.1, through the C interface of the library that its Java package carries.
//!
//! Partitions are column families of one database. Bytes by cause are left out: RocksDB counts them only with its
//! statistics, which slow every operation, or rounds them to hundreds of megabytes.
//!
//! `native` has the C interface; `volume` has the rows of a file system in it.

mod native;
mod volume;

pub use volume::open_rows;

use crate::description_builder::{DescriptionBuilder, UNSYNCED};
use crate::partitions::Partitions;
use crate::syncs::Since;
use native::{Client, Database, Library, Options};
use std::collections::BTreeMap;
use std::ffi::{OsString, c_int};
use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};
use thalweg_bench::engine::{Counters, Description, Engine, Factory, Session};
use thalweg_bench::{Compression, Error, Result, Settings, TableIo};

const NAME: &str = "rocksdb";
/// Names the library instead of `lib/librocksdbjni-linux64.so`.
const LIBRARY: &str = "THALWEG_PEERS_ROCKSDB";

/// Opens RocksDB databases.
pub struct RocksDb;

struct Opened {
    database: Database,
    partitions: Partitions,
    description: Description,
    syncs: Since,
}

struct Caller<'a> {
    client: Client<'a>,
    partitions: &'a Partitions,
}

/// Where the library is looked for.
pub fn library_path() -> OsString {
    std::env::var_os(LIBRARY).unwrap_or_else(|| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("lib/librocksdbjni-linux64.so").into_os_string()
    })
}

fn load() -> Result<Library> {
    Library::load(&library_path()).map_err(|error| {
        let hint = format!("run `peers/fetch`, or name the library in {LIBRARY}");
        Error::engine(NAME, "load its library", format!("{error}; {hint}"))
    })
}

impl Factory for RocksDb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn open(&self, path: &Path, settings: &Settings, splits: &[Vec<u8>]) -> Result<Box<dyn Engine>> {
        let syncs = Since::now();
        let library = load()?;
        let partitions = Partitions::new(splits)?;
        let (options, description) = configure(&settings.alike(Some(Compression::Lz4)));
        if path.join("CURRENT").exists() {
            let found = Database::count_families(library, path).map_err(|error| refused("open", error))?;
            if found != partitions.count() {
                let wanted = partitions.count();
                return Err(refused("open", format!("it has {found} partitions, {wanted} are asked for")));
            }
        }
        let database =
            Database::open(library, path, &options, partitions.count()).map_err(|error| refused("open", error))?;
        let description = description.build(NAME, version(path).unwrap_or_else(|| "unknown".to_owned()));
        Ok(Box::new(Opened { database, partitions, description, syncs }))
    }
}

/// The version that RocksDB wrote at the head of its own journal: the C interface does not tell it.
fn version(path: &Path) -> Option<String> {
    let mut head = String::new();
    std::fs::File::open(path.join("LOG")).ok()?.take(4096).read_to_string(&mut head).ok()?;
    let line = head.lines().find_map(|line| line.split_once("RocksDB version: "))?;
    Some(line.1.trim().to_owned())
}

/// RocksDB's options for these settings, and their description.
fn configure(settings: &Settings) -> (Options, DescriptionBuilder) {
    let mut description = DescriptionBuilder::default();
    let small = |n: u32| c_int::try_from(n).unwrap_or(c_int::MAX);
    // Level 1 has the size that is asked for only if levels are sized from the top; by default RocksDB sizes them
    // from the bottom.
    let static_levels = settings.level1_bytes.is_some() || settings.growth_factor.is_some();
    let options = Options {
        write_buffer_size: settings.memtable_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        max_write_buffer_number: settings.memtables_max.map(small),
        target_file_size_base: settings.table_bytes,
        block_cache_bytes: settings.cache_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        bloom_bits: settings.filter_bits_per_key.map(f64::from),
        compression: settings.compression.map(|compression| match compression {
            Compression::None => 0,
            Compression::Snappy => 1,
            Compression::Lz4 => 4,
        }),
        max_background_jobs: settings.background_jobs.map(small),
        level0_trigger: settings.level0_trigger.map(small),
        level_base_bytes: settings.level1_bytes,
        level_multiplier: settings.growth_factor.map(f64::from),
        dynamic_level_bytes: static_levels.then_some(false),
        direct_io: settings.table_io.map(|table_io| table_io == TableIo::Direct),
    };
    describe_setting(&mut description, "write_buffer_size", options.write_buffer_size);
    describe_setting(&mut description, "max_write_buffer_number", options.max_write_buffer_number);
    describe_setting(&mut description, "target_file_size_base", options.target_file_size_base);
    describe_setting(
        &mut description,
        "block_cache",
        options.block_cache_bytes.map(|bytes| format!("HyperClockCache {bytes}")),
    );
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
    describe_setting(&mut description, "max_background_jobs", options.max_background_jobs);
    describe_setting(&mut description, "level0_file_num_compaction_trigger", options.level0_trigger);
    describe_setting(&mut description, "max_bytes_for_level_base", options.level_base_bytes);
    describe_setting(&mut description, "max_bytes_for_level_multiplier", options.level_multiplier);
    describe_setting(&mut description, "level_compaction_dynamic_level_bytes", options.dynamic_level_bytes);
    describe_setting(&mut description, "use_direct_reads, use_direct_io_for_flush_and_compaction", options.direct_io);
    // It can sync its log every given number of bytes, but never by the clock.
    description.ignored("backend", settings.backend);
    description.ignored("settle_interval_ms", settings.settle_interval_ms);
    description.ignored("flush_delay_us", settings.flush_delay_us);
    description.ignored("io", settings.io);
    description.ignored("policy", settings.policy);
    description.ignored("phi", settings.phi);
    description.ignored("overlap", settings.overlap);
    description.ignored("debt_bytes", settings.debt_bytes);
    match settings.log_sync_interval_ms {
        Some(0) | None => description.taken("periodic log sync", "none"),
        interval => description.ignored("log_sync_interval_ms", interval),
    }
    description.terms(settings, UNSYNCED);
    (options, description)
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
        Ok(Box::new(Caller { client: self.database.client(), partitions: &self.partitions }))
    }

    fn persist(&self) -> Result<()> {
        self.database.sync_log().map_err(|error| refused("sync the log", error))
    }

    fn settle(&self) -> Result<bool> {
        self.database.wait_for_compactions().map_err(|error| refused("wait for compactions", error))?;
        Ok(true)
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.syncs.add_to(&mut counters);
        let stall = self.database.property("rocksdb.dbstats").as_deref().and_then(stall_ns);
        counters.stall_ns.extend(stall.map(|ns| ("all causes".to_owned(), ns)));
        counters
    }

    /// The memory of indexes and filters. RocksDB tells it of one column family at a time, so not of partitions.
    fn gauges(&self) -> BTreeMap<String, u64> {
        let is_one = self.partitions.count() == 1;
        let told = is_one.then(|| self.database.property("rocksdb.estimate-table-readers-mem")).flatten();
        let bytes = told.and_then(|text| text.trim().parse().ok());
        bytes.into_iter().map(|bytes| ("index_memory_bytes".to_owned(), bytes)).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}

/// How long writes were stalled in all, from the line `Cumulative stall: 00:01:2.345 H:M:S, …`.
fn stall_ns(statistics: &str) -> Option<u64> {
    let time = statistics.lines().find_map(|line| line.strip_prefix("Cumulative stall: "))?;
    let mut parts = time.split_whitespace().next()?.split(':');
    let (hours, minutes) = (parts.next()?.parse::<f64>().ok()?, parts.next()?.parse::<f64>().ok()?);
    let seconds = parts.next()?.parse::<f64>().ok()?;
    // Milliseconds are all it tells.
    Some(((hours * 3600.0 + minutes * 60.0 + seconds) * 1e3).round() as u64 * 1_000_000)
}

impl Session for Caller<'_> {
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.client.put(self.partitions.of(key), key, value, sync).map_err(|error| refused("put", error))
    }

    fn put_batch(&mut self, entries: &[(Vec<u8>, Vec<u8>)], sync: bool) -> Result<()> {
        let entries = entries.iter().map(|(key, value)| (self.partitions.of(key), key.as_slice(), value.as_slice()));
        self.client.put_batch(entries, sync).map_err(|error| refused("put", error))
    }

    fn remove(&mut self, key: &[u8], sync: bool) -> Result<()> {
        self.client.remove(self.partitions.of(key), key, sync).map_err(|error| refused("remove", error))
    }

    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.client.get(self.partitions.of(key), key, value).map_err(|error| refused("get", error))
    }

    fn compact(&mut self) -> Result<()> {
        self.client.compact();
        Ok(())
    }

    fn scan(&mut self, from: &[u8], entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        for partition in self.partitions.of(from)..self.partitions.count() {
            if !self.client.scan(partition, from, entry).map_err(|error| refused("scan", error))? {
                break;
            }
        }
        Ok(())
    }
}

fn refused(operation: &'static str, error: String) -> Error {
    Error::engine(NAME, operation, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_stalls_is_read_in_milliseconds() {
        let text = "** DB Stats **\nUptime(secs): 1.0 total\nCumulative stall: 01:02:3.045 H:M:S, 0.0 percent\n";
        assert_eq!(stall_ns(text), Some((3600 + 120 + 3) * 1_000_000_000 + 45_000_000));
        assert_eq!(stall_ns("nothing"), None);
    }
}
