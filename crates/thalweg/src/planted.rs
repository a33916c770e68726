//! Bugs that are planted on purpose, each enabled by name, to prove that the tests catch them (`docs/testing.md`).
//!
//! Without the feature `planted-bugs` [`planted`] is the constant `false`, and the compiler removes its uses.

/// A bug that can be enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "docs/testing.md describes each bug")]
pub enum Bug {
    #[cfg_attr(not(feature = "planted-bugs"), expect(dead_code, reason = "used only where bugs are planted"))]
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
    RewrittenAboveOlder,
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
    SpareBeforeRenewal,
    DropEmptiesReads,
    ClearLosesLateWrites,
    MemtableBeforeIndex,
    InputsLeaveIndexFirst,
    PackOrderTrusted,
    NameHashTrusted,
    FingerprintTrusted,
    EqualFenceSkipped,
    PartEndsTooLate,
    PartEndRounded,
    CursorRepeated,
    PackTombstoneDropped,
    PackNumberDroppedEarly,
    PackNumberDroppedUnderSnapshot,
    InputsLeaveOneByOne,
    PackFreedWhileListed,
    LastDirectoryLost,
    TicketTooEarly,
    MemtableFilterForgets,
    SettledWithoutFastSync,
    FastTableForgottenByLog,
    MergeOverVolatile,
    FlushBypassesTier,
    ReplayFlushedTooFar,
    ReplayPinForgotten,
    NewerViewRepeats,
}

#[cfg(feature = "planted-bugs")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Whether `bug` is enabled.
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

/// Enables one bug, and disables every other, in the whole process.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Bug) {
    PLANTED.store(bug as u8, std::sync::atomic::Ordering::Relaxed);
}
