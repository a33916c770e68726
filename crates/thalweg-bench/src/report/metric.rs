//! [`Metric`]: each figure that tables, plots and comparisons show, computed from one run in one place.
//!
//! The costs of a step that writes are those of `Run::drained`, if the run has them: an engine that defers its
//! compactions has not avoided their cost. A figure that a run does not have is `None`, never 0.

use super::{Latency, Run, Usage, number};
use crate::workload::Class;

/// A point of a distribution of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th.
    P99,
    /// The 99.9th.
    P999,
    /// The 99.99th.
    P9999,
    /// The longest.
    Max,
}

impl Quantile {
    /// All, rising.
    pub const ALL: [Quantile; 6] =
        [Quantile::P50, Quantile::P90, Quantile::P99, Quantile::P999, Quantile::P9999, Quantile::Max];

    /// `P99.9`.
    pub fn name(self) -> &'static str {
        match self {
            Quantile::P50 => "P50",
            Quantile::P90 => "P90",
            Quantile::P99 => "P99",
            Quantile::P999 => "P99.9",
            Quantile::P9999 => "P99.99",
            Quantile::Max => "max",
        }
    }

    fn of(self, latency: &Latency) -> u64 {
        match self {
            Quantile::P50 => latency.p50_ns,
            Quantile::P90 => latency.p90_ns,
            Quantile::P99 => latency.p99_ns,
            Quantile::P999 => latency.p999_ns,
            Quantile::P9999 => latency.p9999_ns,
            Quantile::Max => latency.max_ns,
        }
    }
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Operations a second.
    Throughput,
    /// A latency, in nanoseconds.
    Latency(Class, Quantile),
    /// Processor time of an operation, user and kernel, in microseconds.
    Cpu,
    /// Bytes written to storage for an operation; [`WrittenBy`] is the counter.
    Written,
    /// Bytes written to storage for each byte of keys and values that was put.
    WriteAmplification,
    /// Reads of the block device for each read operation, of steps that only read: if a step writes, compactions read
    /// too.
    DeviceReads,
    /// Page faults of the clients' threads for an operation.
    Faults,
    /// Syncs.
    Syncs,
    /// Syncs other than the log's, if the engine counts them: those of tables, manifests and directories.
    OtherSyncs,
    /// Syncs for each million operations, to compare runs of different lengths.
    SyncsPerMillion,
    /// The time from the end of a step that writes until everything is synced and no work is due, in nanoseconds.
    Drain,
    /// Stalls.
    Stalls,
    /// The longest period without a completed operation, in nanoseconds.
    LongestStall,
    /// Resident memory at its peak, in bytes.
    PeakMemory,
    /// Resident memory at the end without mapped files, in bytes: memory that the kernel cannot reclaim.
    OwnMemory,
    /// Memory of indexes and filters at the end, in bytes for each entry of the dataset, if the engine reports it.
    IndexOfEntry,
    /// Memory of the index of directories and of f-hashes at the end, in bytes a directory.
    IndexOfDirectory,
    /// The percentage of lookups whose page of the f-hash was in the f-cache (PHAT-E8).
    FCacheHits,
    /// Bytes on disk afterwards.
    Space,
    /// The share of the processors' time that other processes took, in percent.
    Foreign,
}

/// The counter of the bytes written to storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WrittenBy {
    /// The block device, if it is visible: everything that was written to it.
    Device,
    /// The kernel, for the process: pages that it made dirty.
    Process,
}

impl WrittenBy {
    /// As part of a sentence: `the block device`.
    pub fn name(self) -> &'static str {
        match self {
            WrittenBy::Device => "the block device",
            WrittenBy::Process => "the kernel for the process",
        }
    }
}

/// The cost of a step, until it was drained if the step was drained.
fn cost(run: &Run) -> &Usage {
    run.drained.as_ref().unwrap_or(&run.usage)
}

/// All operations, including those of background clients, because the cost includes theirs.
fn all_operations(run: &Run) -> Option<f64> {
    Some((run.operations + run.background_operations) as f64).filter(|operations| *operations > 0.0)
}

/// Bytes that a run wrote to storage, and their counter, which is the same for every engine. Engines count differently,
/// or not at all, so their own counters are shown separately.
pub fn written(run: &Run) -> (u64, WrittenBy) {
    let usage = cost(run);
    if let Some(device) = &usage.io.device {
        (device.written_bytes, WrittenBy::Device)
    } else {
        (usage.io.process.written_bytes, WrittenBy::Process)
    }
}

/// The number of operations of a run that only reads; `None`: the run writes.
fn reads(run: &Run) -> Option<f64> {
    let only = run.background_operations == 0 && run.latency.keys().all(|class| !class.writes());
    (only && run.operations > 0).then_some(run.operations as f64)
}

impl Metric {
    /// The figures beside latencies, in the order of reports.
    pub const COSTS: [Metric; 12] = [
        Metric::Cpu,
        Metric::Written,
        Metric::WriteAmplification,
        Metric::DeviceReads,
        Metric::Faults,
        Metric::Syncs,
        Metric::OtherSyncs,
        Metric::Stalls,
        Metric::LongestStall,
        Metric::PeakMemory,
        Metric::Space,
        Metric::Foreign,
    ];

    /// The figure of a run; `None`: it has none.
    pub fn of(self, run: &Run) -> Option<f64> {
        let usage = cost(run);
        let figure = match self {
            Metric::Throughput => run.operations_per_second,
            Metric::Latency(class, quantile) => {
                quantile.of(run.latency.get(&class).filter(|latency| latency.count > 0)?) as f64
            }
            Metric::Cpu => (usage.cpu.user_seconds + usage.cpu.system_seconds) * 1e6 / all_operations(run)?,
            Metric::Written => written(run).0 as f64 / all_operations(run)?,
            Metric::WriteAmplification => {
                let user = Some(run.user_written_bytes).filter(|bytes| *bytes > 0)?;
                written(run).0 as f64 / user as f64
            }
            Metric::DeviceReads => run.usage.io.device?.reads as f64 / reads(run)?,
            Metric::Faults => run.client_faults as f64 / all_operations(run)?,
            Metric::Syncs => usage.counters.syncs?.count as f64,
            Metric::OtherSyncs => {
                let kinds = Some(&usage.counters.syncs_by_kind).filter(|kinds| !kinds.is_empty())?;
                kinds.iter().filter(|(kind, _)| *kind != "log").map(|(_, count)| *count).sum::<u64>() as f64
            }
            Metric::SyncsPerMillion => usage.counters.syncs?.count as f64 * 1e6 / all_operations(run)?,
            Metric::Drain => run.drain_seconds? * 1e9,
            Metric::Stalls => run.stalls.count as f64,
            Metric::LongestStall => run.stalls.longest_ms as f64 * 1e6,
            Metric::PeakMemory => run.usage.memory.peak_bytes.max(usage.memory.peak_bytes) as f64,
            Metric::OwnMemory => {
                // A process always has mapped files; 0 means that a report of an older version does not have this
                // figure.
                let mapped = Some(usage.memory.mapped_bytes).filter(|bytes| *bytes > 0)?;
                usage.memory.rss_bytes.saturating_sub(mapped) as f64
            }
            Metric::IndexOfEntry => {
                let f_hashes = usage.gauges.get("f_hash_memory_bytes").unwrap_or(&0);
                (usage.gauges.get("index_memory_bytes")? + f_hashes) as f64 / run.records as f64
            }
            Metric::IndexOfDirectory => {
                let f_hashes = usage.gauges.get("f_hash_memory_bytes").unwrap_or(&0);
                let index = usage.gauges.get("directory_index_bytes")? + f_hashes;
                index as f64 / *usage.gauges.get("directories")? as f64
            }
            Metric::FCacheHits => {
                let counted = |name: &str| run.usage.counters.other.get(name).map(|count| *count as f64);
                100.0 * counted("f-hash hits")? / counted("f-hash lookups")?
            }
            Metric::Space => run.space_bytes as f64,
            Metric::Foreign => run.usage.cpu.foreign_percent,
        };
        Some(figure).filter(|figure| figure.is_finite())
    }

    /// The name of the metric, with its unit unless the figure shows the unit.
    pub fn name(self) -> String {
        match self {
            Metric::Throughput => "throughput".to_owned(),
            Metric::Latency(class, quantile) => format!("{} {}", class_name(class), quantile.name()),
            Metric::Cpu => "CPU/op".to_owned(),
            Metric::Written => "written/op".to_owned(),
            Metric::WriteAmplification => "W-amp".to_owned(),
            Metric::DeviceReads => "dev reads/read".to_owned(),
            Metric::Faults => "faults/op".to_owned(),
            Metric::Syncs => "syncs".to_owned(),
            Metric::OtherSyncs => "syncs, not the log's".to_owned(),
            Metric::SyncsPerMillion => "syncs/M ops".to_owned(),
            Metric::Drain => "drain".to_owned(),
            Metric::Stalls => "stalls".to_owned(),
            Metric::LongestStall => "longest stall".to_owned(),
            Metric::PeakMemory => "peak RSS".to_owned(),
            Metric::OwnMemory => "own memory".to_owned(),
            Metric::IndexOfEntry => "index/entry".to_owned(),
            Metric::IndexOfDirectory => "index/directory".to_owned(),
            Metric::FCacheHits => "f-cache hits".to_owned(),
            Metric::Space => "space".to_owned(),
            Metric::Foreign => "foreign CPU".to_owned(),
        }
    }

    /// Formats the figure for readers.
    pub fn show(self, figure: f64) -> String {
        match self {
            Metric::Throughput => number::rate(figure),
            Metric::Latency(..) | Metric::LongestStall | Metric::Drain => number::time(figure),
            Metric::Cpu => number::time(figure * 1e3),
            Metric::Written
            | Metric::PeakMemory
            | Metric::OwnMemory
            | Metric::IndexOfEntry
            | Metric::IndexOfDirectory
            | Metric::Space => number::bytes(figure),
            Metric::WriteAmplification | Metric::DeviceReads | Metric::Faults => number::plain(figure),
            Metric::Syncs | Metric::OtherSyncs | Metric::SyncsPerMillion | Metric::Stalls => number::count(figure),
            Metric::Foreign | Metric::FCacheHits => number::percent(figure),
        }
    }

    /// Whether the metric is timed. A timed figure does not count if other processes used the processors; a cost does.
    pub fn timed(self) -> bool {
        matches!(self, Metric::Throughput | Metric::Latency(..) | Metric::Drain | Metric::Stalls | Metric::LongestStall)
    }

    /// Whether more is better.
    pub fn rises(self) -> bool {
        matches!(self, Metric::Throughput | Metric::FCacheHits)
    }
}

/// A class of operations, as reports call it.
pub fn class_name(class: Class) -> &'static str {
    match class {
        Class::Get => "get",
        Class::Scan => "scan",
        Class::Query => "query",
        Class::Insert => "insert",
        Class::Update => "update",
        Class::Remove => "remove",
        Class::ReadModifyWrite => "rmw",
        Class::Transaction => "batch",
        Class::Compact => "compact",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Memory;
    use crate::report::tests::sample;

    #[test]
    fn costs_of_writes_are_those_after_draining() {
        let mut run = sample::run("a", 1);
        run.operations = 1_000;
        run.usage.cpu.user_seconds = 1.0;
        run.drained = Some(Usage::default());
        let drained = run.drained.as_mut().unwrap();
        drained.cpu.user_seconds = 1.5;
        drained.cpu.system_seconds = 0.5;
        assert_eq!(Metric::Cpu.of(&run), Some(2_000.0));
    }

    #[test]
    fn bytes_written_are_the_devices_else_the_processs_and_never_the_engines() {
        let mut run = sample::run("a", 1);
        (run.operations, run.user_written_bytes, run.drained) = (10, 100, None);
        run.usage.io.process.written_bytes = 1_000;
        run.usage.io.device = None;
        run.usage.counters.written_bytes.clear();
        assert_eq!(written(&run), (1_000, WrittenBy::Process));
        run.usage.counters.written_bytes.insert("log".into(), 200);
        run.usage.counters.written_bytes.insert("flush".into(), 300);
        assert_eq!(written(&run), (1_000, WrittenBy::Process));
        run.usage.io.device = Some(super::super::DeviceIo { written_bytes: 700, reads: 5, ..Default::default() });
        assert_eq!(written(&run), (700, WrittenBy::Device));
        assert_eq!(Metric::Written.of(&run), Some(70.0));
        assert_eq!(Metric::WriteAmplification.of(&run), Some(7.0));
    }

    #[test]
    fn syncs_that_are_not_the_logs_are_told_only_where_the_engine_tells_them_apart() {
        let mut run = sample::run("a", 1);
        assert!(Metric::Syncs.of(&run).is_some());
        assert_eq!(Metric::OtherSyncs.of(&run), None);
        let kinds = [("log", 30), ("table", 4), ("manifest", 2), ("directory", 1)];
        let counters = &mut run.drained.as_mut().unwrap_or(&mut run.usage).counters;
        counters.syncs_by_kind = kinds.map(|(kind, count)| (kind.to_owned(), count)).into();
        assert_eq!(Metric::OtherSyncs.of(&run), Some(7.0));
        assert_eq!(Metric::OtherSyncs.name(), "syncs, not the log's");
    }

    #[test]
    fn memory_is_that_at_the_end_without_mapped_files_and_indexes_with_f_hashes() {
        let mut run = sample::run("a", 1);
        (run.records, run.drained) = (1_000, None);
        run.usage.memory = Memory { rss_bytes: 500, peak_bytes: 900, mapped_bytes: 200 };
        assert_eq!(Metric::OwnMemory.of(&run), Some(300.0));
        run.usage.memory.mapped_bytes = 0;
        assert_eq!(Metric::OwnMemory.of(&run), None, "an older report does not tell");
        run.usage.gauges.clear();
        assert_eq!((Metric::IndexOfEntry.of(&run), Metric::IndexOfDirectory.of(&run)), (None, None));
        let gauges = [("index_memory_bytes", 5_000), ("directories", 50), ("directory_index_bytes", 2_000)];
        run.usage.gauges = gauges.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!((Metric::IndexOfEntry.of(&run), Metric::IndexOfDirectory.of(&run)), (Some(5.0), Some(40.0)));
        run.usage.gauges.insert("f_hash_memory_bytes".to_owned(), 10_000);
        assert_eq!((Metric::IndexOfEntry.of(&run), Metric::IndexOfDirectory.of(&run)), (Some(15.0), Some(240.0)));
    }

    #[test]
    fn hits_of_the_f_cache_are_a_share_of_the_lookups() {
        let mut run = sample::run("a", 1);
        assert_eq!(Metric::FCacheHits.of(&run), None);
        let counted = [("f-hash lookups", 400), ("f-hash hits", 100)];
        run.usage.counters.other = counted.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(Metric::FCacheHits.of(&run), Some(25.0));
        run.usage.counters.other.insert("f-hash lookups".to_owned(), 0);
        assert_eq!(Metric::FCacheHits.of(&run), None, "without lookups");
        assert!(Metric::FCacheHits.rises(), "more hits are better");
    }

    #[test]
    fn device_reads_are_of_steps_that_only_read() {
        let mut run = sample::run("a", 1);
        run.usage.io.device = Some(super::super::DeviceIo { reads: 50, ..Default::default() });
        run.latency.clear();
        run.latency.insert(Class::Get, Latency { count: 100, ..Default::default() });
        (run.operations, run.background_operations) = (100, 0);
        assert_eq!(Metric::DeviceReads.of(&run), Some(0.5));
        run.latency.insert(Class::Update, Latency { count: 900, ..Default::default() });
        assert_eq!(Metric::DeviceReads.of(&run), None, "compactions may have read");
        run.latency.remove(&Class::Update);
        run.usage.io.device = None;
        assert_eq!(Metric::DeviceReads.of(&run), None, "no device");
    }
}
