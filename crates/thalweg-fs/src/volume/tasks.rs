//! [`Tasks`]: what is left for the background, which `reclaim/` does.

use crate::row::Ino;
use std::collections::BTreeSet;

/// What is left for the background.
#[derive(Default)]
pub(crate) struct Tasks {
    /// Objects that were written and not synced since.
    pub dirty: BTreeSet<Ino>,
    /// Objects of which a sync has failed. The kernel reports that once, and calls their pages clean from then on.
    pub failed: BTreeSet<Ino>,
    /// Objects without a name, whose files go once that is durable.
    pub unlinked: BTreeSet<Ino>,
    /// Objects whose file is there and whose row is not yet.
    pub promoted: BTreeSet<Ino>,
    /// Whether files of objects were removed, and it is not known to be durable.
    pub has_removed: bool,
    /// What an earlier mount has left.
    pub inherited: Inherited,
}

/// How far the work after an open has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inherited {
    /// The inode from which on debts are left; `None` once all are paid.
    pub debts_from: Option<Ino>,
    /// Whether object files must be looked at.
    pub has_unknown_objects: bool,
    /// Whether the number of inodes may be wrong.
    pub has_unknown_totals: bool,
    /// Whether an earlier process may have written to objects without a sync.
    pub has_unsynced_objects: bool,
}
