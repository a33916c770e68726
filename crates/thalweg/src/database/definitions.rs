//! Creating, clearing and dropping keyspaces: each writes a record, durably, and changes the registry at once.

use super::engine::Engine;
use super::limits::{validate_name, validate_splits};
use crate::error::{Error, Result};
use crate::format::{KeyspaceKind, LogMark, SeqNo};
use crate::keyspaces::{Keyspace, Kind, NewKeyspace};
use crate::log::{Operation, RecordBuilder};
use crate::ordered::OrderedKeyspace;
use crate::runtime::Point;
use std::sync::Arc;

impl Engine {
    /// See [`crate::Database::create_keyspace`].
    pub(super) fn create_keyspace(
        &self,
        name: &str,
        splits: &[&[u8]],
        kind: KeyspaceKind,
    ) -> Result<Arc<OrderedKeyspace>> {
        let writable = self.writable()?;
        validate_name(name)?;
        validate_splits(splits)?;
        let _turn = self.definition_turn.lock_blocking(&self.environment);
        if self.find(name).is_some() {
            return Err(Error::already_exists(format!(
                "there is a keyspace named {name:?} already; open it, or take another name"
            )));
        }
        let id = self.take_keyspace_id();
        let mut record = RecordBuilder::new();
        record.push(&Operation::CreateKeyspace { keyspace: id, name, splits: splits.to_vec(), kind });
        let splits: Vec<Box<[u8]>> = splits.iter().map(|split| Box::from(*split)).collect();
        let mut created = None;
        self.write_definition(record, |mark, seq| {
            let new = NewKeyspace { id, name, splits, kind, after: seq };
            let creation = new.change();
            let keyspace = writable.kind.create(new);
            created = Arc::clone(&keyspace).downcast();
            writable.registry.create(keyspace, creation, mark, seq);
        })?;
        created.ok_or_else(|| unreachable!("a written definition was applied"))
    }

    /// See [`crate::Database::drop_keyspace`].
    pub(super) fn drop_keyspace(&self, name: &str) -> Result<()> {
        let writable = self.writable()?;
        let _turn = self.definition_turn.lock_blocking(&self.environment);
        let keyspace = self.find(name).ok_or_else(|| Error::NoKeyspace(Arc::from(name)))?;
        let mut record = RecordBuilder::new();
        record.push(&Operation::DropKeyspace { keyspace: keyspace.id() });
        self.write_definition(record, |mark, seq| writable.registry.drop_keyspace(&keyspace, mark, seq))
    }

    /// Writes a record that creates or drops a keyspace, durably. `apply` changes the registry between the copy and the
    /// publication; it gets the beginning of the record and the record's sequence number.
    fn write_definition(&self, record: RecordBuilder, apply: impl FnOnce(LogMark, SeqNo)) -> Result<()> {
        let writable = self.writable()?;
        writable.health.check()?;
        writable.backpressure.wait_for_definitions()?;
        let record = record.finish();
        let reservation = writable.space.reserve_and(&record, |_, _| ())?;
        writable.log.copy_in(&reservation, &record, true)?;
        apply(reservation.mark(), reservation.first_seq());
        writable.signals.definition_queued();
        let end = reservation.end();
        writable.log.publish(reservation)?;
        self.environment.point(Point::Published);
        writable.watch_log();
        writable.log.sync(end)
    }

    /// Clears the keyspace that `present` returns, durably. Entries written before the record are gone; those written
    /// after it stay. The registry has the next generation from the moment at which the record is reserved. So a writer
    /// that was routed before and reserves afterwards is routed again.
    pub(super) fn clear_keyspace(&self, present: impl FnOnce() -> Result<Arc<OrderedKeyspace>>) -> Result<SeqNo> {
        let writable = self.writable()?;
        let _turn = self.definition_turn.lock_blocking(&self.environment);
        let keyspace: Arc<dyn Keyspace> = present()?;
        writable.health.check()?;
        writable.backpressure.wait_for_definitions()?;
        let mut record = RecordBuilder::new();
        record.push(&Operation::ClearKeyspace { keyspace: keyspace.id() });
        let record = record.finish();
        let granted = |mark, seq| writable.registry.clear(&keyspace, mark, seq);
        let reservation = writable.space.reserve_and(&record, granted)?;
        writable.log.copy_in(&reservation, &record, true)?;
        let (seq, end) = (reservation.first_seq(), reservation.end());
        writable.log.publish(reservation)?;
        writable.signals.definition_queued();
        self.environment.point(Point::Published);
        writable.watch_log();
        writable.log.sync(end)?;
        Ok(seq)
    }
}
