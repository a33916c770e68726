//! The write path: wait for room, reserve, copy, insert, publish, and for `Sync` wait for the log.
//!
//! Everything that can fail or wait comes before the reservation; between it and the publication only the copy into
//! the log can fail, and that poisons the database (DESIGN 5, Publish).

use super::engine::Engine;
use super::options::Durability;
use crate::error::Result;
use crate::format::{EntryKind, LogMark, SeqNo};
use crate::log::{Operation, Record, RecordBuilder, Reservation};
use crate::ordered::{OrderedKeyspace, Partition, ViewGuard, Workshop};
use crate::runtime::Point;
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Where this thread encodes the record of its next single write.
    static BODY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A larger buffer is given back, not kept by its thread.
const BODY_BYTES_KEPT: usize = 64 << 10;

impl Engine {
    /// Writes one operation: a batch of one that owns nothing. Its record is encoded in a buffer that the thread keeps.
    pub(super) fn write_one(
        &self,
        operation: &Operation<'_>,
        partition: &Arc<Partition>,
        durability: Durability,
    ) -> Result<()> {
        // A call that waits may let another one of this thread run (in the simulator): that one gets an empty buffer.
        let mut record = RecordBuilder::with_buffer(BODY.take());
        record.push(operation);
        let record = record.finish();
        let done = self.write(&record, std::slice::from_ref(partition), durability);
        let body = record.into_buffer();
        if body.capacity() <= BODY_BYTES_KEPT {
            BODY.set(body);
        }
        done.map(drop)
    }

    /// Writes one record whose operation i goes to `routes[i]`. Returns its last sequence number.
    pub(super) fn write(&self, record: &Record, routes: &[Arc<Partition>], durability: Durability) -> Result<SeqNo> {
        let workshop = self.writable()?;
        workshop.health.check()?;
        // Operations of one batch mostly come in runs: a partition seen twice costs one more look.
        let distinct = || {
            routes
                .iter()
                .enumerate()
                .filter(|(index, partition)| *index == 0 || !Arc::ptr_eq(partition, &routes[index - 1]))
                .map(|(_, partition)| partition)
        };
        workshop.let_time_pass(routes, record.bytes());
        if workshop.options.space.is_short() {
            workshop.wait_for_space(record)?;
        }
        for partition in distinct() {
            workshop.wait_for_room(partition)?;
        }
        let reservation = workshop.reserve(record)?;
        workshop.log.copy_in(&reservation, record, durability == Durability::Sync)?;
        let (seq, user_bytes, is_overtaken) = insert(workshop, &reservation, record, routes);
        let end = reservation.end();
        workshop.log.publish(reservation)?;
        self.metrics.user_written_bytes.add(user_bytes as u64);
        for partition in distinct() {
            workshop.seal_if_full(partition);
        }
        if is_overtaken {
            // What a split or a clear has taken from the partitions that were routed to went to others.
            for (operation, partition) in record.operations().zip(routes) {
                if let Operation::Put { key, .. } | Operation::Remove { key, .. } = operation {
                    let rerouted = workshop.rerouted(partition, key, seq);
                    workshop.seal_if_full(&rerouted.unwrap_or_else(|| partition.owner_of(key)));
                }
            }
        }
        workshop.watch_log();
        if durability == Durability::Sync {
            workshop.log.sync(end)?;
        }
        Ok(seq)
    }

    /// Writes a record that creates or drops a keyspace, durably. `apply` changes the registry between the copy and
    /// the publication, given where the record begins and its sequence number.
    pub(super) fn write_definition(&self, record: RecordBuilder, apply: impl FnOnce(LogMark, SeqNo)) -> Result<()> {
        let workshop = self.writable()?;
        workshop.health.check()?;
        workshop.wait_for_definitions()?;
        let record = record.finish();
        let reservation = workshop.reserve(&record)?;
        workshop.log.copy_in(&reservation, &record, true)?;
        apply(reservation.mark(), reservation.first_seq());
        let end = reservation.end();
        workshop.log.publish(reservation)?;
        self.environment.point(Point::Published);
        workshop.watch_log();
        workshop.log.sync(end)
    }

    /// Clears a keyspace, durably: what it has before the record is gone, what is written after it stays.
    pub(super) fn write_clear(&self, keyspace: &Arc<OrderedKeyspace>) -> Result<SeqNo> {
        let workshop = self.writable()?;
        workshop.health.check()?;
        workshop.wait_for_definitions()?;
        let mut record = RecordBuilder::new();
        record.push(&Operation::ClearKeyspace { keyspace: keyspace.id });
        let record = record.finish();
        let reservation = workshop.reserve_and(&record, |mark, seq| workshop.clear_keyspace(keyspace, mark, seq))?;
        workshop.log.copy_in(&reservation, &record, true)?;
        let (seq, end) = (reservation.first_seq(), reservation.end());
        workshop.log.publish(reservation)?;
        workshop.cleared();
        self.environment.point(Point::Published);
        workshop.watch_log();
        workshop.log.sync(end)?;
        Ok(seq)
    }
}

/// Inserts the entries of a record that is reserved and not yet published; the last sequence number, the bytes of
/// keys and values, and whether a split or a clear has overtaken a route.
fn insert(
    workshop: &Workshop,
    reservation: &Reservation,
    record: &Record,
    routes: &[Arc<Partition>],
) -> (SeqNo, usize, bool) {
    let mark = reservation.mark();
    let mut seq = reservation.first_seq();
    let (mut user_bytes, mut is_overtaken) = (0, false);
    // A view loaded after the reservation has the memtable of every number in it: one load serves a run of operations.
    // The route may be older than a split or a clear.
    let mut at: Option<(&Arc<Partition>, ViewGuard)> = None;
    for (operation, partition) in record.operations().zip(routes) {
        let (key, kind, value) = match operation {
            Operation::Put { key, value, .. } => (key, EntryKind::Put, value),
            Operation::Remove { key, .. } => (key, EntryKind::Remove, &[][..]),
            Operation::CreateKeyspace { .. } | Operation::DropKeyspace { .. } | Operation::ClearKeyspace { .. } => {
                unreachable!("definitions have no route")
            }
        };
        let serves = |(before, view): &(&Arc<Partition>, ViewGuard)| Arc::ptr_eq(before, partition) && view.covers(key);
        let (_, view) = match at.take().filter(serves) {
            Some(same) => at.insert(same),
            None => {
                let mut view = partition.view();
                if let Some(rerouted) = workshop.rerouted(partition, key, seq) {
                    (view, is_overtaken) = (rerouted.view_of(key), true);
                } else if !view.covers(key) {
                    (view, is_overtaken) = (partition.view_of(key), true);
                }
                at.insert((partition, view))
            }
        };
        view.slot_for(seq).insert(mark, key, seq, kind, value);
        user_bytes += key.len() + value.len();
        seq = SeqNo(seq.0 + 1);
    }
    (SeqNo(seq.0 - 1), user_bytes, is_overtaken)
}
