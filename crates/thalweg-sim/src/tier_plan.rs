//! [`TierPlan`]: the choices of a seed for the fast tier.

use crate::rng::Rng;
use std::path::Path;
use thalweg::{Builder, FastTier, FastTierForms, FastTierMode};

/// The directory of a fast tier in files, below the directory of the database, so that a checkpoint has its own. After
/// a move a number follows.
pub(crate) const FAST_TIER: &str = "fast";

/// The choices of one seed about the fast tier.
#[derive(Clone, Copy, Debug)]
pub struct TierPlan {
    /// The capacity of the tier, if there is one, and the bytes of log that it may pin.
    pub bytes: Option<(u64, u64)>,
    /// The factor on the drawn sizes of the tier and of level 1. Tables of the tier take at least 4 KiB, so partitions
    /// that merge need a larger tier to have something in it.
    pub times: u64,
    /// Whether the tier is a directory, on a device that loses its unsynced bytes in the same power cut.
    pub in_files: bool,
    /// Whether this device is persistent memory.
    pub in_persistent_memory: bool,
    /// Which of the paper's techniques the tier uses, and how its models are computed; `None`: the defaults.
    pub mode: Option<(FastTierMode, FastTierForms)>,
    /// Whether clients compact the tier.
    pub merges: bool,
    /// Whether its files are copied to another directory between two lives, and the database is opened with this
    /// directory.
    pub moves: bool,
}

impl TierPlan {
    /// No tier.
    pub const NONE: TierPlan = TierPlan {
        bytes: None,
        times: 1,
        in_files: false,
        in_persistent_memory: false,
        mode: None,
        merges: false,
        moves: false,
    };

    /// A tier in half of the plans: so small that it fills up again and again, or with little log.
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

    /// Returns the tier with the default mode, on a disk, where it stays.
    pub fn with_defaults(self) -> Self {
        TierPlan { mode: None, in_persistent_memory: false, merges: false, moves: false, ..self }
    }

    /// The same tier in files, in persistent memory.
    pub fn in_files(self) -> Self {
        TierPlan { in_files: true, in_persistent_memory: true, ..self }
    }

    /// Applies these options to `builder`. `directory` is that of a tier in files.
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

    /// The factor on the drawn size of level 1.
    pub fn level1_times(&self) -> u64 {
        self.bytes.map_or(1, |_| self.times)
    }
}

/// In half of the plans the default. In the others each mode is equally likely, with the paper's forms in a fourth of
/// them.
fn random_mode(mut rng: Rng) -> Option<(FastTierMode, FastTierForms)> {
    use FastTierMode::{Full, P, Pi, Pic, Pm, Ssd};
    let mode = *rng.choose(&[Ssd, P, Pi, Pic, Full, Pm]);
    let forms = if rng.one_in(4) { FastTierForms::Paper } else { FastTierForms::Sound };
    rng.one_in(2).then_some((mode, forms))
}
