//! Bugs planted on purpose, each switched on by name, to prove that the tests catch them (`docs/testing.md`).
//!
//! Without the feature `planted-bugs` every question is the constant `false`, and the compiler removes it.

/// A bug that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it; docs/testing.md tells each at length")]
pub enum Bug {
    #[cfg_attr(not(feature = "planted-bugs"), expect(dead_code, reason = "only what plants bugs takes them back"))]
    None = 0,
    LogSyncDropped,
    TableSyncDropped,
    DirectorySyncDropped,
    ManifestBeforeTables,
    SyncedOffsetFromPublished,
    SyncClaimsTooMuch,
    TombstoneDroppedEarly,
    RangeEndOffByOne,
    StaleCacheBlock,
    InputsUnlinkedEarly,
    SegmentRecycledEarly,
    AppendAfterTornTail,
    BatchSplit,
    SnapshotIgnoredByCompaction,
    ColdPartitionForgotten,
    EditBeyondLogAccepted,
    ChecksumNotVerified,
    RangeSyncTooShort,
    PinnedLogNotSynced,
    LogLetGoUnsettled,
    JournalAssumed,
    SettledAtOnce,
    LinkedTableCut,
    SharedTableFreed,
    SplitLosesSealed,
    MergeBeforeFlush,
    OpenKeepsReserve,
    WriteBackErrorDropped,
    LostWriteBackSettled,
    DescriptorsPoison,
    LockFreedEarly,
    IntervalBehindPreparation,
    DropEmptiesReads,
    ClearLosesLateWrites,
}

#[cfg(feature = "planted-bugs")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Whether `bug` is switched on.
#[inline]
pub(crate) fn planted(bug: Bug) -> bool {
    #[cfg(feature = "planted-bugs")]
    return PLANTED.load(std::sync::atomic::Ordering::Relaxed) == bug as u8;
    #[cfg(not(feature = "planted-bugs"))]
    {
        let _ = bug;
        false
    }
}

/// Switches on one bug, and off every other, in this whole process.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Bug) {
    PLANTED.store(bug as u8, std::sync::atomic::Ordering::Relaxed);
}
