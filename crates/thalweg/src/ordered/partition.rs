//! [`Partition`]: a key range of an ordered keyspace, with its own memtables, level 0 and levels.
//!
//! Readers and writers load the view without a lock. Locks: `changing` is held while a changed view is made and swapped
//! in, `running` for bookkeeping of jobs. Neither is held over I/O. Order: the log's reserve lock, then `changing`.

use super::OrderedOptions;
use super::chain::Chain;
use super::memtable::MemtablePool;
use super::pacing::Pacer;
use super::share::Share;
use super::view::{Slot, View};
use crate::compaction::{Job, Levels, Policy, RunningJob};
use crate::error::Error;
use crate::format::{KeyspaceId, PartitionId, SeqNo, TableId};
use crate::planted::{Bug, planted};
use crate::runtime::{BackgroundError, BackgroundWork, LastError};
use crate::table::{KeyRange, Table, TableMeta};
use arc_swap::{ArcSwap, Guard};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A view that was loaded for a look: cheaper than an `Arc`, and not to be kept.
pub(crate) type ViewGuard = Guard<Arc<View>>;

/// See the module.
pub(crate) struct Partition {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) id: PartitionId,
    /// Records at or below it were in tables when the database was opened.
    pub(crate) recovered: SeqNo,
    /// Where its memtables' memory comes from.
    pool: MemtablePool,
    /// What it has together with the other partitions of its keyspace.
    pub(super) share: Arc<Share>,
    view: ArcSwap<View>,
    changing: Mutex<()>,
    /// Sealed memtables, and tables in level 0, of the view: what every write asks before it begins.
    sealed: AtomicUsize,
    level0: AtomicUsize,
    /// Bytes of the view's tables, as far as the share knows of them.
    table_bytes: AtomicU64,
    running: Mutex<Vec<RunningJob>>,
    /// What its compactions have moved since level 0 gave tables last.
    pub(super) chain: Chain,
    /// How fast writers may go.
    pub(super) pacer: Pacer,
    /// Why its last compaction failed; cleared by the next that succeeds.
    /// Why its compactions fail, and the inputs of the last one that did.
    trouble: LastError,
    trouble_inputs: Mutex<BTreeSet<TableId>>,
    /// It is to be split or is being merged: no new jobs. Set and read with `running`.
    reshaping: AtomicBool,
    /// A split or merge has failed: the next is not before this.
    reshapes_barred_until_ns: AtomicU64,
    /// The neighbour with which it has its active memtable in common, until they are merged. Changed at seal points.
    joined: Mutex<Weak<Partition>>,
}

impl Partition {
    /// A partition with recovered levels, every record at or below `flushed` being in them.
    pub(crate) fn new(
        keyspace: KeyspaceId,
        id: PartitionId,
        range: KeyRange,
        flushed: SeqNo,
        levels: Levels,
        share: &Arc<Share>,
        pool: &MemtablePool,
    ) -> Arc<Self> {
        let view = View {
            range: Arc::new(range),
            right: None,
            active: Slot::new(flushed, pool, 0),
            sealed: Vec::new(),
            levels: Arc::new(levels),
        };
        Self::with_view(keyspace, id, flushed, view, share, pool)
    }

    fn with_view(
        keyspace: KeyspaceId,
        id: PartitionId,
        recovered: SeqNo,
        view: View,
        share: &Arc<Share>,
        pool: &MemtablePool,
    ) -> Arc<Self> {
        let table_bytes = bytes_of(&view.levels);
        share.holds(0, table_bytes);
        Arc::new(Partition {
            keyspace,
            id,
            recovered,
            pool: pool.clone(),
            share: Arc::clone(share),
            sealed: AtomicUsize::new(view.sealed.len()),
            level0: AtomicUsize::new(view.level0_tables()),
            view: ArcSwap::from_pointee(view),
            table_bytes: AtomicU64::new(table_bytes),
            changing: Mutex::new(()),
            running: Mutex::new(Vec::new()),
            chain: Chain::default(),
            pacer: Pacer::default(),
            trouble: LastError::new(BackgroundWork::Compaction),
            trouble_inputs: Mutex::default(),
            reshaping: AtomicBool::new(false),
            reshapes_barred_until_ns: AtomicU64::new(0),
            joined: Mutex::default(),
        })
    }

    /// What it holds now, for a look.
    pub(crate) fn view(&self) -> ViewGuard {
        self.view.load()
    }

    /// What it holds now, to be kept.
    pub(crate) fn pinned_view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// The partition that has `key` now, which this one had when it was looked for.
    pub(crate) fn owner_of(self: &Arc<Self>, key: &[u8]) -> Arc<Partition> {
        let mut owner = Arc::clone(self);
        loop {
            let view = owner.view();
            let right = view.right.as_ref().filter(|_| !view.covers(key)).map(Arc::clone);
            drop(view);
            match right {
                Some(right) => owner = right,
                None => return owner,
            }
        }
    }

    /// The view that has `key`, which this partition had when it was looked for: its own, or after splits one to the
    /// right of it.
    pub(crate) fn view_of(&self, key: &[u8]) -> ViewGuard {
        let mut view = self.view();
        while let Some(right) = view.right.as_ref().filter(|_| !view.covers(key)) {
            let right = Arc::clone(right);
            view = right.view();
        }
        view
    }

    /// Memtables that wait for their flush.
    pub(crate) fn sealed_memtables(&self) -> usize {
        self.sealed.load(Ordering::Acquire)
    }

    /// Tables in level 0.
    pub(crate) fn level0_tables(&self) -> usize {
        self.level0.load(Ordering::Acquire)
    }

    /// The policy for what it has of its keyspace's.
    pub(super) fn policy(&self, options: &OrderedOptions) -> Policy {
        self.share.policy(&options.policy, self.table_bytes.load(Ordering::Relaxed), options.partitions_max)
    }

    fn change<T>(&self, change: impl FnOnce(&mut View) -> T) -> T {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut view = View::clone(&self.view.load());
        let before = Arc::clone(&view.levels);
        let result = change(&mut view);
        let (sealed, level0) = (view.sealed.len(), view.level0_tables());
        let bytes = (!Arc::ptr_eq(&before, &view.levels)).then(|| bytes_of(&view.levels));
        self.view.store(Arc::new(view));
        // After the view: whoever hears that no memtable waits must find the table it became.
        self.sealed.store(sealed, Ordering::Release);
        self.level0.store(level0, Ordering::Release);
        if let Some(bytes) = bytes {
            self.share.holds(self.table_bytes.swap(bytes, Ordering::Relaxed), bytes);
        }
        result
    }

    /// Seals `slot` at `last`, the last sequence number reserved, if it is still the active one. Called where nothing
    /// can be reserved meanwhile ([`crate::log::Log::at_seal_point`]), so that a record goes to the sealed slot exactly
    /// when its number is at or below `last`. Two partitions that are joined stay so.
    pub(crate) fn seal(&self, slot: &Arc<Slot>, last: SeqNo) -> bool {
        // Of many writers that have seen it full all but the first are late, and should allocate nothing here.
        if !Arc::ptr_eq(&self.view().active, slot) {
            return false;
        }
        let joined = self.joined();
        let next = Slot::new(last, &self.pool, slot.memtable.bytes());
        if joined.is_some() {
            next.set_shared();
        }
        let is_sealed = self.seal_with(slot, &next, last);
        if let Some(joined) = joined.filter(|_| is_sealed) {
            let follows = joined.seal_with(slot, &next, last);
            assert!(follows, "partitions that are joined have the same active memtable");
        }
        is_sealed
    }

    /// Seals `slot` at `last`, if it is the active one, and has `next` follow it.
    fn seal_with(&self, slot: &Arc<Slot>, next: &Arc<Slot>, last: SeqNo) -> bool {
        self.change(|view| {
            let is_active = Arc::ptr_eq(&view.active, slot);
            if is_active {
                slot.seal(last, &self.share);
                view.sealed.push(std::mem::replace(&mut view.active, Arc::clone(next)));
            }
            is_active
        })
    }

    /// Splits it at `at`: the keys from there on are those of a new partition, which `publish` makes known. Everything
    /// written so far stays where it is, shared by both. Called as [`Partition::seal`] is, without jobs and flushes.
    ///
    /// The new one is known before this one gives its keys up; between the two both show the same.
    pub(crate) fn split(&self, at: &[u8], id: PartitionId, last: SeqNo, publish: impl FnOnce(&Arc<Partition>)) {
        self.change(|view| {
            view.active.seal(last, &self.share);
            self.share.joined();
            view.sealed.push(Arc::clone(&view.active));
            view.sealed.iter().for_each(|slot| slot.set_shared());
            let (lower, upper) = (Some(Box::from(at)), view.range.to.clone());
            let mut right = View::clone(view);
            right.range = Arc::new(KeyRange { from: lower.clone(), to: upper });
            if planted(Bug::SplitLosesSealed) {
                right.sealed.clear();
            }
            // The new one's memtables will be half as large, or less.
            right.active = Slot::new(last, &self.pool, 0);
            right.levels = levels_where(&view.levels, |meta| *meta.key_max >= *at);
            let right = Self::with_view(self.keyspace, id, SeqNo(0), right, &self.share, &self.pool);
            right.pacer.share_with(&self.pacer);
            publish(&right);
            view.range = Arc::new(KeyRange { from: view.range.from.clone(), to: lower });
            view.right = Some(right);
            view.active = Slot::new(last, &self.pool, 0);
            view.levels = levels_where(&view.levels, |meta| *meta.key_min < *at);
        });
    }

    fn joined(&self) -> Option<Arc<Partition>> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    fn set_joined(&self, other: Weak<Partition>) {
        *self.joined.lock().unwrap_or_else(PoisonError::into_inner) = other;
    }

    /// Gives two neighbours one active memtable, for the records of both. Called as [`Partition::seal`] is.
    pub(super) fn join(left: &Arc<Self>, right: &Arc<Self>, last: SeqNo) {
        let common = Slot::new(last, &left.pool, 0);
        common.set_shared();
        for partition in [left, right] {
            partition.seal_with(&partition.pinned_view().active, &common, last);
        }
        left.set_joined(Arc::downgrade(right));
        right.set_joined(Arc::downgrade(left));
    }

    /// Undoes [`Partition::join`]: each has an active memtable again, and its part of the common one to flush. Called
    /// as [`Partition::seal`] is.
    pub(super) fn part(left: &Arc<Self>, right: &Arc<Self>, last: SeqNo) {
        for partition in [left, right] {
            partition.set_joined(Weak::new());
            let next = Slot::new(last, &partition.pool, 0);
            partition.seal_with(&partition.pinned_view().active, &next, last);
        }
    }

    /// Takes over what `right` has, to which it is joined; `publish` makes known that there is no `right` any more.
    /// Called as [`Partition::seal`] is, without jobs and flushes.
    ///
    /// `right` gives its keys up last; before that both show the same.
    pub(super) fn absorb(self: &Arc<Self>, right: &Arc<Self>, publish: impl FnOnce()) {
        let taken = right.pinned_view();
        self.change(|view| {
            if planted(Bug::MergeBeforeFlush) {
                view.sealed.clone_from(&taken.sealed);
            }
            let is_joined = Arc::ptr_eq(&view.active, &taken.active)
                && view.sealed.len() == taken.sealed.len()
                && view.sealed.iter().zip(&taken.sealed).all(|(a, b)| Arc::ptr_eq(a, b));
            assert!(is_joined, "partitions that are merged have the same memtables");
            view.range = Arc::new(KeyRange { from: view.range.from.clone(), to: taken.range.to.clone() });
            view.right.clone_from(&taken.right);
            let mut levels = Levels::clone(&view.levels);
            for (number, level) in taken.levels.iter().enumerate() {
                level_mut(&mut levels, number).extend(level.iter().cloned());
            }
            view.levels = Arc::new(levels);
        });
        self.chain.take_over(&right.chain);
        publish();
        right.change(|view| {
            // Whoever still comes here goes on to the one that has the keys.
            view.range = Arc::new(KeyRange { from: view.range.from.clone(), to: view.range.from.clone() });
            view.right = Some(Arc::clone(self));
            view.active = Slot::new(SeqNo(0), &right.pool, 0);
            view.active.seal(SeqNo(0), &right.share);
            view.sealed.clear();
            view.levels = Arc::default();
        });
        self.share.left();
        for partition in [self, right] {
            partition.set_joined(Weak::new());
        }
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
        self.replace(&inputs, job.level + 1, outputs);
    }

    /// Takes tables out of their levels, and puts others into `level`.
    pub(super) fn replace(&self, inputs: &[TableId], level: usize, outputs: Vec<Arc<Table>>) {
        self.change(|view| {
            let mut levels = Levels::clone(&view.levels);
            for tables in &mut levels {
                tables.retain(|table| !inputs.contains(&table.meta().id));
            }
            let lower = level_mut(&mut levels, level);
            lower.extend(outputs);
            lower.sort_by(|a, b| a.meta().key_min.cmp(&b.meta().key_min));
            let disjoint = lower.is_sorted_by(|a, b| a.meta().key_max < b.meta().key_min);
            assert!(disjoint, "tables of a level are disjoint");
            view.levels = Arc::new(levels);
        });
    }

    /// Has what is in the active memtable counted.
    pub(crate) fn count_active(&self) {
        self.view().active.count(&self.share);
    }

    /// The jobs that run now.
    pub(crate) fn running(&self) -> MutexGuard<'_, Vec<RunningJob>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why its compactions fail at present.
    pub(crate) fn trouble(&self) -> Option<BackgroundError> {
        self.trouble.get()
    }

    /// A compaction of `inputs` failed.
    pub(super) fn compaction_failed(&self, inputs: &BTreeSet<TableId>, error: Error, now_ns: u64) -> BackgroundError {
        *self.trouble_inputs.lock().unwrap_or_else(PoisonError::into_inner) = inputs.clone();
        self.trouble.record(error, now_ns)
    }

    /// A compaction of `inputs` was done: that ends the trouble with any of them. Others go on beside what fails.
    pub(super) fn compaction_done(&self, inputs: &BTreeSet<TableId>) {
        if self.trouble.get().is_none() {
            return;
        }
        let failed = self.trouble_inputs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !failed.is_disjoint(inputs) {
            self.trouble.clear();
        }
    }

    /// Somebody asks for its compactions.
    pub(super) fn ask_for_compactions(&self) {
        self.trouble.request_retry();
    }

    /// No compaction runs or is wanted, so none fails.
    pub(super) fn no_compaction_wanted(&self) {
        self.trouble.clear();
    }

    /// Lets go of everything it holds: its keyspace was dropped or cleared, and the manifest knows. A writer that was
    /// overtaken by that still finds a memtable.
    pub(crate) fn clear(&self) {
        assert!(self.is_dropped(), "only a dropped partition is cleared");
        let active = Slot::new(SeqNo(0), &self.pool, 0);
        self.change(|view| {
            view.active.seal(SeqNo(0), &self.share);
            view.active = active;
            view.sealed.clear();
            view.levels = Arc::default();
        });
    }

    /// Whether no job may begin, because it is to be split or is being merged.
    pub(super) fn is_reshaping(&self) -> bool {
        self.reshaping.load(Ordering::SeqCst)
    }

    /// No split or merge is tried before `until_ns`.
    pub(super) fn bar_reshapes(&self, until_ns: u64) {
        self.reshapes_barred_until_ns.store(until_ns, Ordering::Relaxed);
    }

    pub(super) fn reshapes_are_barred(&self, now_ns: u64) -> bool {
        now_ns < self.reshapes_barred_until_ns.load(Ordering::Relaxed)
    }

    /// Says so, or takes it back. With `running`: who has seen it there must not say it again for the partition as it
    /// was.
    pub(super) fn set_reshaping(&self, _running: &[RunningJob], reshaping: bool) {
        self.reshaping.store(reshaping, Ordering::SeqCst);
    }

    /// Bytes of its tables, of those that it shares all.
    pub(super) fn table_bytes(&self) -> u64 {
        self.table_bytes.load(Ordering::Relaxed)
    }

    /// Whether its keyspace was dropped, or cleared.
    pub(crate) fn is_dropped(&self) -> bool {
        self.share.is_dropped()
    }
}

fn bytes_of(levels: &Levels) -> u64 {
    levels.iter().flatten().map(|table| table.meta().bytes).sum()
}

/// The tables that `keep` takes, in the same levels.
fn levels_where(levels: &Levels, keep: impl Fn(&TableMeta) -> bool) -> Arc<Levels> {
    let kept = |level: &Vec<Arc<Table>>| level.iter().filter(|table| keep(table.meta())).cloned().collect();
    Arc::new(levels.iter().map(kept).collect())
}

fn level_mut(levels: &mut Levels, level: usize) -> &mut Vec<Arc<Table>> {
    if levels.len() <= level {
        levels.resize_with(level + 1, Vec::new);
    }
    &mut levels[level]
}
