//! [`Partition`]: a key range of an ordered keyspace, with its own memtables, level 0 and levels.
//!
//! Locks: `view` is held for an `Arc` clone by readers and for a swap by changes; `running` for bookkeeping of jobs.
//! Neither is held over I/O. Order: the log's reserve lock, then `view`.

use super::view::{Slot, View};
use crate::compaction::{Job, Levels, RunningJob};
use crate::error::Error;
use crate::format::{EntryKind, KeyspaceId, LogMark, PartitionId, SeqNo, TableId};
use crate::table::Table;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// See the module.
pub(crate) struct Partition {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) id: PartitionId,
    /// Records at or below it were in tables when the database was opened.
    pub(crate) recovered: SeqNo,
    view: RwLock<Arc<View>>,
    running: Mutex<Vec<RunningJob>>,
    /// Why its last compaction failed; cleared by the next that succeeds.
    trouble: Mutex<Option<Error>>,
    /// The keyspace was dropped: no new jobs, running ones give up.
    dropped: AtomicBool,
}

impl Partition {
    /// A partition with recovered levels, every record at or below `flushed` being in them.
    pub(crate) fn new(keyspace: KeyspaceId, id: PartitionId, flushed: SeqNo, levels: Levels) -> Arc<Self> {
        let view = View { active: Slot::new(flushed), sealed: Vec::new(), levels: Arc::new(levels) };
        Arc::new(Partition {
            keyspace,
            id,
            recovered: flushed,
            view: RwLock::new(Arc::new(view)),
            running: Mutex::new(Vec::new()),
            trouble: Mutex::new(None),
            dropped: AtomicBool::new(false),
        })
    }

    /// What it holds now.
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut View) -> T) -> T {
        let mut guard = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let mut view = View::clone(&guard);
        let result = change(&mut view);
        *guard = Arc::new(view);
        result
    }

    /// Inserts one entry of the record that begins at `mark`; the record is reserved and not yet published.
    pub(crate) fn insert(&self, mark: LogMark, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) {
        self.view().slot_for(seq).insert(mark, key, seq, kind, value);
    }

    /// Seals `slot` at `last`, the last sequence number reserved, if it is still the active one. Called where nothing
    /// can be reserved meanwhile ([`crate::log::Log::at_seal_point`]), so that a record goes to the sealed slot exactly
    /// when its number is at or below `last`.
    pub(crate) fn seal(&self, slot: &Arc<Slot>, last: SeqNo) -> bool {
        self.change(|view| {
            if !Arc::ptr_eq(&view.active, slot) {
                return false;
            }
            slot.seal(last);
            let sealed = std::mem::replace(&mut view.active, Slot::new(last));
            view.sealed.push(sealed);
            true
        })
    }

    /// The oldest sealed memtable is now `table` in level 0 (`None`: it held nothing).
    pub(crate) fn install_flush(&self, slot: &Arc<Slot>, table: Option<Arc<Table>>) {
        self.change(|view| {
            let oldest = view.sealed.remove(0);
            assert!(Arc::ptr_eq(&oldest, slot), "flushes are installed in memtable order");
            if let Some(table) = table {
                let mut levels = Levels::clone(&view.levels);
                level_mut(&mut levels, 0).push(table);
                view.levels = Arc::new(levels);
            }
        });
    }

    /// The job's inputs are replaced by `outputs` in the level below.
    pub(crate) fn install_job(&self, job: &Job, outputs: Vec<Arc<Table>>) {
        let inputs: Vec<TableId> = job.tables().map(|table| table.meta().id).collect();
        self.change(|view| {
            let mut levels = Levels::clone(&view.levels);
            for level in &mut levels {
                level.retain(|table| !inputs.contains(&table.meta().id));
            }
            let lower = level_mut(&mut levels, job.level + 1);
            lower.extend(outputs);
            lower.sort_by(|a, b| a.meta().key_min.cmp(&b.meta().key_min));
            let disjoint = lower.is_sorted_by(|a, b| a.meta().key_max < b.meta().key_min);
            assert!(disjoint, "tables of a level are disjoint");
            view.levels = Arc::new(levels);
        });
    }

    /// The jobs that run now.
    pub(crate) fn running(&self) -> MutexGuard<'_, Vec<RunningJob>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why its compactions fail at present.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_trouble(&self, error: Option<Error>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// Lets go of everything it holds: its keyspace was dropped, and the manifest knows. A writer that was overtaken by
    /// the drop still finds a memtable.
    pub(crate) fn clear(&self) {
        assert!(self.is_dropped(), "only a dropped partition is cleared");
        self.change(|view| *view = View { active: Slot::new(SeqNo(0)), sealed: Vec::new(), levels: Arc::default() });
    }

    pub(crate) fn drop_now(&self) {
        self.dropped.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::SeqCst)
    }
}

fn level_mut(levels: &mut Levels, level: usize) -> &mut Vec<Arc<Table>> {
    if levels.len() <= level {
        levels.resize_with(level + 1, Vec::new);
    }
    &mut levels[level]
}
