//! The terms of a run, in sentences: how the engines were tuned, what data a power cut may lose, and the use of memory
//! and disk.

use super::{Grid, Run, Sample, Step, Summary, number};
use std::collections::BTreeMap;

/// The share of the space below which a kind of file is not named.
const KIND_SHARE_MIN: f64 = 0.02;

/// A sentence a line.
pub fn lines(summary: &Summary<'_>) -> Vec<String> {
    let mut lines = vec![tuning(summary)];
    let several = summary.engines.len() > 1;
    for engine in &summary.engines {
        let whose = |name: &str| if several { format!("{engine}, {name}") } else { capital(name) };
        lines.extend(of_engine(summary, engine).iter().map(|(name, is)| format!("{}: {is}.", whose(name))));
    }
    lines
}

/// The source of the settings that were not given.
pub fn tuning(summary: &Summary<'_>) -> String {
    format!("Tuning {} (--tuning).", summary.report.parameters.settings.tuning.name())
}

/// A table with a row for each term or usage of an engine, and a column for each engine.
pub fn table(summary: &Summary<'_>) -> Grid {
    let mut grid = Grid::new([""].into_iter().chain(summary.engines.iter().copied()));
    let all: Vec<_> = summary.engines.iter().map(|engine| of_engine(summary, engine)).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    for name in names {
        let cell =
            |said: &Vec<(String, String)>| said.iter().find(|other| other.0 == name).map(|other| other.1.clone());
        grid.row(
            [name.to_owned()].into_iter().chain(all.iter().map(|said| cell(said).unwrap_or_else(|| "–".to_owned()))),
        );
    }
    grid
}

/// The terms of an engine, and the memory and disk that it used in its last step.
fn of_engine(summary: &Summary<'_>, engine: &str) -> Vec<(String, String)> {
    let described = summary.report.engines.iter().find(|described| described.name == engine);
    let terms = described.into_iter().flat_map(|described| described.terms.clone());
    let last = summary.steps.iter().rev().find_map(|step| Some((step, *step.entry(engine)?.runs.last()?)));
    let used = last.into_iter().flat_map(|(step, run)| {
        let used = [("memory used", memory(run)), ("disk used", disk(summary, run))];
        used.into_iter().filter_map(|(name, is)| Some((name.to_owned(), format!("{} ({})", is?, step.short()))))
    });
    terms.chain(used).collect()
}

/// `825 MiB at the peak: 310 MiB of its own, 515 MiB mapped files …`.
pub fn memory(run: &Run) -> Option<String> {
    let peak: &Sample = run.samples.iter().max_by_key(|sample| sample.rss_bytes)?;
    let [all, mapped] = [peak.rss_bytes, peak.mapped_bytes].map(|bytes| bytes as f64);
    let (own, mapped) = (number::bytes(all - mapped), number::bytes(mapped));
    let mut text = format!(
        "{} resident at most: {own} of its own (caches, memtables, the instrument), {mapped} mapped files (tables, \
         log, program), which are page cache and go when memory is short",
        number::bytes(all)
    );
    if let Some(most) = run.samples.iter().filter_map(|sample| sample.page_cache_bytes).max() {
        text += &format!("; {} of page cache in its control group at most", number::bytes(most as f64));
    }
    Some(text)
}

/// `1.09 GiB: table 590 MiB, log 512 MiB; all records as given: 492 MiB`.
pub fn disk(summary: &Summary<'_>, run: &Run) -> Option<String> {
    let mut kinds: Vec<(&String, f64)> = run.space_by_kind.iter().map(|(kind, bytes)| (kind, *bytes as f64)).collect();
    let all: f64 = kinds.iter().map(|(_, bytes)| bytes).sum();
    kinds.retain(|(_, bytes)| *bytes >= KIND_SHARE_MIN * all && *bytes > 0.0);
    if kinds.is_empty() {
        return None;
    }
    kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
    let kinds: Vec<String> = kinds.iter().map(|(kind, bytes)| format!("{kind} {}", number::bytes(*bytes))).collect();
    let mut text = format!("{}: {}", number::bytes(all), kinds.join(", "));
    if let Some(replaced) = run.replaced_bytes.filter(|bytes| *bytes as f64 >= KIND_SHARE_MIN * all) {
        text += &format!("; of it {} of replaced tables, about to be given back", number::bytes(replaced as f64));
    }
    if let Some(bytes) = loaded_bytes(summary, run) {
        text += &format!("; the records as they were loaded are {}", number::bytes(bytes as f64));
    }
    Some(text)
}

/// Bytes of keys and values of the load before a run, as if every record was loaded once.
fn loaded_bytes(summary: &Summary<'_>, run: &Run) -> Option<u64> {
    let of_load = |step: &Step<'_>| {
        let load = step.entry(&run.engine)?.runs.iter().copied().find(|load| load.round == run.round)?;
        (step.preparation && load.operations == run.records).then_some(load.user_written_bytes)
    };
    summary.steps.iter().rev().find_map(of_load)
}

/// The meanings of the names of figures, in the order of the page.
pub fn glossary() -> BTreeMap<&'static str, &'static str> {
    [
        ("CPU/op", "Processor time of the engine's process for an operation; the instrument's share is in it."),
        ("P50, P99, P99.9", "The latency that 50, 99 or 99.9 % of the operations do not exceed."),
        ("W-amp", "Write amplification: bytes written to storage for each byte of keys and values given."),
        ("dev reads/read", "Reads of the block device for a read, of steps that only read; 0: all was cached."),
        ("drained", "All is synced, and no flush or compaction is due: costs of a step count up to there."),
        ("faults/op", "Page faults of the clients' threads for an operation: fresh memory that callers paid for."),
        ("foreign", "Processor time that others took. Above 5 % a run is noisy, and its latencies do not count."),
        ("peak RSS", "Resident memory of the process at its peak; mapped files count, other page cache does not."),
        ("preparation", "A step that was not asked for, but loads what the next one needs."),
        ("space", "Disk blocks of the database: tables, log, and what is replaced and not yet given back."),
        ("stalls", "Times of 50 ms and more without a completed operation, and the longest."),
        ("syncs", "How often the engine made files or directories durable."),
        ("written/op", "Bytes written to storage for an operation, until the step was drained."),
    ]
    .into()
}

/// Capitalises a word: `Durability` for `durability`.
fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Pace;
    use crate::report::tests::sample;

    #[test]
    fn memory_and_disk_are_told_by_their_parts() {
        let report = sample::report(&["a"], &[("load", Pace::Closed), ("ycsb-a", Pace::Closed)], 1, 2);
        let lines = lines(&Summary::of(&report));
        let line = |name: &str| lines.iter().find(|line| line.starts_with(name)).unwrap();
        assert_eq!(line("Tuning"), "Tuning default (--tuning).");
        assert!(line("Durability: ").contains("every 100ms"));
        assert!(line("Memory used: 240 MiB resident at most: 220 MiB of its own").contains("20.0 MiB mapped files"));
        assert!(line("Disk used: 153 MiB: table 114 MiB, log 38.1 MiB").ends_with("(ycsb-a)."), "{lines:?}");
    }

    #[test]
    fn an_old_report_has_the_tuning_alone() {
        let mut report = sample::report(&["a"], &[("ycsb-a", Pace::Closed)], 1, 2);
        report.engines[0].terms.clear();
        report.runs[0].samples.clear();
        report.runs[0].space_by_kind.clear();
        assert_eq!(lines(&Summary::of(&report)).len(), 1);
    }
}
