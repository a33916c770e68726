//! Bugs that are planted on purpose, each enabled by name, to prove that the tests catch them.
//!
//! Without the feature `planted-bugs` [`planted`] is the constant `false`, and the compiler removes its uses.

/// A bug that can be enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "their names say it; each is one `if planted(…)` in the code")]
pub enum Bug {
    #[cfg_attr(not(feature = "planted-bugs"), expect(dead_code, reason = "used only where bugs are planted"))]
    None = 0,
    ObjectRemovedEarly,
    PromotionNotSynced,
    PromotionLeavesRows,
    TwinLost,
    HighWaterNotStored,
    OrphanKept,
    RenameForgetsLinks,
    ExchangeForgetsDot,
    TruncationLeavesRows,
    AppendOverlaps,
    UnlinkLeavesData,
    PrivilegesKept,
    SyncDoesNotWait,
    MoveBelowItself,
    EntriesMiscounted,
    ReplacingNotSynced,
    GroupNotInherited,
    KilledNotSynced,
    XattrsLeft,
    FirstNameForgotten,
    StaleObjectTrusted,
    UnknownObjectsForgotten,
    TotalsNotRecounted,
    WriteErrorSwallowed,
    RemovalNeedsRoom,
    ShrinkNeedsRoom,
    PromotionRemovedUnsynced,
    SyncOfManySwallowed,
    FailedSyncForgotten,
}

#[cfg(feature = "planted-bugs")]
impl Bug {
    /// Every bug.
    pub const ALL: [Bug; 29] = [
        Bug::ObjectRemovedEarly,
        Bug::PromotionNotSynced,
        Bug::PromotionLeavesRows,
        Bug::TwinLost,
        Bug::HighWaterNotStored,
        Bug::OrphanKept,
        Bug::RenameForgetsLinks,
        Bug::ExchangeForgetsDot,
        Bug::TruncationLeavesRows,
        Bug::AppendOverlaps,
        Bug::UnlinkLeavesData,
        Bug::PrivilegesKept,
        Bug::SyncDoesNotWait,
        Bug::MoveBelowItself,
        Bug::EntriesMiscounted,
        Bug::ReplacingNotSynced,
        Bug::GroupNotInherited,
        Bug::KilledNotSynced,
        Bug::XattrsLeft,
        Bug::FirstNameForgotten,
        Bug::StaleObjectTrusted,
        Bug::UnknownObjectsForgotten,
        Bug::TotalsNotRecounted,
        Bug::WriteErrorSwallowed,
        Bug::RemovalNeedsRoom,
        Bug::ShrinkNeedsRoom,
        Bug::PromotionRemovedUnsynced,
        Bug::SyncOfManySwallowed,
        Bug::FailedSyncForgotten,
    ];
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
