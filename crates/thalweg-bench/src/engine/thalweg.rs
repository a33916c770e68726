//! [`Thalweg`]: the engine of this project, through its public interface only.

use super::{Counters, Description, Engine, Factory, Session, Syncs};
use crate::error::{Error, Result};
use crate::settings::{Backend, Compression, Overlap, Policy, Settings, TableIo};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use thalweg::{CompactionPolicy, Database, Durability, DurabilityBackend, Keyspace, StallStatistics};

const KEYSPACE: &str = "bench";

/// Opens [Thalweg](thalweg) databases.
pub struct Thalweg;

struct Opened {
    database: Database,
    keyspace: Keyspace,
    description: Description,
}

struct Client {
    database: Database,
    keyspace: Keyspace,
}

impl Factory for Thalweg {
    fn name(&self) -> &'static str {
        "thalweg"
    }

    fn open(&self, path: &Path, settings: &Settings, splits: &[Vec<u8>]) -> Result<Box<dyn Engine>> {
        let settings = settings.resolved();
        let (builder, told) = configure(path, &settings)?;
        let database = builder.open().map_err(|error| refused("open", error))?;
        let keyspace = match database.existing_keyspace(KEYSPACE).map_err(|error| refused("open", error))? {
            Some(keyspace) => keyspace,
            None => {
                let splits: Vec<&[u8]> = splits.iter().map(Vec::as_slice).collect();
                database.create_keyspace(KEYSPACE, &splits).map_err(|error| refused("create a keyspace", error))?
            }
        };
        let description = Description {
            name: "thalweg".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            settings: told,
            ignored: ignored(&settings),
        };
        Ok(Box::new(Opened { database, keyspace, description }))
    }
}

fn durability_backend(backend: Backend) -> DurabilityBackend {
    match backend {
        Backend::SettleRounds => DurabilityBackend::SettleRounds,
        Backend::SyncEachFile => DurabilityBackend::SyncEachFile,
        Backend::Paper => DurabilityBackend::Paper,
        Backend::None => DurabilityBackend::None,
    }
}

/// `None`: the engine's own default.
fn compaction_policy(settings: &Settings) -> Option<CompactionPolicy> {
    let CompactionPolicy::Vlsm { phi, overlap, debt_bytes } = CompactionPolicy::VLSM else { return None };
    Some(match settings.policy? {
        Policy::Leveled => CompactionPolicy::Leveled,
        Policy::Vlsm => CompactionPolicy::Vlsm {
            phi: settings.phi.map_or(phi, u64::from),
            overlap: match settings.overlap {
                Some(Overlap::Count) => thalweg::Overlap::Count,
                Some(Overlap::Ratio) => thalweg::Overlap::Ratio,
                None => overlap,
            },
            debt_bytes: settings.debt_bytes.unwrap_or(debt_bytes),
        },
    })
}

/// Settings that are given and have no meaning for the policy.
fn ignored(settings: &Settings) -> Vec<String> {
    let given = match settings.policy {
        Some(Policy::Vlsm) => vec![("level1_bytes", settings.level1_bytes.is_some())],
        _ => vec![
            ("phi", settings.phi.is_some()),
            ("overlap", settings.overlap.is_some()),
            ("debt_bytes", settings.debt_bytes.is_some()),
        ],
    };
    given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name.to_owned()).collect()
}

/// The builder for these settings, and the settings as they were taken.
fn configure(path: &Path, settings: &Settings) -> Result<(thalweg::Builder, BTreeMap<String, String>)> {
    let mut told = BTreeMap::new();
    let mut tell = |name: &str, value: String| told.insert(name.to_owned(), value);
    let mut builder = Database::builder(path);
    if let Some(bytes) = settings.memtable_bytes {
        builder = builder.memtable_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
        tell("memtable_bytes", bytes.to_string());
    }
    if let Some(memtables) = settings.memtables_max {
        let sealed = memtables.saturating_sub(1).max(1);
        builder = builder.sealed_memtables_max(sealed as usize);
        tell("sealed_memtables_max", sealed.to_string());
    }
    if let Some(bytes) = settings.table_bytes {
        builder = builder.table_bytes(bytes);
        tell("table_bytes", bytes.to_string());
    }
    if let Some(bytes) = settings.cache_bytes {
        builder = builder.block_cache_bytes(bytes);
        tell("block_cache_bytes", bytes.to_string());
    }
    if let Some(bits) = settings.filter_bits_per_key {
        builder = builder.filter_bits_per_key(bits);
        tell("filter_bits_per_key", bits.to_string());
    }
    if let Some(compression) = settings.compression {
        let chosen = match compression {
            Compression::None => thalweg::Compression::None,
            Compression::Lz4 => thalweg::Compression::Lz4,
            Compression::Snappy => return Err(Error::Usage("thalweg has no Snappy; choose none or lz4".into())),
        };
        builder = builder.compression(chosen);
        tell("compression", format!("{compression:?}").to_lowercase());
    }
    if let Some(jobs) = settings.background_jobs {
        // Flushes have a thread of their own.
        let workers = jobs.saturating_sub(1).max(1);
        builder = builder.compaction_workers(workers as usize);
        tell("compaction_workers", workers.to_string());
    }
    if let Some(tables) = settings.level0_trigger {
        builder = builder.level0_trigger(tables as usize);
        tell("level0_trigger", tables.to_string());
    }
    if let Some(bytes) = settings.level1_bytes {
        builder = builder.level1_bytes(bytes);
        tell("level1_bytes", bytes.to_string());
    }
    if let Some(factor) = settings.growth_factor {
        builder = builder.growth_factor(u64::from(factor));
        tell("growth_factor", factor.to_string());
    }
    if let Some(partitions) = settings.partitions_max {
        builder = builder.partitions_max(partitions as usize);
        tell("partitions_max", partitions.to_string());
    }
    if let Some(policy) = compaction_policy(settings) {
        builder = builder.compaction_policy(policy);
        tell("compaction_policy", format!("{policy:?}"));
    }
    builder = configure_durability(builder, settings, &mut told);
    Ok((builder, told))
}

/// The settings of log and lineage.
fn configure_durability(
    mut builder: thalweg::Builder,
    settings: &Settings,
    told: &mut BTreeMap<String, String>,
) -> thalweg::Builder {
    let mut tell = |name: &str, value: String| told.insert(name.to_owned(), value);
    if let Some(milliseconds) = settings.log_sync_interval_ms {
        builder = builder.log_sync_interval((milliseconds > 0).then(|| Duration::from_millis(milliseconds)));
        tell("log_sync_interval", if milliseconds > 0 { format!("{milliseconds} ms") } else { "none".into() });
    }
    if let Some(table_io) = settings.table_io {
        let writes = match table_io {
            TableIo::Cached => thalweg::TableWrites::PageCache,
            TableIo::Direct => thalweg::TableWrites::Direct,
        };
        builder = builder.table_writes(writes);
        tell("table_writes", format!("{writes:?}"));
    }
    if let Some(backend) = settings.backend {
        builder = builder.backend(durability_backend(backend));
        tell("backend", format!("{backend:?}"));
    }
    if let Some(milliseconds) = settings.settle_interval_ms {
        builder = builder.settle_interval(Duration::from_millis(milliseconds));
        tell("settle_interval", format!("{milliseconds} ms"));
    }
    if let Some(microseconds) = settings.flush_delay_us {
        builder = builder.sync_delay(Duration::from_micros(microseconds));
        tell("sync_delay", format!("{microseconds} µs"));
    }
    builder
}

impl Engine for Opened {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Client { database: self.database.clone(), keyspace: self.keyspace.clone() }))
    }

    fn persist(&self) -> Result<()> {
        self.database.persist().map_err(|error| refused("persist", error))
    }

    fn settle(&self) -> Result<bool> {
        self.database.flush().map_err(|error| refused("flush", error))?;
        self.database.wait_for_compactions().map_err(|error| refused("wait for compactions", error))?;
        self.database.settle().map_err(|error| refused("settle", error))?;
        Ok(true)
    }

    fn counters(&self) -> Counters {
        let s = self.database.statistics();
        let stalls = |figure: fn(&StallStatistics) -> u64| {
            s.stalls.iter().map(|stall| (stall.cause.to_owned(), figure(stall))).collect()
        };
        Counters {
            written_bytes: map(&[
                ("log", s.log_written_bytes),
                ("log preparation", s.log_prepared_bytes),
                ("flush", s.flush_written_bytes),
                ("compaction", s.compaction_written_bytes),
                ("manifest", s.manifest_written_bytes),
            ]),
            read_bytes: map(&[("compaction", s.compaction_read_bytes)]),
            syncs: Some(Syncs {
                count: s.log_syncs + s.table_syncs + s.manifest_syncs + s.directory_syncs,
                total_ns: Some(s.syncs_ns),
                waited_for: Some(s.syncs_waited_for),
            }),
            syncs_by_kind: map(&[
                ("log", s.log_syncs),
                ("table", s.table_syncs),
                ("manifest", s.manifest_syncs),
                ("directory", s.directory_syncs),
            ]),
            stall_ns: stalls(|stall| stall.total_ns),
            stall_waits: stalls(|stall| stall.count),
            stalls_over_1ms: stalls(|stall| stall.over_1ms),
            other: map(&[
                ("flushes", s.flushes),
                ("compactions", s.compactions),
                ("subtasks", s.subtasks),
                ("trivial moves", s.trivial_moves),
                ("splits", s.splits),
                ("merges", s.merges),
                ("cache hits", s.cache_hits),
                ("cache misses", s.cache_misses),
                ("mapped reads", s.mapped_reads),
                ("direct reads", s.direct_reads),
                ("overlapped reads", s.overlapped_reads),
                ("filter checks", s.filter_checks),
                ("filter negatives", s.filter_negatives),
                ("good tables", s.tables_good),
                ("poor tables", s.tables_poor),
                ("poor picks", s.picks_poor),
                ("settle rounds", s.settle_rounds),
                ("settle rounds for space", s.settle_rounds_for_space),
            ]),
        }
    }

    fn gauges(&self) -> BTreeMap<String, u64> {
        let s = self.database.statistics();
        let chains = &s.chains;
        let mut gauges = map(&[
            ("retained_bytes", s.retained_bytes),
            ("unsettled_edits", s.unsettled_edits),
            ("settle_lag_ms", s.settle_lag_ms),
            ("chain_memtables", chains.memtables),
            ("chain_bytes_mean", chains.bytes_mean as u64),
            ("chain_bytes_p50", chains.bytes_p50),
            ("chain_bytes_p99", chains.bytes_p99),
            ("chain_bytes_max", chains.bytes_max),
            ("chain_stages_mean_100", (chains.stages_mean * 100.0) as u64),
            ("chain_stages_max", chains.stages_max),
        ]);
        for (level, (mean, max)) in chains.stage_bytes.iter().enumerate() {
            gauges.insert(format!("chain_level{level}_bytes_mean"), *mean as u64);
            gauges.insert(format!("chain_level{level}_bytes_max"), *max);
        }
        gauges
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.database.close().map_err(|error| refused("close", error))
    }
}

impl Session for Client {
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.keyspace.insert_with(key, value, durability(sync)).map_err(|error| refused("put", error))
    }

    fn put_batch(&mut self, entries: &[(Vec<u8>, Vec<u8>)], sync: bool) -> Result<()> {
        let mut batch = self.database.batch();
        for (key, value) in entries {
            batch.insert(&self.keyspace, key, value).map_err(|error| refused("put", error))?;
        }
        batch.durability(durability(sync));
        batch.commit().map_err(|error| refused("put", error))
    }

    fn remove(&mut self, key: &[u8], sync: bool) -> Result<()> {
        if !sync {
            return self.keyspace.remove(key).map_err(|error| refused("remove", error));
        }
        let mut batch = self.database.batch();
        batch.remove(&self.keyspace, key).map_err(|error| refused("remove", error))?;
        batch.durability(Durability::Sync);
        batch.commit().map_err(|error| refused("remove", error))
    }

    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self.keyspace.get(key).map_err(|error| refused("get", error))? {
            Some(found) => {
                value(&found);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn multi_get(&mut self, keys: &[Vec<u8>], value: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let values = self.keyspace.multi_get(keys).map_err(|error| refused("multi_get", error))?;
        values.iter().flatten().for_each(|found| value(found));
        Ok(values.iter().flatten().count() as u64)
    }

    fn scan(&mut self, from: &[u8], entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        for next in self.keyspace.range(from..) {
            let (key, value) = next.map_err(|error| refused("scan", error))?;
            if !entry(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}

/// Numbers by their names.
fn map(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()
}

fn durability(sync: bool) -> Durability {
    if sync { Durability::Sync } else { Durability::Buffered }
}

fn refused(operation: &'static str, error: thalweg::Error) -> Error {
    Error::engine("thalweg", operation, error)
}
