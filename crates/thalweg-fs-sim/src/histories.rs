//! Histories without crashes: a volume and the model execute the same operations, and are compared after each.

use crate::clock::{SharedClock, VirtualClock};
use crate::memory::MemoryDisk;
use crate::model::Model;
use crate::operation::{CALLERS, Histories};
use crate::pair::{Applied, Pair, check_totals};
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_fs::{Clock, Limits, OpenOptions, ROOT, Result, Volume};
use thalweg_sim::Rng;

/// The storage of a volume.
pub enum Bed {
    /// In memory.
    Memory(MemoryDisk),
    /// In a folder, on the engine and with files for objects.
    Folder(PathBuf),
}

impl Bed {
    fn format(&self, clock: &VirtualClock) -> Result<()> {
        let options = crate::ground::format_options();
        match self {
            Bed::Memory(disk) => Volume::format_on(&disk.rows(), options, clock),
            Bed::Folder(path) => Volume::format(path, options),
        }
    }

    fn open(&self, limits: Limits, clock: &Arc<VirtualClock>) -> Result<Volume> {
        let options = OpenOptions::new().limits(limits).clock(Box::new(SharedClock(Arc::clone(clock))));
        match self {
            Bed::Memory(disk) => options.open_on(Box::new(disk.rows()), Box::new(disk.objects())),
            Bed::Folder(path) => options.open(path),
        }
    }
}

/// Small limits, which operations reach soon.
pub(crate) fn small_limits(seed: u64, rng: &mut Rng) -> Limits {
    Limits {
        rows_bytes_max: *rng.choose(&[200, 1_000, 4_000, 100_000, 1 << 20]),
        rewritten_bytes_max: *rng.choose(&[100, 2_000, 256 << 10]),
        // Not drawn from `rng`, so that seeds keep their operations.
        synced_singly_max: if seed % 7 == 5 { 0 } else { Limits::default().synced_singly_max },
    }
}

/// The model of a volume that was just formatted.
pub(crate) fn formatted(volume: &Volume, clock: &VirtualClock) -> Model {
    let mut model = Model::new(clock.now(), 0o777);
    if let Ok(root) = volume.attributes(ROOT) {
        model.inode_mut(ROOT).stat.times = [root.atime, root.mtime, root.ctime, root.btime];
    }
    model
}

/// Runs a history of `operations` operations, in memory if there is no folder. Compares everything every
/// `compare_every`.
///
/// # Errors
/// The first difference, with the operations before it.
pub fn run_history(
    seed: u64,
    operations: u64,
    compare_every: u64,
    folder: Option<PathBuf>,
) -> std::result::Result<(), String> {
    let clock = Arc::new(VirtualClock::default());
    clock.advance();
    let mut rng = Rng::new(seed);
    let limits = small_limits(seed, &mut rng);
    let bed = match folder {
        Some(folder) => Bed::Folder(folder),
        None => Bed::Memory(MemoryDisk::new(rng.next_u64(), rng.one_in(2), &clock)),
    };
    let mut histories = Histories::new(rng.next_u64());
    let failed = |what: &str, error: thalweg_fs::Error| format!("seed {seed}: {what} failed: {error}");
    bed.format(&clock).map_err(|error| failed("format", error))?;
    let volume = bed.open(limits, &clock).map_err(|error| failed("open", error))?;
    let model = formatted(&volume, &clock);
    let mut pair = Pair::new(volume, model, &clock, ROOT);
    let mut past: std::collections::VecDeque<String> = std::collections::VecDeque::new();
    // A generator of its own, so that seeds keep their operations.
    let mut rooms = Rng::new(seed ^ 0xf0_11);
    for number in 1..=operations {
        if let Bed::Memory(disk) = &bed
            && rooms.one_in(if pair.is_full { 20 } else { 200 })
        {
            pair.is_full = !pair.is_full;
            disk.set_full(pair.is_full);
            past.push_back(format!("full: {}", pair.is_full));
        }
        let (caller, operation) = histories.next(&pair.model);
        let line = format!("{number} {}: {operation:?}", CALLERS[caller].uid);
        if past.len() >= 30 {
            past.pop_front();
        }
        past.push_back(line);
        let mut outcome = match pair.apply(caller, &operation) {
            Ok(Applied::Agreed(_) | Applied::Full) => Ok(()),
            Ok(Applied::Failed(_, error)) => Err(format!("{operation:?} failed: {error}")),
            Err(difference) => Err(difference),
        };
        if outcome.is_ok() && (number % compare_every == 0 || number == operations) {
            outcome = pair.compare().and_then(|()| pair.check(|_| false)).and_then(|()| check_totals(&pair.volume));
            if outcome.is_ok() && rng.one_in(2) {
                past.push_back("reopened".into());
                pair.volume.close().map_err(|error| failed("close", error))?;
                let Pair { volume, mut model, highest, is_full, .. } = pair;
                drop(volume);
                model.remount();
                let volume = bed.open(limits, &clock).map_err(|error| failed("open", error))?;
                pair = Pair::new(volume, model, &clock, highest);
                pair.is_full = is_full;
                if rng.one_in(2) {
                    outcome = work_all(&pair.volume).and_then(|()| pair.compare()).and_then(|()| pair.check(|_| false));
                }
            }
        }
        if let Err(difference) = outcome {
            let past: Vec<String> = past.into();
            return Err(format!("seed {seed}, {limits:?}, operation {number}: {difference}\n{}", past.join("\n")));
        }
    }
    Ok(())
}

/// Does all work that is due.
pub(crate) fn work_all(volume: &Volume) -> std::result::Result<(), String> {
    loop {
        let work = volume.work().map_err(|error| format!("work failed: {error}"))?;
        if !work.is_behind {
            return Ok(());
        }
    }
}
