//! The write path: wait for room, reserve, copy, insert, publish, and for `Sync` wait for the log.
//!
//! Everything that can fail or wait comes before the reservation; between it and the publication only the copy into
//! the log can fail, and that poisons the database (DESIGN 5, Publish).

use super::engine::Engine;
use super::options::Durability;
use crate::error::Result;
use crate::format::{EntryKind, LogMark, SeqNo};
use crate::log::{Operation, RecordBuilder};
use crate::ordered::Partition;
use crate::runtime::Point;
use std::sync::Arc;

impl Engine {
    /// Writes one record whose operation i goes to `routes[i]`. Returns its last sequence number.
    pub(super) fn write(
        &self,
        record: RecordBuilder,
        routes: &[Arc<Partition>],
        durability: Durability,
    ) -> Result<SeqNo> {
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
        for partition in distinct() {
            workshop.wait_for_room(partition)?;
        }
        let record = record.finish();
        let reservation = workshop.log.reserve(&record)?;
        workshop.log.copy_in(&reservation, &record)?;
        let mut seq = reservation.first_seq();
        let mark = reservation.mark();
        let mut user_bytes = 0;
        for (operation, partition) in record.operations().zip(routes) {
            match operation {
                Operation::Put { key, value, .. } => {
                    user_bytes += key.len() + value.len();
                    partition.insert(mark, key, seq, EntryKind::Put, value);
                }
                Operation::Remove { key, .. } => {
                    user_bytes += key.len();
                    partition.insert(mark, key, seq, EntryKind::Remove, &[]);
                }
                Operation::CreateKeyspace { .. } | Operation::DropKeyspace { .. } => {
                    unreachable!("definitions are written by write_definition")
                }
            }
            seq = SeqNo(seq.0 + 1);
        }
        let end = reservation.end();
        workshop.log.publish(reservation)?;
        self.metrics.user_written_bytes.add(user_bytes as u64);
        for partition in distinct() {
            workshop.seal_if_full(partition);
        }
        workshop.watch_log();
        if durability == Durability::Sync {
            workshop.log.sync(end)?;
        }
        Ok(SeqNo(seq.0 - 1))
    }

    /// Writes a record that creates or drops a keyspace, durably. `apply` changes the registry between the copy and
    /// the publication, given where the record begins and its sequence number.
    pub(super) fn write_definition(&self, record: RecordBuilder, apply: impl FnOnce(LogMark, SeqNo)) -> Result<()> {
        let workshop = self.writable()?;
        workshop.health.check()?;
        workshop.wait_for_definitions()?;
        let record = record.finish();
        let reservation = workshop.log.reserve(&record)?;
        workshop.log.copy_in(&reservation, &record)?;
        apply(reservation.mark(), reservation.first_seq());
        let end = reservation.end();
        workshop.log.publish(reservation)?;
        self.environment.point(Point::Published);
        workshop.watch_log();
        workshop.log.sync(end)
    }
}
