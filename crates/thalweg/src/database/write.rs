//! The write path: wait for room, reserve, copy, insert, publish, and for `Sync` wait for the log.
//!
//! Everything that can fail or wait comes before the reservation; between it and the publication only the copy into the
//! log can fail, and that poisons the database.

use super::engine::Engine;
use super::options::{Durability, WriteOptions};
use crate::error::Result;
use crate::format::{EntryKind, LogPosition, SeqNo};
use crate::log::{Operation, Record, RecordBuilder, Reservation};
use crate::ordered::{Partition, Partitions, SuperVersionGuard};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// The buffer in which this thread encodes the record of its next single write.
    static BODY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A thread frees a larger buffer instead of keeping it.
const BODY_BYTES_KEPT: usize = 64 << 10;

/// A record that was written.
pub(super) struct Written {
    /// The last sequence number of the record.
    pub(super) seq: SeqNo,
    /// The end of the record in the log. A sync up to here makes it durable.
    pub(super) end: LogPosition,
}

impl Engine {
    /// Writes one operation, as a batch of one that borrows it. Its record is encoded in a buffer that the thread
    /// keeps.
    pub(super) fn write_one(
        &self,
        operation: &Operation<'_>,
        partition: &Arc<Partition>,
        options: WriteOptions,
    ) -> Result<()> {
        // While a call waits, another may run on this thread (in the simulator). The other one gets an empty buffer.
        let mut record = RecordBuilder::with_buffer(BODY.take());
        record.push(operation);
        let record = record.finish();
        let done = self.write(&record, std::slice::from_ref(partition), options);
        let body = record.into_buffer();
        if body.capacity() <= BODY_BYTES_KEPT {
            BODY.set(body);
        }
        done.map(drop)
    }

    /// Writes one record whose operation i goes to `routes[i]`.
    pub(super) fn write(&self, record: &Record, routes: &[Arc<Partition>], options: WriteOptions) -> Result<Written> {
        let durability = self.durability_of(options);
        let writable = self.writable()?;
        writable.health.check()?;
        // Operations of one batch mostly come in runs of one partition. A partition may come twice, which does no harm.
        let distinct = || {
            routes
                .iter()
                .enumerate()
                .filter(|(index, partition)| *index == 0 || !Arc::ptr_eq(partition, &routes[index - 1]))
                .map(|(_, partition)| partition)
        };
        writable.backpressure.let_time_pass(routes, record.bytes());
        if writable.space.space().is_short() {
            writable.wait_for_space(&self.environment, record, options.frees_space)?;
        }
        for partition in distinct() {
            writable.backpressure.wait_for_room(&**partition)?;
        }
        let reservation = writable.space.reserve(record, options.frees_space)?;
        writable.log.copy_in(&reservation, record, durability == Durability::Sync)?;
        let (seq, user_bytes, is_overtaken) = insert(&writable.ordered.partitions, &reservation, record, routes);
        let end = reservation.end();
        writable.log.publish(reservation)?;
        self.metrics.user_written_bytes.add(user_bytes as u64);
        for partition in distinct() {
            writable.ordered.sealer.seal_if_full(partition);
        }
        if is_overtaken {
            // A split or a clear has taken keys from the partitions of the routes: their entries went to others.
            for (operation, partition) in record.operations().zip(routes) {
                if let Operation::Put { key, .. } | Operation::Remove { key, .. } = operation {
                    let rerouted = writable.ordered.partitions.rerouted(partition, key, seq);
                    writable.ordered.sealer.seal_if_full(&rerouted.unwrap_or_else(|| partition.owner_of(key)));
                }
            }
        }
        writable.watch_log();
        if durability == Durability::Sync {
            writable.log.sync(end)?;
        }
        Ok(Written { seq, end })
    }
}

/// Inserts the entries of a record that is reserved and not yet published. Returns the last sequence number, the bytes
/// of keys and values, and whether a split or a clear has overtaken a route.
fn insert(
    partitions: &Partitions,
    reservation: &Reservation,
    record: &Record,
    routes: &[Arc<Partition>],
) -> (SeqNo, usize, bool) {
    let mark = reservation.mark();
    let mut seq = reservation.first_seq();
    let (mut user_bytes, mut is_overtaken) = (0, false);
    // A super version loaded after the reservation has the memtable of every number in it: one load serves a run of
    // operations. The route may be older than a split or a clear.
    let mut at: Option<(&Arc<Partition>, SuperVersionGuard)> = None;
    for (operation, partition) in record.operations().zip(routes) {
        let (key, kind, value) = match operation {
            Operation::Put { key, value, .. } => (key, EntryKind::Put, value),
            Operation::Remove { key, .. } => (key, EntryKind::Remove, &[][..]),
            Operation::CreateKeyspace { .. } | Operation::DropKeyspace { .. } | Operation::ClearKeyspace { .. } => {
                unreachable!("definitions have no route")
            }
        };
        let serves = |(before, super_version): &(&Arc<Partition>, SuperVersionGuard)| {
            Arc::ptr_eq(before, partition) && super_version.covers(key)
        };
        let (_, super_version) = match at.take().filter(serves) {
            Some(same) => at.insert(same),
            None => {
                let mut super_version = partition.super_version();
                if let Some(rerouted) = partitions.rerouted(partition, key, seq) {
                    (super_version, is_overtaken) = (rerouted.super_version_of(key), true);
                } else if !super_version.covers(key) {
                    (super_version, is_overtaken) = (partition.super_version_of(key), true);
                }
                at.insert((partition, super_version))
            }
        };
        super_version.memtable_for(seq).insert(mark, key, seq, kind, value);
        user_bytes += key.len() + value.len();
        seq = SeqNo(seq.0 + 1);
    }
    (SeqNo(seq.0 - 1), user_bytes, is_overtaken)
}
