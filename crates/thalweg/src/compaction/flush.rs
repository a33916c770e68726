//! The flush of one memtable (a minor compaction): all of it to one level-0 table.
//!
//! Old versions that no reader can see are dropped. Tombstones stay, because they hide entries in lower levels. Like a
//! merge, a flush is a coroutine that yields regularly, and it changes nothing except its own output file.

use super::look_ahead::Cut;
use super::outputs::{Outputs, Store};
use super::predecessor::Predecessor;
use super::retention::Retention;
use crate::cache::Warmth;
use crate::error::Result;
use crate::format::SeqNo;
use crate::memtable::SealedEntries;
use crate::runtime::yield_now;
use crate::table::{PackWriters, TableMeta, TableWriters};

/// Bytes written between two yields.
const STEP_BYTES: usize = 64 << 10;

/// Writes all entries of a memtable to one table and drops versions that no snapshot can see. Returns `None` if there
/// are no entries. Tombstones stay. `snapshots` is that of [`super::merge`]. On an error the output is removed.
pub(crate) async fn flush(
    entries: &mut impl SealedEntries,
    store: &TableWriters,
    snapshots: &[SeqNo],
) -> Result<Option<TableMeta>> {
    flush_to(entries, store, snapshots).await
}

/// Does what [`flush`] does, for a directory keyspace: writes a pack.
pub(crate) async fn flush_pack(
    entries: &mut impl SealedEntries,
    store: &PackWriters<'_>,
    snapshots: &[SeqNo],
) -> Result<Option<TableMeta>> {
    flush_to(entries, store, snapshots).await
}

/// See [`flush`].
pub(super) async fn flush_to<S: Store>(
    entries: &mut impl SealedEntries,
    store: &S,
    snapshots: &[SeqNo],
) -> Result<Option<TableMeta>> {
    // One table, whatever its size: level 0 is a queue of memtables, and one edit carries one memtable.
    let mut outputs = Outputs::new(store, 0, Cut::Size(u64::MAX));
    match write(entries, Retention::new(snapshots, false), &mut outputs).await {
        Ok(mut tables) => {
            assert!(tables.len() <= 1, "a flush writes one table");
            Ok(tables.pop())
        }
        Err(error) => {
            outputs.discard().await;
            Err(error)
        }
    }
}

async fn write<S: Store>(
    entries: &mut impl SealedEntries,
    mut retention: Retention<'_>,
    outputs: &mut Outputs<'_, S>,
) -> Result<Vec<TableMeta>> {
    let (mut predecessor, mut step_bytes) = (Predecessor::default(), 0);
    while entries.advance() {
        let (seq, kind) = (entries.seq(), entries.kind());
        let Some(relation) = predecessor.advance(entries.key(), seq) else { unreachable!("a memtable is in order") };
        outputs.pass(relation);
        step_bytes += entries.key().len();
        if retention.keep(relation.key_changed, seq, kind) {
            if !outputs.has_room(entries.key()) {
                outputs.next_table().await?;
            }
            step_bytes += entries.value().len();
            if outputs.add(entries.key(), seq, kind, entries.value(), Warmth::Warm) {
                outputs.write().await?;
            }
        }
        if step_bytes >= STEP_BYTES {
            step_bytes = 0;
            yield_now().await;
        }
    }
    outputs.finish().await
}

#[cfg(test)]
mod tests {
    use super::super::tests::fakes::{FakeEntry as E, FakeMemtable, FakeStore, block_on};
    use super::*;
    use crate::error::ErrorKind;

    // A coroutine may change its thread between polls.
    const _: fn(&mut FakeMemtable, &TableWriters) = |entries, store| {
        fn is_send(_: impl Send) {}
        is_send(flush(entries, store, &[]));
    };

    fn flushed(entries: Vec<E>, snapshots: &[u64], store: &FakeStore) -> Result<Option<TableMeta>> {
        let snapshots: Vec<SeqNo> = snapshots.iter().copied().map(SeqNo).collect();
        block_on(flush_to(&mut FakeMemtable { entries, next: 0 }, &store, &snapshots)).0
    }

    #[test]
    fn a_memtable_becomes_one_table_with_its_tombstones() {
        let store = FakeStore::default();
        let entries = vec![E::put("", 3, "empty key"), E::put("a", 9, "9"), E::put("a", 4, "4"), E::remove("b", 5)];
        let meta = flushed(entries, &[6, 9], &store).unwrap().unwrap();
        assert_eq!(store.table(&meta).entries.len(), 4);
        assert_eq!((meta.entries, meta.tombstones), (4, 1));
        assert_eq!((&*meta.key_min, &*meta.key_max), (&b""[..], &b"b"[..]));
    }

    #[test]
    fn versions_nobody_can_see_go_and_those_not_yet_visible_stay() {
        let store = FakeStore::default();
        let entries = [9, 8, 7, 3, 2].map(|seq| E::put("k", seq, ""));
        let meta = flushed(entries.to_vec(), &[7], &store).unwrap().unwrap();
        assert_eq!(store.entries(&[meta]), [entries[..3].to_vec()]);
    }

    #[test]
    fn an_empty_memtable_writes_nothing() {
        let store = FakeStore::default();
        assert!(flushed(Vec::new(), &[7], &store).unwrap().is_none());
        assert!(store.files().is_empty());
    }

    #[test]
    fn any_failing_call_leaves_no_file_behind() {
        for call in 1..=4 {
            let store = FakeStore::failing_at(call);
            let result = flushed(vec![E::put("a", 1, ""), E::put("b", 2, "")], &[7], &store);
            assert_eq!(result.unwrap_err().kind(), ErrorKind::NoSpace);
            assert!(store.files().is_empty(), "call {call}");
        }
    }
}
