//! [`Damage`]: damages to a file, the offsets to damage, and what an open and a check must report.

use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::session::{Opened, Session};
use crate::stage::{ROOT, Stage, root};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use thalweg::simulation::simulated::SimulatedDisk;
use thalweg::{Error, ErrorKind};

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct DamageReport {
    /// The number of files of the database.
    pub files: u64,
    /// Bytes of its log that recovery reads.
    pub log_bytes: u64,
    /// Damages tried: bytes changed, and lengths that files were cut to.
    pub faults: u64,
    /// Damages for which the open was refused.
    pub refused: u64,
    /// Damages to unused bytes, which `check` need not find.
    pub harmless: u64,
    /// Damages tried and opens refused, for the log of a database that was not closed.
    pub unclean_faults: u64,
    /// See `unclean_faults`.
    pub unclean_refused: u64,
    /// Damages after which `PointInTime` opened, and reported that promised writes were dropped.
    pub rolled_back: u64,
    /// Damages after which `PointInTime` was refused too.
    pub hopeless: u64,
}

/// The used ranges of bytes, by file of the log.
pub type Used = BTreeMap<PathBuf, Vec<Range<u64>>>;

/// A damage to one file.
#[derive(Clone, Copy, Debug)]
pub enum Damage {
    /// Flips bits of one byte.
    Flip {
        /// The offset of the byte.
        offset: u64,
        /// The bits to flip.
        mask: u8,
    },
    /// Cuts the file.
    Cut {
        /// The bytes that are left.
        bytes: u64,
    },
}

impl Damage {
    /// Damages the file.
    pub fn strike(self, disk: &SimulatedDisk, path: &Path) {
        let is_done = match self {
            Damage::Flip { offset, mask } => disk.flip(path, offset, mask),
            Damage::Cut { bytes } => disk.truncate(path, bytes),
        };
        assert!(is_done, "the disk has no such place");
    }
}

/// The damages to try at an offset: flips a bit that depends on the offset, and cuts the file there.
pub fn damages(place: u64, quick: bool) -> Vec<Damage> {
    let mask = 1_u8 << (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61);
    let mut damages = vec![Damage::Flip { offset: place, mask }];
    // A cut finds little that a flip does not find, so a quick run makes one cut for several flips.
    if !quick || place.is_multiple_of(4) {
        damages.push(Damage::Cut { bytes: place });
    }
    damages
}

/// The used offsets of a file (with `quick`, a sample), and some unused ones.
pub fn places(used: &Used, path: &Path, bytes: u64, seed: u64, quick: bool) -> Vec<u64> {
    let counting = if quick { 3 } else { 1 };
    let idle = if quick { 1511 } else { 151 };
    let ends = used.get(path).into_iter().flatten().flat_map(|range| [range.start, range.end - 1, range.end]);
    let every = |step: u64| (seed % step..bytes).step_by(step as usize);
    let mut places: Vec<u64> = if is_in(path, "log") {
        every(counting).filter(|place| is_used(used, path, *place)).chain(every(idle)).collect()
    } else if is_idle(path) {
        every(idle).collect()
    } else {
        every(counting).collect()
    };
    places.extend(ends.filter(|place| *place < bytes));
    places.sort_unstable();
    places.dedup();
    places
}

/// Whether a file is in the directory of that name.
pub fn is_in(path: &Path, directory: &str) -> bool {
    path.parent().and_then(Path::file_name).is_some_and(|name| name == directory)
}

/// Whether a file has no content that an open reads.
pub fn is_idle(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "LOCK" || name == "RESERVE" || name == "STATUS")
}

/// Whether recovery reads that byte of the log.
pub fn is_used(used: &Used, path: &Path, place: u64) -> bool {
    used.get(path).is_some_and(|ranges| ranges.iter().any(|range| range.contains(&place)))
}

/// The used bytes in the log of the database on a disk.
pub fn used_log(stage: &Stage) -> Used {
    let mut used = Used::new();
    for (path, range) in must(stage.builder(Path::new(ROOT)).used_log_ranges()) {
        used.entry(path).or_default().push(range);
    }
    used
}

/// Opens the database in a life without failures.
pub fn open(session: &mut Session) -> Opened {
    session.open().unwrap_or_else(|| panic!("an open failed without trouble"))
}

/// Returns the result of a call on a sound database, which must succeed.
pub fn must<T>(outcome: thalweg::Result<T>) -> T {
    outcome.unwrap_or_else(|error| panic!("a sound database failed: {error}"))
}

/// The stage of one damaged copy of a disk.
pub fn stage_on(disk: &SimulatedDisk, plan: &Plan, oracle: &Oracle) -> Stage {
    let world = crate::world::World::new(1, false);
    let stage = Stage::new(plan.clone(), world, disk.snapshot(), oracle.clone());
    stage.world.begin_phase(None);
    stage
}

/// Whether `check` reports damage to the file.
pub fn check_finds(stage: &Stage, path: &Path) -> bool {
    let mut faults = Vec::new();
    let outcome = stage.builder(Path::new(ROOT)).check(&mut |error| faults.push(error));
    faults.iter().for_each(|error| names_file(error, path));
    match outcome {
        Ok(report) => assert_eq!(report.faults, faults.len() as u64, "the check counts what it tells"),
        Err(error) => {
            names_file(&error, path);
            return true;
        }
    }
    !faults.is_empty()
}

/// Asserts that an error is corruption and names the damaged file. `CURRENT` only names the manifest, so damage to it
/// may be reported as a missing manifest.
pub fn names_file(error: &Error, path: &Path) {
    let is_pointer = path.file_name().is_some_and(|name| name == "CURRENT");
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_corruption = root(error).kind() == ErrorKind::Corruption;
    assert!(is_pointer || is_corruption, "an error that is not corruption: {error}");
    assert!(is_pointer || error.to_string().contains(&name), "the error does not name the file: {error}");
}
