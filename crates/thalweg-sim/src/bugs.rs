//! Planted bugs: the checks run with each bug until one catches it. A check that never fails proves nothing, and
//! neither does a check that fails without the bug.
//!
//! `plant` is global to the process, so only one bug is planted at a time, and nothing else runs in the process.

use crate::{damage, every_io, faults, sim};
use thalweg::simulation::{Bug, plant};

/// Every bug and its name.
pub const BUGS: [(&str, Bug); 60] = [
    ("LogSyncDropped", Bug::LogSyncDropped),
    ("TableSyncDropped", Bug::TableSyncDropped),
    ("DirectorySyncDropped", Bug::DirectorySyncDropped),
    ("ManifestBeforeTables", Bug::ManifestBeforeTables),
    ("SyncedOffsetFromPublished", Bug::SyncedOffsetFromPublished),
    ("SyncClaimsTooMuch", Bug::SyncClaimsTooMuch),
    ("TombstoneDroppedEarly", Bug::TombstoneDroppedEarly),
    ("RangeEndOffByOne", Bug::RangeEndOffByOne),
    ("StaleCacheBlock", Bug::StaleCacheBlock),
    ("InputsUnlinkedEarly", Bug::InputsUnlinkedEarly),
    ("SegmentRecycledEarly", Bug::SegmentRecycledEarly),
    ("AppendAfterTornTail", Bug::AppendAfterTornTail),
    ("BatchSplit", Bug::BatchSplit),
    ("SnapshotIgnoredByCompaction", Bug::SnapshotIgnoredByCompaction),
    ("RewrittenAboveOlder", Bug::RewrittenAboveOlder),
    ("ColdPartitionForgotten", Bug::ColdPartitionForgotten),
    ("EditBeyondLogAccepted", Bug::EditBeyondLogAccepted),
    ("ChecksumNotVerified", Bug::ChecksumNotVerified),
    ("RangeSyncTooShort", Bug::RangeSyncTooShort),
    ("PinnedLogNotSynced", Bug::PinnedLogNotSynced),
    ("LogLetGoUnsettled", Bug::LogLetGoUnsettled),
    ("JournalAssumed", Bug::JournalAssumed),
    ("SettledAtOnce", Bug::SettledAtOnce),
    ("LinkedTableCut", Bug::LinkedTableCut),
    ("SharedTableFreed", Bug::SharedTableFreed),
    ("SplitLosesSealed", Bug::SplitLosesSealed),
    ("MergeBeforeFlush", Bug::MergeBeforeFlush),
    ("OpenKeepsReserve", Bug::OpenKeepsReserve),
    ("WriteBackErrorDropped", Bug::WriteBackErrorDropped),
    ("LostWriteBackSettled", Bug::LostWriteBackSettled),
    ("DescriptorsPoison", Bug::DescriptorsPoison),
    ("LockFreedEarly", Bug::LockFreedEarly),
    ("IntervalBehindPreparation", Bug::IntervalBehindPreparation),
    ("SpareBeforeRenewal", Bug::SpareBeforeRenewal),
    ("DropEmptiesReads", Bug::DropEmptiesReads),
    ("ClearLosesLateWrites", Bug::ClearLosesLateWrites),
    ("MemtableBeforeIndex", Bug::MemtableBeforeIndex),
    ("InputsLeaveIndexFirst", Bug::InputsLeaveIndexFirst),
    ("PackOrderTrusted", Bug::PackOrderTrusted),
    ("NameHashTrusted", Bug::NameHashTrusted),
    ("FingerprintTrusted", Bug::FingerprintTrusted),
    ("EqualFenceSkipped", Bug::EqualFenceSkipped),
    ("PartEndsTooLate", Bug::PartEndsTooLate),
    ("PartEndRounded", Bug::PartEndRounded),
    ("CursorRepeated", Bug::CursorRepeated),
    ("PackTombstoneDropped", Bug::PackTombstoneDropped),
    ("PackNumberDroppedEarly", Bug::PackNumberDroppedEarly),
    ("PackNumberDroppedUnderSnapshot", Bug::PackNumberDroppedUnderSnapshot),
    ("InputsLeaveOneByOne", Bug::InputsLeaveOneByOne),
    ("PackFreedWhileListed", Bug::PackFreedWhileListed),
    ("LastDirectoryLost", Bug::LastDirectoryLost),
    ("TicketTooEarly", Bug::TicketTooEarly),
    ("MemtableFilterForgets", Bug::MemtableFilterForgets),
    ("FastTableForgottenByLog", Bug::FastTableForgottenByLog),
    ("SettledWithoutFastSync", Bug::SettledWithoutFastSync),
    ("MergeOverVolatile", Bug::MergeOverVolatile),
    ("FlushBypassesTier", Bug::FlushBypassesTier),
    ("ReplayFlushedTooFar", Bug::ReplayFlushedTooFar),
    ("ReplayPinForgotten", Bug::ReplayPinForgotten),
    ("NewerViewRepeats", Bug::NewerViewRepeats),
];

/// The bug with this name.
pub fn bug_named(name: &str) -> Option<Bug> {
    BUGS.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, bug)| *bug)
}

/// How a bug was caught.
#[derive(Clone, Debug)]
pub struct Catch {
    /// The check: `sim`, `every-io`, `faults` or `damage`.
    pub check: &'static str,
    /// The seed, for `sim`.
    pub seed: Option<u64>,
    /// The violation.
    pub violation: String,
}

/// Runs the checks with one bug planted: `seeds` seeds of `sim`, then the quick variants of the others. `None` when no
/// check caught it.
pub fn catch_bug(bug: Bug, seeds: u64) -> Option<Catch> {
    /// Removes the bug, however the run ends.
    struct Unplant;
    impl Drop for Unplant {
        fn drop(&mut self) {
            plant(Bug::None);
        }
    }
    let _unplant = Unplant;
    plant(bug);
    // A check that also fails without the bug proves nothing.
    let passes_without = |check: &dyn Fn() -> bool| {
        plant(Bug::None);
        let passes = check();
        plant(bug);
        passes
    };
    // Only `damage` damages files; a few seeds would not find this bug.
    let seeds = if bug == Bug::ChecksumNotVerified { 0 } else { seeds };
    for seed in 0..seeds {
        if let Err(violation) = sim::run_seed(seed, false)
            && passes_without(&|| sim::run_seed(seed, false).is_ok())
        {
            return Some(Catch { check: "sim", seed: Some(seed), violation });
        }
    }
    type Bounded = fn() -> Option<String>;
    let bounded: [(&'static str, Bounded); 3] = [
        ("damage", || damage::run(0, true).err()),
        ("every-io", || every_io::run(0, true).err()),
        ("faults", || faults::run(0, true).err()),
    ];
    for (check, run) in bounded {
        if let Some(violation) = run()
            && passes_without(&|| run().is_none())
        {
            return Some(Catch { check, seed: None, violation });
        }
    }
    None
}

/// A Markdown table with one line for each bug, for `docs/testing.md`.
pub fn table(catches: &[(&str, Option<Catch>)]) -> String {
    let mut table = String::from("| planted bug | caught by | what was found |\n|---|---|---|\n");
    for (name, catch) in catches {
        let line = match catch {
            None => format!("| `{name}` | **not caught** | |\n"),
            Some(Catch { check, seed, violation }) => {
                let seed = seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
                let short: String = violation.chars().take(160).collect();
                format!("| `{name}` | `{check}`{seed} | {} |\n", short.replace('|', "\\|"))
            }
        };
        table.push_str(&line);
    }
    table
}
