//! [`FaultPlan`]: which operations of the simulated disk fail.

use std::ops::BitOr;

/// A set of kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationKinds(u8);

impl OperationKinds {
    /// Reading bytes.
    pub const READS: Self = OperationKinds(1);
    /// Writing bytes and setting lengths.
    pub const WRITES: Self = OperationKinds(2);
    /// Syncing files and directories.
    pub const SYNCS: Self = OperationKinds(4);
    /// Creating, removing, renaming and linking names.
    pub const NAMES: Self = OperationKinds(8);
    /// Opening, locking, listing, and reading lengths.
    pub const LOOKUPS: Self = OperationKinds(16);
    /// Everything that is not a read, a write or a sync.
    pub const METADATA: Self = OperationKinds(8 | 16);
    /// Beginning a write-back.
    pub const WRITE_BACKS: Self = OperationKinds(32);
    /// Every operation.
    pub const ALL: Self = OperationKinds(63);

    /// Whether the two sets share a kind.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for OperationKinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        OperationKinds(self.0 | other.0)
    }
}

/// Which operations are to fail with an input/output error.
///
/// A failing write may have written a part. A failing sync of a file leaves clean pages that the medium lacks. A
/// write-back that fails when it is begun does the same or drops the pages, and no sync reports it. Every other failing
/// operation does nothing.
#[derive(Clone, Copy, Debug)]
pub struct FaultPlan {
    nth: u64,
    kinds: OperationKinds,
    repeats: bool,
}

impl FaultPlan {
    /// Fails the `nth` operation from now, counted from 1, and no other.
    pub fn once(nth: u64) -> Self {
        FaultPlan { nth: nth.max(1), kinds: OperationKinds::ALL, repeats: false }
    }

    /// Fails the `nth` operation from now, counted from 1, and every one after it.
    pub fn from_then_on(nth: u64) -> Self {
        FaultPlan { repeats: true, ..FaultPlan::once(nth) }
    }

    /// Counts and fails only operations of these kinds.
    #[must_use]
    pub fn only(self, kinds: OperationKinds) -> Self {
        FaultPlan { kinds, ..self }
    }

    /// Counts one operation. Returns whether it fails.
    pub(super) fn strikes(&mut self, kind: OperationKinds) -> bool {
        if self.nth == 0 || !self.kinds.meets(kind) {
            return false;
        }
        if self.nth > 1 {
            self.nth -= 1;
            return false;
        }
        if !self.repeats {
            self.nth = 0;
        }
        true
    }
}
