//! [`EngineGround`]: a volume on the engine and on objects, both on one simulated disk.
//!
//! Coroutines of the engine run between the steps of operations, and the simulated kernel writes back in the
//! background. The volume's only client is the main stack.

use crate::clock::VirtualClock;
use crate::engine_objects::SimulatedObjects;
use crate::ground::{Ground, format_options};
use crate::memory::End;
use std::path::Path;
use std::sync::Arc;
use thalweg::Database;
use thalweg::simulation::simulated::{FaultPlan, OperationKinds, SimulatedDisk, Strictness};
use thalweg_fs::{EngineStore, OpenOptions, Result, Volume};
use thalweg_sim::{Rng, World, environment};

/// A simulated disk with a volume.
pub struct EngineGround {
    disk: SimulatedDisk,
    world: Arc<World>,
    rng: Rng,
    clock: Arc<VirtualClock>,
    /// Whether a call of this life may have failed.
    may_fail: bool,
}

impl EngineGround {
    /// An empty disk.
    pub fn new(seed: u64, clock: &Arc<VirtualClock>) -> Self {
        let mut rng = Rng::new(seed ^ 0xe9);
        let disk = SimulatedDisk::new(rng.next_u64());
        disk.share_journal(rng.one_in(2));
        let world = World::new(rng.next_u64(), false);
        EngineGround { disk, world, rng, clock: Arc::clone(clock), may_fail: false }
    }

    /// Opens the rows, in a database that flushes and merges often.
    fn rows(&mut self) -> Result<EngineStore> {
        self.world = World::new(self.rng.next_u64(), false);
        let (disk, mut rng) = (self.disk.clone(), self.rng.fork());
        let one_in = *rng.choose(&[2, 20, 1_000_000]);
        self.world.begin_phase(Some(Box::new(move |_| {
            if rng.one_in(one_in) {
                disk.background_writeback();
            }
        })));
        let builder = Database::builder(Path::new("/db"))
            .environment(environment(&self.world, Arc::new(self.disk.clone()), 0))
            .log_segment_bytes(64 << 10)
            .log_bytes_max(128 << 10)
            .memtable_bytes(*self.rng.choose(&[2 << 10, 8 << 10]))
            .table_bytes(2 << 10)
            .level1_bytes(4 << 10)
            .growth_factor(2)
            .directory_level0_trigger(2);
        EngineStore::new(builder.open()?)
    }
}

impl Ground for EngineGround {
    fn format(&mut self, clock: &VirtualClock) -> Result<()> {
        let rows = self.rows()?;
        Volume::format_on(&rows, format_options(), clock)?;
        thalweg_fs::MetaStore::close(&rows)?;
        drop(rows);
        self.world.clear();
        Ok(())
    }

    fn open(&mut self, options: OpenOptions) -> Result<Volume> {
        let objects = SimulatedObjects::new(self.disk.clone(), &self.clock)?;
        options.open_on(Box::new(self.rows()?), Box::new(objects))
    }

    fn arm(&mut self, rng: &mut Rng) {
        if rng.percent(80) {
            self.disk.crash_at(self.disk.operations() + 1 + rng.any_size(10));
        }
    }

    fn fail(&mut self, rng: &mut Rng) {
        let kinds = OperationKinds::WRITES | OperationKinds::SYNCS | OperationKinds::NAMES;
        self.disk.set_faults(Some(FaultPlan::once(1 + rng.any_size(8)).only(kinds)));
        self.may_fail = true;
    }

    fn has_failed(&self) -> bool {
        self.may_fail
    }

    fn knows_poison(&self) -> bool {
        false
    }

    fn is_poisoned(&self) -> bool {
        false
    }

    fn is_dead(&self) -> bool {
        self.disk.is_dead()
    }

    fn end(&mut self, how: End, rng: &mut Rng) {
        let cuts =
            [Strictness::LoseUnsynced, Strictness::RandomPages, Strictness::TornSectors, Strictness::Ext4Ordered];
        self.disk.set_faults(None);
        self.may_fail = false;
        let strictness = if how == End::Kill { Strictness::ProcessDeath } else { *rng.choose(&cuts) };
        self.disk = self.disk.crash(strictness);
        self.world.clear();
    }
}
