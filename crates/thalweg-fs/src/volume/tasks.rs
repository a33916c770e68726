//! [`Tasks`]: what is left for the background, which `reclaim/` does.

use crate::object::ObjectAttributes;
use crate::row::Ino;
use std::collections::{BTreeMap, BTreeSet};

/// The work left for the background.
#[derive(Default)]
pub(crate) struct Tasks {
    /// Objects that were written and not synced since.
    pub dirty: BTreeSet<Ino>,
    /// Objects that somebody may write to without the volume. They are watched while their inodes are in use.
    pub shared: BTreeMap<Ino, Watched>,
    /// Objects whose file others have changed, until `Volume::take_changed` reports them.
    pub changed: BTreeSet<Ino>,
    /// How often all of `shared` may have been looked at.
    pub looks: u64,
    /// Objects of which a sync has failed. The kernel reports that once, and calls their pages clean from then on.
    pub failed: BTreeSet<Ino>,
    /// Objects without a name, whose files are removed once the removal of the name is durable.
    pub unlinked: BTreeSet<Ino>,
    /// Objects whose file is there and whose row is not yet.
    pub promoted: BTreeSet<Ino>,
    /// Whether files of objects were removed, and it is not known to be durable.
    pub has_removed: bool,
    /// The work that an earlier mount has left.
    pub inherited: Inherited,
}

/// An object that somebody may write to without the volume.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    /// The attributes of its file before the last sync; `None` if a later write may leave them the same.
    pub seen: Option<ObjectAttributes>,
    /// How many have it open for writing.
    pub writers: u32,
    /// How often it was opened for writing.
    pub shares: u64,
    /// How many looks have seen no change.
    pub quiet_looks: u32,
}

/// Which shared objects are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    /// Those that were open for writing or have changed in the last minute.
    Recent,
    /// All.
    All,
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
    /// Whether a sync of all of these has failed: each must be synced by itself, to be told whether it lost bytes.
    pub are_synced_singly: bool,
}
