//! Counters of the paper's hash tables of directories (`--structures paper`), and their memory.

use std::collections::BTreeMap;
use thalweg::{DirectoryStatistics, FHashStatistics, Statistics};

fn directories(statistics: &Statistics) -> impl Iterator<Item = &DirectoryStatistics> {
    statistics.keyspaces.iter().filter_map(|keyspace| keyspace.directories.as_ref())
}

/// A figure and its name.
type Figure = (&'static str, fn(&FHashStatistics) -> u64);

fn sums(statistics: &Statistics, figures: &[Figure]) -> BTreeMap<String, u64> {
    let found: Vec<FHashStatistics> = directories(statistics).filter_map(|directories| directories.f_hashes).collect();
    let sum = |figure: fn(&FHashStatistics) -> u64| found.iter().map(figure).sum();
    let figures = figures.iter().filter(|_| !found.is_empty());
    figures.map(|(name, figure)| ((*name).to_owned(), sum(*figure))).collect()
}

/// The counters of these tables, if there are such tables.
pub(super) fn f_hash_counters(statistics: &Statistics) -> BTreeMap<String, u64> {
    sums(
        statistics,
        &[
            ("f-hash lookups", |it| it.lookups),
            ("f-hash hits", |it| it.hits),
            ("f-hash page reads", |it| it.reads),
            ("f-hash page writes", |it| it.writes),
            ("f-hashes prefetched", |it| it.prefetched),
            ("f-hashes lost", |it| it.lost),
        ],
    )
}

/// The memory of the index of a directory keyspace, and of the paper's hash tables.
pub(super) fn f_hash_gauges(statistics: &Statistics) -> BTreeMap<String, u64> {
    let mut gauges = sums(
        statistics,
        &[
            ("f_hash_memory_bytes", |it| it.memory_bytes),
            ("f_cache_bytes", |it| it.cached_bytes),
            ("f_hash_file_bytes", |it| it.scratch_bytes),
        ],
    );
    let found: Vec<&DirectoryStatistics> = directories(statistics).collect();
    if !found.is_empty() {
        gauges.insert("directories".to_owned(), found.iter().map(|it| it.directories).sum());
        gauges.insert("directory_index_bytes".to_owned(), found.iter().map(|it| it.index_bytes).sum());
    }
    gauges
}
