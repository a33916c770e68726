//! The levels of Thalweg's trees: when level 0 is compacted, how large the levels are, and by which policy.

use crate::settings::{Overlap, Policy, Settings};
use thalweg::{Builder, CompactionPolicy};

/// Applies the settings of the levels to `builder`.
pub(super) fn shaped(mut builder: Builder, settings: &Settings) -> Builder {
    if let Some(tables) = settings.level0_trigger {
        builder = builder.level0_trigger(tables as usize);
    }
    if let Some(tables) = settings.level0_patience {
        builder = builder.level0_patience(tables as usize);
    }
    if let Some(bytes) = settings.level1_bytes {
        builder = builder.level1_bytes(bytes);
    }
    if let Some(factor) = settings.growth_factor {
        builder = builder.growth_factor(u64::from(factor));
    }
    if let Some(partitions) = settings.partitions_max {
        builder = builder.partitions_max(partitions as usize);
    }
    if let Some(policy) = compaction_policy(settings) {
        builder = builder.compaction_policy(policy);
    }
    if let Some(overlap) = settings.overlap {
        builder = builder.vlsm_overlap(match overlap {
            Overlap::Count => thalweg::Overlap::Count,
            Overlap::Ratio => thalweg::Overlap::Ratio,
        });
    }
    builder
}

/// The compaction policy of the settings; `None`: the engine's own default.
fn compaction_policy(settings: &Settings) -> Option<CompactionPolicy> {
    let CompactionPolicy::Vlsm { phi, debt_bytes } = CompactionPolicy::VLSM else { return None };
    Some(match settings.policy? {
        Policy::Leveled => CompactionPolicy::Leveled,
        Policy::Vlsm => CompactionPolicy::Vlsm {
            phi: settings.phi.map_or(phi, u64::from),
            debt_bytes: settings.debt_bytes.unwrap_or(debt_bytes),
        },
    })
}
