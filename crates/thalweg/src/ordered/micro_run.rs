//! [`micro_run`]: measures on this machine what it costs to look into one more fast table, and to merge an entry. The
//! models begin with these costs (PMB-8).
//!
//! It makes a table in memory, reads it and drops it, in about two milliseconds. With a clock that stands still, as in
//! a simulation, it measures nothing.

use crate::clock::Clock;
use crate::error::Result;
use crate::fast_table::{Extent, FastTable, FastTableOptions, FastTableWriter};
use crate::fast_tier::Costs;
use crate::format::key::shared_bytes;
use crate::format::{Cursor, EntryKind, SeqNo, TableId};
use crate::table::{KeyRange, PointKey};
use std::sync::Arc;

/// Entries of the table: more than the nearest caches of a processor hold.
const ENTRIES: u64 = 4096;
/// The clock must have moved after this many entries.
const ENTRIES_AT_FIRST: u64 = 64;
const KEY_BYTES: usize = 16;
/// Bytes of each value.
const VALUE_BYTES: usize = 100;
/// A step through keys that are not neighbours: odd, and far from a power of two.
const STRIDE: u64 = 1_543;

/// Measures a table with these options, and returns `costs` with what was measured.
pub(super) fn micro_run(clock: &dyn Clock, options: FastTableOptions, mut costs: Costs) -> Result<Costs> {
    let start = clock.now_ns();
    let mut writer = FastTableWriter::new(TableId(1), 0, options);
    let mut before = [0; KEY_BYTES];
    for number in 0..ENTRIES {
        if number == ENTRIES_AT_FIRST && clock.now_ns() == start {
            return Ok(costs);
        }
        // Every second number is a key.
        let key = key(2 * number);
        writer.add(&key, shared_bytes(&before, &key), SeqNo(1 + number), EntryKind::Put, &[7; VALUE_BYTES]);
        before = key;
    }
    let (bytes, _) = writer.finish(Vec::with_capacity);
    let table = FastTable::open(Extent::in_memory(bytes, TableId(1)), TableId(1), 0)?;
    let mut scan = table.scan(&Arc::new(KeyRange::default()));
    while scan.enter_next_chunk()? {
        while scan.advance_in_chunk()? {}
    }
    let merged = clock.now_ns();
    // Looks for neighbours of keys: most lookups in the tier are in tables that do not have the key.
    for number in 0..ENTRIES {
        let missing = key(2 * (number * STRIDE % ENTRIES) + 1);
        std::hint::black_box(table.find(&PointKey::new(&missing, SeqNo::MAX))?);
    }
    let got = clock.now_ns();
    let mut cursor = table.cursor();
    for number in 0..ENTRIES {
        cursor.seek(&key(2 * (number * STRIDE % ENTRIES) + 1), SeqNo::MAX)?;
        if cursor.valid() {
            cursor.next()?;
        }
    }
    let sought = clock.now_ns();
    let each = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9 / ENTRIES as f64;
    let measured = [
        (&mut costs.internal_seconds, each(start, merged)),
        (&mut costs.get_seconds, each(merged, got)),
        (&mut costs.seek_seconds, each(got, sought)),
    ];
    for (cost, seconds) in measured {
        if seconds > 0.0 {
            *cost = seconds;
        }
    }
    Ok(costs)
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"calibrat00000000";
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn it_measures_what_a_read_and_a_merge_take() {
        let begun = std::time::Instant::now();
        let costs = micro_run(&SystemClock::default(), FastTableOptions::default(), Costs::default()).unwrap();
        let whole = begun.elapsed().as_secs_f64();
        let parts = [costs.get_seconds, costs.seek_seconds, costs.internal_seconds];
        assert!(parts.iter().all(|seconds| *seconds > 0.0), "{costs:?}");
        let sum = parts.iter().sum::<f64>() * ENTRIES as f64;
        assert!(sum <= whole && sum > whole / 2.0, "{sum} of {whole} s: {costs:?}");
        assert_eq!(costs.major_seconds, Costs::default().major_seconds, "what is below is measured by jobs");
    }

    #[test]
    fn a_clock_that_stands_still_leaves_the_constants() {
        struct Still;
        impl Clock for Still {
            fn now_ns(&self) -> u64 {
                7
            }
        }
        let costs = micro_run(&Still, FastTableOptions::default(), Costs::default()).unwrap();
        assert_eq!(costs, Costs::default());
    }
}
