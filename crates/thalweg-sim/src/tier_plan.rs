//! [`TierPlan`]: what a seed chooses of the fast tier.

use crate::rng::Rng;
use std::path::Path;
use thalweg::{Builder, FastTier, FastTierForms, FastTierMode};

/// The directory of a fast tier in files, below that of the database: a checkpoint has its own there. Where it was
/// moved, a number follows.
pub(crate) const FAST_TIER: &str = "fast";

/// The choices of one seed about the fast tier.
#[derive(Clone, Copy, Debug)]
pub struct TierPlan {
    /// The capacity of the tier, if there is one, and the bytes of log that it may pin.
    pub bytes: Option<(u64, u64)>,
    /// How many times larger the tier and level 1 are than drawn: partitions that merge then have something in the
    /// tier, whose tables take 4 KiB at least.
    pub times: u64,
    /// It is a directory, on a device that loses what was not synced at the same moment.
    pub in_files: bool,
    /// That device is persistent memory.
    pub in_persistent_memory: bool,
    /// Which of the paper's techniques it uses, and how its models are computed.
    pub mode: Option<(FastTierMode, FastTierForms)>,
    /// Whether clients have it compacted.
    pub merges: bool,
    /// Whether its files are copied to another directory between two lives, and the database is opened with that.
    pub moves: bool,
}

impl TierPlan {
    /// No tier; with one, what everybody has.
    pub const NONE: TierPlan = TierPlan {
        bytes: None,
        times: 1,
        in_files: false,
        in_persistent_memory: false,
        mode: None,
        merges: false,
        moves: false,
    };

    /// In half of the plans one: so small that it is full again and again, or with little log.
    pub fn random(rng: &Rng) -> Self {
        let mut of_bytes = rng.aside(39);
        let capacity = *of_bytes.choose(&[4 << 10, 8 << 10, 16 << 10, 64 << 10]);
        let log = *of_bytes.choose(&[256 << 10, 256 << 10, 512 << 10, 8 << 20]);
        TierPlan {
            bytes: of_bytes.one_in(2).then_some((capacity, log)),
            times: *rng.aside(40).choose(&[1, 1, 8]),
            in_files: rng.aside(41).one_in(2),
            in_persistent_memory: rng.aside(43).one_in(2),
            mode: random_mode(rng.aside(42)),
            merges: rng.aside(44).one_in(2),
            moves: rng.aside(45).one_in(3),
        }
    }

    /// The tier that a database has by default, on a disk, where it stays.
    pub fn with_defaults(self) -> Self {
        TierPlan { mode: None, in_persistent_memory: false, merges: false, moves: false, ..self }
    }

    /// The same tier in files, in persistent memory.
    pub fn in_files(self) -> Self {
        TierPlan { in_files: true, in_persistent_memory: true, ..self }
    }

    /// A builder with these options. `directory`: of a tier in files.
    pub fn applied(&self, builder: Builder, directory: &Path, memtable_bytes: usize) -> Builder {
        let Some((bytes, log_bytes)) = self.bytes else { return builder };
        let bytes = (bytes * self.times).max(4 * memtable_bytes as u64);
        let medium = if self.in_files { FastTier::Directory(directory.to_path_buf()) } else { FastTier::Memory };
        let builder = builder.fast_tier(medium, bytes).fast_tier_log_bytes_max(log_bytes);
        match self.mode {
            Some((mode, forms)) => builder.fast_tier_mode(mode).fast_tier_forms(forms),
            None => builder,
        }
    }

    /// How many times larger level 1 is than drawn.
    pub fn level1_times(&self) -> u64 {
        self.bytes.map_or(1, |_| self.times)
    }
}

/// In half of the plans what everybody has, in the others each mode, in a fourth of these with the paper's forms.
fn random_mode(mut rng: Rng) -> Option<(FastTierMode, FastTierForms)> {
    use FastTierMode::{Full, P, Pi, Pic, Pm, Ssd};
    let mode = *rng.choose(&[Ssd, P, Pi, Pic, Full, Pm]);
    let forms = if rng.one_in(4) { FastTierForms::Paper } else { FastTierForms::Sound };
    rng.one_in(2).then_some((mode, forms))
}
