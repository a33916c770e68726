//! Several entries of a directory keyspace at once, as of one pinned number: `multi_get`.
//!
//! In each round the reads that the entries still need are submitted together.

use super::entry_lookup::{index_of, value_of};
use super::keyspace::Keyspace;
use crate::directory::{EntrySearch, Step};
use crate::error::Result;
use crate::format::{EntryKey, SeqNo, Slice};
use crate::runtime::Point;
use crate::table::{PackRead, read_together};

/// Entries that are looked for together: enough for any device's queue, few enough not to take much memory.
const ENTRIES_AT_ONCE_MAX: usize = 256;

/// An entry that is not found yet.
struct Waiting<'a> {
    /// The place of the entry in the call.
    number: usize,
    key: &'a EntryKey<'a>,
    search: EntrySearch,
}

/// The values of entries as of the pinned number `seq`, in their order.
pub(super) fn multi_get<N: AsRef<[u8]>>(
    keyspace: &Keyspace,
    seq: SeqNo,
    entries: &[(u64, N)],
) -> Result<Vec<Option<Slice>>> {
    let encoded = entries.iter().map(|(directory, name)| keyspace.entry_key(*directory, name.as_ref()));
    let encoded = encoded.collect::<Result<Vec<_>>>()?;
    let decoded = encoded.iter().filter_map(|key| EntryKey::decode(key));
    let keys: Vec<EntryKey<'_>> = decoded.collect();
    let ordered = keyspace.ordered_at(seq)?;
    let super_version = ordered.whole_version()?;
    keyspace.engine().environment.point(Point::Viewed);
    let index = index_of(ordered.directories());
    let mut values = vec![None; entries.len()];
    let numbered: Vec<(usize, &EntryKey<'_>)> = keys.iter().enumerate().collect();
    for some in numbered.chunks(ENTRIES_AT_ONCE_MAX) {
        let mut waiting = Vec::new();
        for (number, key) in some.iter().copied() {
            match super_version.in_memory(&encoded[number], seq) {
                Some(found) => values[number] = value_of(found),
                None => waiting.push(Waiting { number, key, search: index.search(key.directory, seq)? }),
            }
        }
        read_in_rounds(waiting, &mut values)?;
    }
    ordered.check_readable().map(|()| values)
}

/// Finds all entries, in rounds: after each, the reads that are needed are made together.
fn read_in_rounds(mut waiting: Vec<Waiting<'_>>, values: &mut [Option<Slice>]) -> Result<()> {
    let mut read = Vec::new();
    while !waiting.is_empty() {
        let mut needed: Vec<PackRead> = Vec::new();
        let mut rest = Vec::new();
        let mut brought = std::mem::take(&mut read).into_iter();
        for mut entry in waiting {
            match entry.search.step(entry.key, brought.next())? {
                Step::Done(value) => values[entry.number] = value,
                Step::Needs(one) => {
                    needed.push(one);
                    rest.push(entry);
                }
            }
        }
        read = read_together(&needed).into_iter().collect::<Result<Vec<_>>>()?;
        waiting = rest;
    }
    Ok(())
}
