//! [`MemoryDisk`]: its contents, the durable part of them, and its death.

use super::object::Object;
use super::tables::{Change, Tables};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg_fs::{Error, Ino, Result};
use thalweg_sim::Rng;

/// The simulated disk. Clones share one disk.
#[derive(Clone)]
pub struct MemoryDisk {
    disk: Arc<Mutex<Disk>>,
    /// The number of reads so far, and the interval of reads after which other threads get to run (0: never).
    yields: Arc<(AtomicU64, AtomicU64)>,
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process dies; the kernel keeps the data that it received.
    Kill,
    /// The power fails.
    PowerCut,
}

pub(super) struct Disk {
    pub rng: Rng,
    pub tables: Tables,
    /// The durable tables; `pending` has the batches committed since.
    pub durable: Tables,
    pub pending: VecDeque<Vec<Change>>,
    /// How many batches were committed, in all.
    pub committed: u64,
    pub objects: BTreeMap<Ino, Object>,
    /// Objects whose removal is not durable, with their durable bytes.
    pub removed: BTreeMap<Ino, Vec<u8>>,
    /// The number of calls that change something; `dies_at` is the one at which the disk dies.
    pub calls: u64,
    pub dies_at: Option<u64>,
    pub is_dead: bool,
    /// The call that fails with an error of the disk; `has_failed`: whether a call has failed.
    pub fails_at: Option<u64>,
    pub has_failed: bool,
    /// Whether rows refuse every further batch, because one has failed.
    pub is_poisoned: bool,
    /// The failed batch, if it is in the log nevertheless.
    pub torn: Option<Vec<Change>>,
    /// Whether there is room only for removals.
    pub is_full: bool,
    pub clock: Arc<crate::clock::VirtualClock>,
}

impl MemoryDisk {
    /// An empty disk. With `has_twins`, names share a few cursors.
    pub fn new(seed: u64, has_twins: bool, clock: &Arc<crate::clock::VirtualClock>) -> Self {
        let disk = Disk {
            rng: Rng::new(seed),
            tables: Tables::new(has_twins),
            durable: Tables::new(has_twins),
            pending: VecDeque::new(),
            committed: 0,
            objects: BTreeMap::new(),
            removed: BTreeMap::new(),
            calls: 0,
            dies_at: None,
            is_dead: false,
            fails_at: None,
            has_failed: false,
            is_poisoned: false,
            torn: None,
            is_full: false,
            clock: Arc::clone(clock),
        };
        MemoryDisk { disk: Arc::new(Mutex::new(disk)), yields: Arc::default() }
    }

    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets other threads run after one in `one_in` reads of rows, to provoke races.
    pub fn yield_after_reads(&self, one_in: u64) {
        self.yields.1.store(one_in, Ordering::Relaxed);
    }

    pub(super) fn read_ended(&self) {
        let one_in = self.yields.1.load(Ordering::Relaxed);
        if one_in > 0 && self.yields.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(one_in) {
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
    }

    /// Makes the disk die at the `calls`th call from now.
    pub fn die_in(&self, calls: u64) {
        let mut disk = self.disk();
        disk.dies_at = Some(disk.calls + calls);
    }

    /// Makes the `calls`th call from now fail with an error of the disk.
    pub fn fail_in(&self, calls: u64) {
        let mut disk = self.disk();
        disk.fails_at = Some(disk.calls + calls);
    }

    /// Whether a call has failed in this life.
    pub fn has_failed(&self) -> bool {
        self.disk().has_failed
    }

    /// Whether rows refuse every further batch.
    pub fn is_poisoned(&self) -> bool {
        self.disk().is_poisoned
    }

    /// Makes the disk full, or no longer full. A full disk refuses everything but removals.
    pub fn set_full(&self, is_full: bool) {
        self.disk().is_full = is_full;
    }

    /// Whether the disk has died.
    pub fn is_dead(&self) -> bool {
        self.disk().is_dead
    }

    /// Ends a life: leaves on the disk what the next life finds.
    pub fn end(&self, how: End) {
        let mut disk = self.disk();
        let disk = &mut *disk;
        (disk.is_dead, disk.dies_at) = (false, None);
        (disk.has_failed, disk.fails_at, disk.is_poisoned, disk.is_full) = (false, None, false, false);
        if let Some(torn) = disk.torn.take() {
            disk.tables.apply(torn.clone());
            disk.pending.push_back(torn);
            disk.committed += 1;
        }
        if how == End::Kill {
            disk.objects.values_mut().for_each(|object| {
                (object.is_inherited, object.is_lost, object.has_error) = (true, false, false);
            });
            return;
        }
        let kept = disk.rng.below(disk.pending.len() as u64 + 1);
        for batch in std::mem::take(&mut disk.pending).into_iter().take(kept as usize) {
            disk.durable.apply(batch);
        }
        disk.tables = disk.durable.clone();
        for (ino, object) in std::mem::take(&mut disk.objects) {
            if let Some(left) = object.after_power_cut(&mut disk.rng) {
                disk.objects.insert(ino, Object::durable(left));
            }
        }
        for (ino, bytes) in std::mem::take(&mut disk.removed) {
            if !disk.objects.contains_key(&ino) && disk.rng.one_in(2) {
                disk.objects.insert(ino, Object::durable(bytes));
            }
        }
    }
}

impl Disk {
    /// Counts a call that changes something. Fails if the disk is dead; marks it dead at the call at which it dies.
    pub(super) fn begin(&mut self) -> Result<()> {
        if self.is_dead {
            return Err(dead());
        }
        self.calls += 1;
        if self.dies_at.is_some_and(|at| self.calls >= at) {
            self.is_dead = true;
        }
        Ok(())
    }

    /// Whether the call that begins now fails with an error of the disk.
    pub(super) fn strikes(&mut self) -> bool {
        let strikes = self.fails_at.is_some_and(|at| self.calls + 1 >= at);
        if strikes {
            (self.fails_at, self.has_failed) = (None, true);
        }
        strikes
    }

    /// Runs a call that changes something. If the call fails with an error of the disk, it may have had its effect or
    /// not.
    pub(super) fn change<T>(&mut self, effect: impl FnOnce(&mut Disk) -> Result<T>) -> Result<T> {
        if !self.strikes() {
            return self.change_surely(effect);
        }
        self.begin()?;
        if self.rng.one_in(2) {
            effect(self)?;
        }
        Err(failed())
    }

    /// Runs a call that changes something. The call at which the disk dies may take effect or not.
    pub(super) fn change_surely<T>(&mut self, effect: impl FnOnce(&mut Disk) -> Result<T>) -> Result<T> {
        self.begin()?;
        if !self.is_dead {
            return effect(self);
        }
        if self.rng.one_in(2) {
            effect(self)?;
        }
        Err(dead())
    }

    pub(super) fn read(&self) -> Result<()> {
        if self.is_dead { Err(dead()) } else { Ok(()) }
    }

    /// Makes batches up to the `number`th durable.
    pub(super) fn make_durable(&mut self, number: u64) {
        while self.committed - (self.pending.len() as u64) < number {
            let Some(batch) = self.pending.pop_front() else { break };
            self.durable.apply(batch);
        }
    }

    pub(super) fn durable_batches(&self) -> u64 {
        self.committed - self.pending.len() as u64
    }
}

/// The error of a failing call.
pub(super) fn failed() -> Error {
    Error::posix(libc::EIO)
}

fn dead() -> Error {
    Error::of_store("the disk has died")
}
