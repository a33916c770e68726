//! [`Thalweg`]: the engine of this project, through its public interface only.

use super::directory_client::DirectoryClient;
use super::f_hashes::{f_hash_counters, f_hash_gauges};
use super::ignored::ignored;
use super::terms::terms;
use super::translation::{durability, refused};
use super::tree_shape::shaped;
use super::{Counters, Description, Engine, Factory, Session, Syncs};
use crate::error::{Error, Result};
use crate::settings::{
    self, Backend, Compression, FastTierForms, FastTierMode, Io, Scheduling, Settings, Structures, TableIo, Tuning,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg::{
    CompactionScheduling, Database, DirectoryKeyspace, DirectoryStructures, DurabilityBackend, FastTier, Keyspace,
    StallStatistics, Statistics,
};

const KEYSPACE: &str = "bench";

/// The size of the f-cache in the paper (PHAT-4).
const F_CACHE_BYTES: u64 = 1 << 30;

/// The longest time that an otherwise idle database may take to remove the files of replaced tables.
const REMOVALS_TIME_MAX: Duration = Duration::from_secs(5);

/// Opens [Thalweg](thalweg) databases.
pub struct Thalweg;

struct Opened {
    database: Database,
    keyspace: Space,
    description: Description,
}

struct Client {
    database: Database,
    keyspace: Keyspace,
}

/// Where the records are.
enum Space {
    Ordered(Keyspace),
    Directory(DirectoryKeyspace),
}

impl Factory for Thalweg {
    fn name(&self) -> &'static str {
        "thalweg"
    }

    fn check(&self, settings: &Settings) -> Result<()> {
        let builder = configure(Path::new(""), &settings.resolved())?;
        builder.validate().map_err(|error| Error::Usage(format!("engine thalweg: {error}")))
    }

    fn open(&self, path: &Path, settings: &Settings, splits: &[Vec<u8>]) -> Result<Box<dyn Engine>> {
        let settings = settings.resolved();
        let (database, description) = Thalweg::open_database(path, &settings)?;
        let keyspace = match settings.keyspace {
            Some(settings::Keyspace::Directory) => {
                let keyspace = database.directory_keyspace(KEYSPACE);
                Space::Directory(keyspace.map_err(|error| refused("open", error))?)
            }
            _ => Space::Ordered(ordered(&database, splits)?),
        };
        Ok(Box::new(Opened { database, keyspace, description }))
    }
}

impl Thalweg {
    /// Opens the database in `path` with these settings, for measurements other than of keys and values.
    ///
    /// # Errors
    /// `Usage` for a setting that is out of range; the engine's.
    pub fn open_database(path: &Path, settings: &Settings) -> Result<(Database, Description)> {
        let settings = settings.resolved();
        let builder = configure(path, &settings)?;
        let told: BTreeMap<String, String> =
            builder.described().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let database = builder.open().map_err(|error| refused("open", error))?;
        let description = Description {
            name: "thalweg".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            terms: terms(&settings, &told),
            settings: told,
            ignored: ignored(&settings),
        };
        Ok((database, description))
    }
}

/// Opens or creates the ordered keyspace, with partitions cut at `splits`.
fn ordered(database: &Database, splits: &[Vec<u8>]) -> Result<Keyspace> {
    match database.existing_keyspace(KEYSPACE).map_err(|error| refused("open", error))? {
        Some(keyspace) => Ok(keyspace),
        None => {
            let splits: Vec<&[u8]> = splits.iter().map(Vec::as_slice).collect();
            database.create_keyspace(KEYSPACE, &splits).map_err(|error| refused("create a keyspace", error))
        }
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

/// The builder for these settings.
fn configure(path: &Path, settings: &Settings) -> Result<thalweg::Builder> {
    let mut builder = Database::builder(path);
    if let Some(bytes) = settings.memtable_bytes {
        builder = builder.memtable_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    if let Some(memtables) = settings.memtables_max {
        builder = builder.sealed_memtables_max(memtables.saturating_sub(1).max(1) as usize);
    }
    if let Some(bytes) = settings.table_bytes {
        builder = builder.table_bytes(bytes);
    }
    // The engine's default depends on the machine's memory, and applies only with the tuning `own`.
    let alike = (settings.tuning == Tuning::Default).then_some(128 << 20);
    if let Some(bytes) = settings.cache_bytes.or(alike) {
        builder = builder.block_cache_bytes(bytes);
    }
    if let Some(bits) = settings.filter_bits_per_key {
        builder = builder.filter_bits_per_key(bits);
    }
    builder = match settings.compression {
        None => builder,
        Some(Compression::None) => builder.compression(thalweg::Compression::None),
        Some(Compression::Lz4) => builder.compression(thalweg::Compression::Lz4),
        Some(Compression::Snappy) => return Err(Error::Usage("thalweg has no Snappy; choose none or lz4".into())),
    };
    if let Some(jobs) = settings.background_jobs {
        // Flushes have a thread of their own.
        builder = builder.compaction_workers(jobs.saturating_sub(1).max(1) as usize);
    }
    if let Some(compactions) = settings.compactions_a_worker {
        builder = builder.compactions_a_worker(compactions as usize);
    }
    if let Some(depth) = settings.io_depth {
        builder = builder.io_depth(depth as usize);
    }
    if let Some(scheduling) = settings.scheduling {
        builder = builder.compaction_scheduling(match scheduling {
            Scheduling::PmBlade => CompactionScheduling::PmBlade,
            Scheduling::Coroutines => CompactionScheduling::Coroutines,
            Scheduling::Threads => CompactionScheduling::Threads,
        });
    }
    builder = builder.pin_compaction_workers(settings.pin_workers);
    builder = shaped(builder, settings);
    if settings.structures == Some(Structures::Paper) {
        let f_cache_bytes = settings.f_cache_bytes.unwrap_or(F_CACHE_BYTES);
        builder = builder.directory_structures(DirectoryStructures::Paper { f_cache_bytes });
    }
    Ok(configure_durability(configure_fast_tier(builder, path, settings), settings))
}

/// The counters of the fast tier, if there is one.
fn tier_counters(statistics: &Statistics) -> BTreeMap<String, u64> {
    let Some(tier) = &statistics.fast_tier else { return BTreeMap::new() };
    map(&[
        ("minor compactions", tier.minor_compactions),
        ("minor bytes", tier.minor_written_bytes),
        ("internal compactions", tier.internal_compactions),
        ("internal bytes", tier.internal_written_bytes),
        ("evictions", tier.evictions),
        ("evicted bytes", tier.evicted_bytes),
    ])
}

/// The settings of the fast tier.
fn configure_fast_tier(mut builder: thalweg::Builder, path: &Path, settings: &Settings) -> thalweg::Builder {
    if let Some(bytes) = settings.fast_tier_bytes {
        let in_files = || FastTier::Directory(path.join("fast"));
        builder = builder.fast_tier(if settings.fast_tier_files { in_files() } else { FastTier::Memory }, bytes);
    }
    if let Some(bytes) = settings.fast_tier_log_bytes {
        builder = builder.fast_tier_log_bytes_max(bytes);
    }
    if let Some(mode) = settings.fast_tier_mode {
        builder = builder.fast_tier_mode(match mode {
            FastTierMode::Ssd => thalweg::FastTierMode::Ssd,
            FastTierMode::P => thalweg::FastTierMode::P,
            FastTierMode::Pi => thalweg::FastTierMode::Pi,
            FastTierMode::Pic => thalweg::FastTierMode::Pic,
            FastTierMode::Full => thalweg::FastTierMode::Full,
            FastTierMode::Pm => thalweg::FastTierMode::Pm,
        });
    }
    if let Some(forms) = settings.fast_tier_forms {
        builder = builder.fast_tier_forms(match forms {
            FastTierForms::Sound => thalweg::FastTierForms::Sound,
            FastTierForms::Paper => thalweg::FastTierForms::Paper,
        });
    }
    builder
}

/// The settings of log and lineage.
fn configure_durability(mut builder: thalweg::Builder, settings: &Settings) -> thalweg::Builder {
    if let Some(milliseconds) = settings.log_sync_interval_ms {
        builder = builder.log_sync_interval((milliseconds > 0).then(|| Duration::from_millis(milliseconds)));
    }
    if let Some(table_io) = settings.table_io {
        builder = builder.table_writes(match table_io {
            TableIo::Cached => thalweg::TableWrites::PageCache,
            TableIo::Direct => thalweg::TableWrites::Direct,
        });
    }
    if let Some(io) = settings.io {
        builder = builder.io_uring(io == Io::Uring);
    }
    if let Some(backend) = settings.backend {
        builder = builder.backend(durability_backend(backend));
    }
    if let Some(milliseconds) = settings.settle_interval_ms {
        builder = builder.settle_interval(Duration::from_millis(milliseconds));
    }
    if let Some(microseconds) = settings.flush_delay_us {
        builder = builder.sync_delay(Duration::from_micros(microseconds));
    }
    builder
}

impl Engine for Opened {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let database = self.database.clone();
        Ok(match &self.keyspace {
            Space::Ordered(keyspace) => Box::new(Client { database, keyspace: keyspace.clone() }),
            Space::Directory(keyspace) => Box::new(DirectoryClient::new(database, keyspace.clone())),
        })
    }

    fn persist(&self) -> Result<()> {
        self.database.persist().map_err(|error| refused("persist", error))
    }

    fn settle(&self) -> Result<bool> {
        self.database.flush().map_err(|error| refused("flush", error))?;
        match self.keyspace {
            Space::Ordered(_) => self.database.wait_for_compactions(),
            // `tidy` waits until no directory is in several packs that a quiet database would merge.
            Space::Directory(_) => self.database.tidy(),
        }
        .map_err(|error| refused("wait for compactions", error))?;
        self.database.settle().map_err(|error| refused("settle", error))?;
        // The database removes the files of replaced tables at an even rate, over about a settle interval.
        let begun = Instant::now();
        while self.database.statistics().retained_bytes > 0 && begun.elapsed() < REMOVALS_TIME_MAX {
            std::thread::sleep(Duration::from_millis(20));
        }
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
                ("background reads", s.background_reads.count),
                ("background read ns", s.background_reads.total_ns),
                ("background writes", s.background_writes.count),
                ("background write ns", s.background_writes.total_ns),
                ("merge slices", s.merge_slices.count),
                ("merge ns", s.merge_slices.total_ns),
                ("gate waits", s.gate_waits),
                ("write queue waits", s.write_queue_waits),
                ("paced while idle ns", s.paced_while_idle_ns),
                ("compactions rested ns", s.compactions_rested_ns),
                ("tables written late", s.tables_written_late),
                ("tables never written", s.tables_never_written),
                ("settle rounds", s.settle_rounds),
                ("settle rounds for space", s.settle_rounds_for_space),
            ])
            .into_iter()
            .chain(tier_counters(&s))
            .chain(f_hash_counters(&s))
            .chain(s.paced.by_cause().map(|(cause, ns)| (format!("paced for {cause} ns"), ns)))
            .collect(),
        }
    }

    fn gauges(&self) -> BTreeMap<String, u64> {
        let s = self.database.statistics();
        let chains = &s.chains;
        let mut gauges = map(&[
            ("retained_bytes", s.retained_bytes),
            ("unsettled_edits", s.unsettled_edits),
            ("settle_lag_ms", s.settle_lag_ms),
            ("index_memory_bytes", s.index_memory_bytes),
            ("chain_memtables", chains.memtables),
            ("chain_bytes_mean", chains.bytes_mean as u64),
            ("chain_bytes_p50", chains.bytes_p50),
            ("chain_bytes_p99", chains.bytes_p99),
            ("chain_bytes_max", chains.bytes_max),
            ("chain_stages_mean_100", (chains.stages_mean * 100.0) as u64),
            ("chain_stages_max", chains.stages_max),
        ]);
        gauges.extend(f_hash_gauges(&s));
        for (level, (mean, max)) in chains.stage_bytes.iter().enumerate() {
            gauges.insert(format!("chain_level{level}_bytes_mean"), *mean as u64);
            gauges.insert(format!("chain_level{level}_bytes_max"), *max);
        }
        gauges
    }

    fn replaced_bytes(&self) -> Option<u64> {
        Some(self.database.statistics().retained_bytes)
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
        batch.commit_with(durability(sync)).map_err(|error| refused("put", error))
    }

    fn remove(&mut self, key: &[u8], sync: bool) -> Result<()> {
        self.keyspace.remove_with(key, durability(sync)).map_err(|error| refused("remove", error))
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

    fn compact(&mut self) -> Result<()> {
        self.keyspace.compact_range(..).map_err(|error| refused("compact", error))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Policy;

    fn told(settings: &Settings) -> BTreeMap<String, String> {
        let described = configure(Path::new(""), settings).unwrap().described();
        described.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    #[test]
    fn what_other_engines_get_by_default_is_what_thalweg_has() {
        let own = told(&Settings::default().resolved());
        let mut alike = told(&Settings::default().alike(Some(Compression::Lz4)));
        // No other engine has a level 0 that becomes longer while nobody reads.
        assert_eq!(alike.insert("level0_patience".to_owned(), "24".to_owned()).as_deref(), Some("4"));
        assert_eq!(alike, own);
        assert_eq!(own["log_sync_interval"], "100ms");
        let vlsm = Settings { policy: Some(Policy::Vlsm), ..Settings::default() };
        assert_eq!(told(&vlsm.alike(Some(Compression::Lz4))), told(&vlsm.resolved()));
    }

    #[test]
    fn the_terms_say_what_a_power_cut_takes() {
        let durability = |settings: &Settings| terms(settings, &told(&settings.resolved()))["durability"].clone();
        assert!(durability(&Settings::default()).contains("every 100ms"));
        let paper = Settings { tuning: Tuning::Paper, ..Settings::default() };
        assert!(durability(&paper).contains("not synced by the clock"));
        assert!(durability(&Settings { sync: true, ..paper.clone() }).contains("before it returns"));
        assert!(durability(&Settings { sync: true, backend: Some(Backend::None), ..paper }).contains("may lose"));
    }

    #[test]
    fn settings_out_of_range_are_refused_without_a_database() {
        let refused = |settings: Settings| match Thalweg.check(&settings) {
            Err(Error::Usage(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(refused(Settings { growth_factor: Some(1), ..Settings::default() }).contains("growth_factor"));
        assert!(refused(Settings { settle_interval_ms: Some(0), ..Settings::default() }).contains("settle_interval"));
        let snappy = Settings { compression: Some(Compression::Snappy), ..Settings::default() };
        assert!(refused(snappy).contains("Snappy"));
        Thalweg.check(&Settings::default()).unwrap();
    }
}
