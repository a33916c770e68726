//! [`SpaceWatch`]: refuses puts and frees space where the file system has little room ([`crate::runtime::Space`]).
//!
//! Removals go on when puts are refused. They use the space that was left free, and at last the reserve. Small batches
//! go on, too, if their caller says that they free space (`frees_space`) and they remove something.

use super::registry::Registry;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{LogMark, SeqNo};
use crate::lineage::Lineage;
use crate::log::{Log, Operation, Record, Reservation};
use crate::runtime::{Room, Space};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest record, in bytes, that counts as freeing space because its caller says so. A caller that says so of
/// every record can thus spend little of the kept space with each write. The bound leaves room for a file system in the
/// database, which rewrites the rest of a row of 64 KiB when it truncates a file.
const FREEING_BYTES_MAX: usize = 80 << 10;

/// See the module.
pub(crate) struct SpaceWatch {
    space: Arc<Space>,
    log: Arc<Log>,
    lineage: Arc<Lineage>,
    registry: Arc<Registry>,
    /// The log's bytes at the last look.
    seen_backlog: AtomicU64,
}

impl SpaceWatch {
    pub(crate) fn new(
        space: &Arc<Space>,
        log: &Arc<Log>,
        lineage: &Arc<Lineage>,
        registry: &Arc<Registry>,
    ) -> Arc<Self> {
        Arc::new(SpaceWatch {
            space: Arc::clone(space),
            log: Arc::clone(log),
            lineage: Arc::clone(lineage),
            registry: Arc::clone(registry),
            seen_backlog: AtomicU64::new(0),
        })
    }

    /// The space of the database.
    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Looks at the room of the file system, if the log has a segment more or less since the last look. Returns whether
    /// it has.
    pub(crate) fn watch(&self) -> bool {
        let backlog = self.log.backlog_bytes();
        let has_changed = self.seen_backlog.load(Ordering::Relaxed) != backlog;
        if has_changed {
            self.seen_backlog.store(backlog, Ordering::Relaxed);
            self.look();
        }
        has_changed
    }

    /// Looks at the room again if it was short. Called after a flush or a compaction.
    pub(crate) fn watch_short(&self) {
        if self.space.is_short() {
            self.look();
        }
    }

    /// Looks at the room that is left beside what flushes and compactions will take.
    fn look(&self) -> Room {
        self.space.look(self.registry.keyspaces().iter().map(|keyspace| keyspace.pending_bytes()).sum())
    }

    /// Whether a write of `record` is refused for want of room.
    pub(crate) fn refuses(&self, record: &Record, frees_space: bool) -> bool {
        let room = self.look();
        room.bytes == 0 && !(room.for_removals && is_freeing(record, frees_space))
    }

    /// Gives up the reserve for removals, else returns `NoSpace`. Called when nothing gives room back to a refused
    /// write.
    pub(crate) fn spend_reserve(&self, record: &Record, frees_space: bool) -> Result<()> {
        if !is_freeing(record, frees_space) {
            return Err(Error::NoSpace { path: Arc::from(self.space.root()) });
        }
        // The free space that is left is for removals.
        self.space.give_up_reserve();
        Ok(())
    }

    /// Gives up the reserve if `error` says that the disk is full, and settles edits soon, so that the tables they
    /// replaced are removed. Called after background work failed with `error`.
    pub(crate) fn make_room_after(&self, error: &Error) {
        if error.kind() == ErrorKind::NoSpace {
            self.space.give_up_reserve();
            self.lineage.settle_for_space();
        }
    }

    /// Reserves log space. Removals, which may free space in the end, use the space that was set aside for them.
    pub(crate) fn reserve(&self, record: &Record, frees_space: bool) -> Result<Reservation<'_>> {
        self.reserve_as(record, frees_space, |_, _| ())
    }

    /// As [`SpaceWatch::reserve`], and runs `granted` as [`Log::reserve_and`] does.
    pub(crate) fn reserve_and(&self, record: &Record, granted: impl FnMut(LogMark, SeqNo)) -> Result<Reservation<'_>> {
        self.reserve_as(record, false, granted)
    }

    fn reserve_as(
        &self,
        record: &Record,
        frees_space: bool,
        mut granted: impl FnMut(LogMark, SeqNo),
    ) -> Result<Reservation<'_>> {
        match self.log.reserve_and(record, &mut granted) {
            Err(error)
                if error.kind() == ErrorKind::NoSpace
                    && is_freeing(record, frees_space)
                    && self.space.give_up_reserve() =>
            {
                self.log.reserve_and(record, granted)
            }
            reserved => reserved,
        }
    }
}

/// Whether a record may take what is kept for removals. It may if it does nothing but remove. If its caller says that
/// it frees space, it may also insert, as long as it is small and removes something.
fn is_freeing(record: &Record, frees_space: bool) -> bool {
    let removes = |operation| {
        matches!(operation, Operation::Remove { .. } | Operation::DropKeyspace { .. } | Operation::ClearKeyspace { .. })
    };
    record.operations().all(removes)
        || (frees_space && record.bytes() <= FREEING_BYTES_MAX && record.operations().any(removes))
}
