//! [`Partition`]: a key range of an ordered keyspace, with its own memtables, level 0 and levels. [`SuperVersion`]: a
//! point-in-time set of these, immutable.
//!
//! Invariants of a super version: sequence numbers in `active` are above all those in `sealed`, which ascend. For the
//! same key, these are above all in the fast level ([`super::fast_level`]), and those above all in the levels.
//! Memtables sealed and not flushed at a split hold the records of both halves, and are in both super versions.
//!
//! Readers and writers load the super version without a lock. Locks: `changing` is held while a changed super version
//! is made and swapped in, `running` for bookkeeping of jobs. Neither is held over I/O. Order: the log's reserve lock,
//! then `changing`.

use super::chain::Chain;
use super::fast_level::{FastLevel, FastTableHandle, have_lost_tables};
use super::generation::Generation;
use super::level0_reads::{Level0, Level0Bounds, Level0Reads};
use super::no_job::NoJob;
use super::tier::TierReads;
use crate::compaction::{Job, Levels, Policy, RunningJob};
use crate::error::Error;
use crate::format::{KeyspaceId, PartitionId, SeqNo, TableId};
use crate::keyspaces::Pacer;
use crate::memtable::MemtableHandle;
use crate::planted::{Bug, planted};
use crate::runtime::{BackgroundError, BackgroundWork, LastError};
use crate::sync::{Mutex, MutexGuard};
use crate::table::{KeyRange, Table, TableMeta};
use arc_swap::{ArcSwap, Guard};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// A super version that is loaded for a moment: cheaper than an `Arc`, and not to be kept.
pub(crate) type SuperVersionGuard = Guard<Arc<SuperVersion>>;

/// Everything a partition holds at one moment.
#[derive(Clone)]
pub(crate) struct SuperVersion {
    /// The key range of the partition. After a split, memtables and tables may have keys outside of it.
    pub(crate) range: Arc<KeyRange>,
    /// The partition that has the keys behind `range`; `None` before the first split.
    pub(crate) right: Option<Arc<Partition>>,
    pub(crate) active: Arc<MemtableHandle>,
    /// Waiting for their flush, oldest first.
    pub(crate) sealed: Vec<Arc<MemtableHandle>>,
    /// `None` while it has nothing in the fast tier.
    pub(crate) fast: Option<Arc<FastLevel>>,
    pub(crate) levels: Arc<Levels>,
    pub(super) level0_reads: Arc<Level0Reads>,
}

impl SuperVersion {
    /// Whether `key` is in the partition's range. A split may have taken it.
    #[inline]
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        !self.range.is_after(key) && !self.range.is_before(key)
    }

    /// Whether the table has keys outside of the partition's range.
    pub(crate) fn sticks_out(&self, meta: &TableMeta) -> bool {
        self.range.is_after(&meta.key_min) || self.range.is_before(&meta.key_max)
    }

    /// The memtable that a record with this number belongs to.
    pub(crate) fn memtable_for(&self, seq: SeqNo) -> &Arc<MemtableHandle> {
        if self.active.after < seq {
            return &self.active;
        }
        let handle = self.sealed.iter().rev().find(|handle| handle.after < seq);
        // A memtable is flushed only once every record up to its seal is published, and this one is not.
        handle.unwrap_or_else(|| unreachable!("the memtable of an unpublished record was flushed"))
    }

    /// Tables in level 0.
    pub(crate) fn level0_tables(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// Bytes that it has in the fast tier.
    pub(super) fn fast_bytes(&self) -> u64 {
        self.fast.as_ref().map_or(0, |fast| fast.bytes())
    }

    /// How many tables it has in the fast tier, and their bytes, if it has any.
    pub(crate) fn fast_tables_and_bytes(&self) -> Option<(usize, u64)> {
        self.fast.as_ref().map(|fast| (fast.tables().count(), fast.bytes()))
    }

    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<MemtableHandle>> {
        std::iter::once(&self.active).chain(self.sealed.iter().rev())
    }
}

/// A partition as the manifest has it: up to which number it is flushed, and its levels.
pub(crate) struct RecoveredPartition {
    pub(crate) id: PartitionId,
    /// Every record at or below it is in a table.
    pub(crate) flushed: SeqNo,
    pub(crate) levels: Levels,
    /// Its tables in the fast tier that are in files. Where two have the same keys the later one is newer.
    pub(super) fast: Vec<Arc<FastTableHandle>>,
}

/// See the module.
pub(crate) struct Partition {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) id: PartitionId,
    /// Records at or below it were in tables when the database was opened.
    pub(crate) recovered: SeqNo,
    /// The generation, which all partitions of the keyspace share.
    pub(super) generation: Arc<Generation>,
    super_version: ArcSwap<SuperVersion>,
    changing: Mutex<()>,
    /// The numbers of sealed memtables and of tables in level 0. Every write reads them before it begins.
    sealed: AtomicUsize,
    level0: AtomicUsize,
    /// Bytes of its tables, as the budget counts them.
    table_bytes: AtomicU64,
    /// `None` without a fast tier.
    tier_reads: Option<Arc<TierReads>>,
    running: Mutex<Vec<RunningJob>>,
    pub(super) no_job: NoJob,
    /// Bytes that compactions have moved since the last job of level 0.
    pub(super) chain: Chain,
    /// How fast writers may go.
    pub(super) pacer: Pacer,
    /// Why its compactions fail at present.
    trouble: LastError,
    trouble_inputs: Mutex<BTreeSet<TableId>>,
    /// A split is due or a merge is under way: no job begins. Set and read under the lock of `running`.
    reshaping: AtomicBool,
    /// No split or merge begins before this time, because one has failed.
    reshape_retry_at_ns: AtomicU64,
    /// The neighbour that shares its active memtable until they are merged. Changes at seal points.
    joined: Mutex<Weak<Partition>>,
}

impl Partition {
    /// A partition with recovered levels.
    pub(crate) fn new(generation: &Arc<Generation>, range: KeyRange, recovered: RecoveredPartition) -> Arc<Self> {
        let RecoveredPartition { id, flushed, levels, fast } = recovered;
        let reads = generation.options.tier.as_ref().map(|tier| TierReads::new(tier, None));
        let fast = reads.as_ref().and_then(|reads| FastLevel::recovered(fast, &range, reads));
        let super_version = SuperVersion {
            range: Arc::new(range),
            right: None,
            active: MemtableHandle::new(flushed, &generation.memory.pool),
            sealed: Vec::new(),
            fast,
            levels: Arc::new(levels),
            level0_reads: Level0Reads::new(&generation.options.wake),
        };
        Self::with_super_version(generation, id, flushed, super_version, reads)
    }

    pub(super) fn with_super_version(
        generation: &Arc<Generation>,
        id: PartitionId,
        recovered: SeqNo,
        super_version: SuperVersion,
        tier_reads: Option<Arc<TierReads>>,
    ) -> Arc<Self> {
        let table_bytes = bytes_of(&super_version.levels);
        generation.budget.replace_table_bytes(0, table_bytes);
        if let Some(reads) = &tier_reads {
            reads.count_bytes(super_version.fast_bytes());
        }
        Arc::new(Partition {
            keyspace: generation.keyspace,
            id,
            recovered,
            generation: Arc::clone(generation),
            sealed: AtomicUsize::new(super_version.sealed.len()),
            level0: AtomicUsize::new(super_version.level0_tables()),
            super_version: ArcSwap::from_pointee(super_version),
            table_bytes: AtomicU64::new(table_bytes),
            tier_reads,
            changing: Mutex::new(()),
            running: Mutex::new(Vec::new()),
            no_job: NoJob::default(),
            chain: Chain::default(),
            pacer: Pacer::default(),
            trouble: LastError::new(BackgroundWork::Compaction),
            trouble_inputs: Mutex::default(),
            reshaping: AtomicBool::new(false),
            reshape_retry_at_ns: AtomicU64::new(0),
            joined: Mutex::default(),
        })
    }

    /// Loads its super version, for a moment.
    pub(crate) fn super_version(&self) -> SuperVersionGuard {
        self.super_version.load()
    }

    /// Loads its super version, to be kept.
    pub(crate) fn pinned_super_version(&self) -> Arc<SuperVersion> {
        self.super_version.load_full()
    }

    /// Returns the partition that has `key` now. This one had it when the caller looked its route up.
    pub(crate) fn owner_of(self: &Arc<Self>, key: &[u8]) -> Arc<Partition> {
        let mut owner = Arc::clone(self);
        loop {
            let super_version = owner.super_version();
            let right = super_version.right.as_ref().filter(|_| !super_version.covers(key)).map(Arc::clone);
            drop(super_version);
            match right {
                Some(right) => owner = right,
                None => return owner,
            }
        }
    }

    /// Loads the super version that has `key`. This partition had it when the caller looked its route up; splits may
    /// have moved it to the right.
    pub(crate) fn super_version_of(&self, key: &[u8]) -> SuperVersionGuard {
        let mut super_version = self.super_version();
        while let Some(right) = super_version.right.as_ref().filter(|_| !super_version.covers(key)) {
            let right = Arc::clone(right);
            super_version = right.super_version();
        }
        super_version
    }

    /// Memtables that wait for their flush.
    pub(crate) fn sealed_memtables(&self) -> usize {
        self.sealed.load(Ordering::Acquire)
    }

    /// Tables in level 0.
    pub(crate) fn level0_tables(&self) -> usize {
        self.level0.load(Ordering::Acquire)
    }

    /// The policy for its part of the keyspace's budget. If the disk has no room, level 0 is due with its first table.
    pub(super) fn policy(&self) -> Policy {
        let Generation { options, budget, .. } = &*self.generation;
        let policy = budget.policy(&options.policy, self.table_bytes(), options.partitions_max);
        if options.space.is_full() {
            return policy.eager();
        }
        let due_at = self.level0_bounds(&policy).due_at;
        policy.with_level0_due_at(due_at)
    }

    /// How long level 0 may be. If the disk has little room, it is kept short, as if it was read.
    pub(super) fn level0_bounds(&self, policy: &Policy) -> Level0Bounds {
        let (options, trigger) = (&self.generation.options, policy.level0_trigger());
        if trigger == policy.level0_patience() || options.space.is_short() {
            return Level0Bounds { due_at: trigger, press_to: options.level0_stop };
        }
        let now = self.super_version();
        now.level0_reads.bounds(policy, options.level0_stop, Level0::of(&now.levels))
    }

    /// Replaces the super version by a changed one.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut SuperVersion) -> T) -> T {
        let _changing = self.changing.lock();
        let mut super_version = SuperVersion::clone(&self.super_version.load());
        let (before, fast_before) = (Arc::clone(&super_version.levels), super_version.fast.clone());
        let result = change(&mut super_version);
        let (sealed, level0) = (super_version.sealed.len(), super_version.level0_tables());
        if level0 < before.first().map_or(0, Vec::len) {
            super_version.level0_reads.compacted(Level0::of(&before));
        }
        let bytes = (!Arc::ptr_eq(&before, &super_version.levels)).then(|| bytes_of(&super_version.levels));
        if let Some(reads) = self.tier_reads.as_ref().filter(|_| fast_before.is_some() || super_version.fast.is_some())
        {
            reads.count_bytes(super_version.fast_bytes());
        }
        let is_same = fast_before.as_ref().map(Arc::as_ptr) == super_version.fast.as_ref().map(Arc::as_ptr);
        let has_lost =
            !is_same && have_lost_tables(fast_before.as_deref().into_iter(), super_version.fast.as_deref().into_iter());
        self.super_version.store(Arc::new(super_version));
        if let Some(reads) = self.tier_reads.as_ref().filter(|_| has_lost) {
            reads.tables_left();
        }
        // After the super version: a reader that sees no sealed memtable must find the table it became.
        self.sealed.store(sealed, Ordering::Release);
        self.level0.store(level0, Ordering::Release);
        if let Some(bytes) = bytes {
            self.generation.budget.replace_table_bytes(self.table_bytes.swap(bytes, Ordering::Relaxed), bytes);
        }
        result
    }

    /// Seals `memtable` at `last`, the last sequence number reserved, if it is still the active one. Called while no
    /// log space can be reserved ([`crate::log::Log::at_seal_point`]): a record goes to the sealed memtable exactly
    /// when its number is at or below `last`. Two joined partitions stay joined.
    pub(crate) fn seal(&self, handle: &Arc<MemtableHandle>, last: SeqNo) -> bool {
        // Many writers may find a memtable full at once. All but the first are late; they must not allocate.
        if !Arc::ptr_eq(&self.super_version().active, handle) {
            return false;
        }
        let joined = self.joined();
        let next = handle.successor(last, &self.generation.memory.pool);
        if joined.is_some() {
            next.share();
        }
        let is_sealed = self.seal_with(handle, &next, last);
        if let Some(joined) = joined.filter(|_| is_sealed) {
            let follows = joined.seal_with(handle, &next, last);
            assert!(follows, "partitions that are joined have the same active memtable");
        }
        is_sealed
    }

    /// Seals a memtable, and removes its bytes from the count of active memtables.
    pub(super) fn seal_handle(&self, handle: &MemtableHandle, at: SeqNo) {
        self.generation.budget.remove_active_bytes(handle.seal(at));
    }

    /// Counts a memtable that the partition seals as coming into the tier, if there is one.
    pub(super) fn count_coming(&self, handle: &MemtableHandle) {
        // A memtable that a late writer seals in a dropped partition is never flushed.
        if self.tier_reads().is_some() && !self.is_dropped() {
            handle.wait_for_flush();
        }
    }

    /// Seals `handle` at `last`, if it is the active one, and makes `next` follow it.
    pub(super) fn seal_with(&self, handle: &Arc<MemtableHandle>, next: &Arc<MemtableHandle>, last: SeqNo) -> bool {
        self.change(|super_version| {
            let is_active = Arc::ptr_eq(&super_version.active, handle);
            if is_active {
                self.seal_handle(handle, last);
                self.count_coming(handle);
                super_version.sealed.push(std::mem::replace(&mut super_version.active, Arc::clone(next)));
            }
            is_active
        })
    }

    /// Returns the neighbour that shares its active memtable.
    pub(super) fn joined(&self) -> Option<Arc<Partition>> {
        self.joined.lock().upgrade()
    }

    pub(super) fn set_joined(&self, other: Weak<Partition>) {
        *self.joined.lock() = other;
    }

    /// Replaces the oldest sealed memtable by `table` in level 0; by nothing when the memtable was empty.
    pub(crate) fn install_flush(&self, handle: &Arc<MemtableHandle>, table: Option<Arc<Table>>) {
        self.change(|super_version| {
            let oldest = super_version.sealed.remove(0);
            assert!(Arc::ptr_eq(&oldest, handle), "flushes are installed in memtable order");
            if let Some(table) = table {
                let is_newest = super_version.fast.is_none() || planted(Bug::FlushBypassesTier);
                assert!(is_newest, "what is in the fast tier is older than a memtable, and goes to level 0 before it");
                let mut levels = Levels::clone(&super_version.levels);
                level_mut(&mut levels, 0).push(table);
                super_version.levels = Arc::new(levels);
            }
        });
        handle.leave();
    }

    /// Replaces the job's inputs by `outputs` in the level that it writes to.
    pub(crate) fn install_job(&self, job: &Job, outputs: Vec<Arc<Table>>) {
        let inputs: Vec<TableId> = job.tables().map(|table| table.meta().id).collect();
        self.replace(&inputs, job.output_level, outputs);
    }

    /// Removes tables from their levels, and adds others to `level`.
    pub(super) fn replace(&self, inputs: &[TableId], level: usize, outputs: Vec<Arc<Table>>) {
        self.change(|super_version| {
            let mut levels = Levels::clone(&super_version.levels);
            for tables in &mut levels {
                tables.retain(|table| !inputs.contains(&table.meta().id));
            }
            let lower = level_mut(&mut levels, level);
            lower.extend(outputs);
            lower.sort_by(|a, b| a.meta().key_min.cmp(&b.meta().key_min));
            let disjoint = lower.is_sorted_by(|a, b| a.meta().key_max < b.meta().key_min);
            assert!(disjoint, "tables of a level are disjoint");
            super_version.levels = Arc::new(levels);
        });
    }

    /// Counts what `active`, its active memtable, has grown by. Returns the bytes of the memtable.
    pub(crate) fn count_active(&self, active: &MemtableHandle) -> usize {
        let (bytes, grown) = active.count_growth();
        if grown > 0 {
            self.generation.budget.add_active_bytes(grown);
        }
        bytes
    }

    /// The jobs that run now.
    pub(crate) fn running(&self) -> MutexGuard<'_, Vec<RunningJob>> {
        self.running.lock()
    }

    /// Why its compactions fail at present.
    pub(crate) fn trouble(&self) -> Option<BackgroundError> {
        self.trouble.get()
    }

    /// Records that a compaction of `inputs` failed.
    pub(super) fn compaction_failed(&self, inputs: &BTreeSet<TableId>, error: Error, now_ns: u64) -> BackgroundError {
        *self.trouble_inputs.lock() = inputs.clone();
        self.trouble.record(error, now_ns)
    }

    /// Records that a compaction of `inputs` succeeded. That ends a failure of a job with any of these inputs.
    pub(super) fn compaction_done(&self, inputs: &BTreeSet<TableId>) {
        if self.trouble.get().is_none() {
            return;
        }
        let failed = self.trouble_inputs.lock().clone();
        if !failed.is_disjoint(inputs) {
            self.trouble.clear();
        }
    }

    /// Marks its failure as one that a caller wants tried again.
    pub(super) fn ask_for_compactions(&self) {
        self.trouble.request_retry();
    }

    /// Ends its failure: no compaction runs or is wanted.
    pub(super) fn no_compaction_wanted(&self) {
        self.trouble.clear();
    }

    /// Releases everything that it holds. Its keyspace was dropped or cleared, and the manifest knows. A late writer
    /// still finds a memtable.
    pub(crate) fn clear(&self) {
        assert!(self.is_dropped(), "only a dropped partition is cleared");
        let active = MemtableHandle::new(SeqNo(0), &self.generation.memory.pool);
        self.change(|super_version| {
            self.seal_handle(&super_version.active, SeqNo(0));
            super_version.active.memtable.retire();
            super_version.sealed.drain(..).for_each(|handle| handle.memtable.retire());
            super_version.active = active;
            super_version.fast = None;
            super_version.levels = Arc::default();
        });
    }

    /// Whether no job may begin, because a split is due or a merge is under way.
    pub(super) fn is_reshaping(&self) -> bool {
        self.reshaping.load(Ordering::SeqCst)
    }

    /// Lets no split or merge begin before `retry_at_ns`.
    pub(super) fn set_reshape_retry_at(&self, retry_at_ns: u64) {
        self.reshape_retry_at_ns.store(retry_at_ns, Ordering::Relaxed);
    }

    /// Whether a split or merge may begin: the last failure is long enough ago.
    pub(super) fn may_reshape(&self, now_ns: u64) -> bool {
        now_ns >= self.reshape_retry_at_ns.load(Ordering::Relaxed)
    }

    /// Sets or resets [`Partition::is_reshaping`]. The caller holds the lock of `running` from its look at the
    /// partition on.
    pub(super) fn set_reshaping(&self, _running: &[RunningJob], reshaping: bool) {
        self.reshaping.store(reshaping, Ordering::SeqCst);
    }

    /// Bytes of its tables. A table that it shares counts in full.
    pub(super) fn table_bytes(&self) -> u64 {
        self.table_bytes.load(Ordering::Relaxed)
    }

    /// Its reads, for the models of the fast tier.
    pub(super) fn tier_reads(&self) -> Option<&Arc<TierReads>> {
        self.tier_reads.as_ref()
    }

    /// Whether it has nothing in the fast tier.
    pub(super) fn is_out_of_tier(&self) -> bool {
        self.super_version().fast.is_none()
    }

    /// Whether its keyspace was dropped, or cleared.
    pub(crate) fn is_dropped(&self) -> bool {
        self.generation.lifecycle.is_dropped()
    }

    /// Whether its keyspace was cleared.
    pub(super) fn is_cleared(&self) -> bool {
        self.generation.lifecycle.is_cleared()
    }
}

fn bytes_of(levels: &Levels) -> u64 {
    levels.iter().flatten().map(|table| table.meta().bytes).sum()
}

pub(super) fn level_mut(levels: &mut Levels, level: usize) -> &mut Vec<Arc<Table>> {
    if levels.len() <= level {
        levels.resize_with(level + 1, Vec::new);
    }
    &mut levels[level]
}
