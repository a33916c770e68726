//! Ordered keyspaces: memtables over level 0 over levels, a partition a key range (DESIGN 7).
//!
//! A put goes to the active memtable of its partition ([`view::Slot`]); a full memtable is *sealed* at a sequence
//! number and flushed to a level-0 table ([`flusher`]); tables are merged downwards ([`compactor`]), large jobs in
//! [`subtasks`]. A partition that has grown is split in two ([`splits`]), and two that have shrunk become one
//! ([`merges`]). A clear begins a keyspace anew ([`generations`]). Readers take one [`view::View`] and never look back.

mod chain;
mod compactor;
pub(crate) mod cursor;
mod flusher;
mod generations;
mod keyspace;
pub(crate) mod memtable;
mod merges;
mod pacing;
mod partition;
mod read;
mod rest;
mod room;
mod share;
mod snapshots;
mod splits;
mod subtasks;
mod view;
mod workshop;

pub(crate) use keyspace::{OrderedKeyspace, RecoveredPartition};
pub(crate) use memtable::MemtablePool;
pub(crate) use partition::{Partition, ViewGuard};
pub(crate) use read::ViewSource;
pub(crate) use share::Share;
pub(crate) use snapshots::{SnapshotRegistry, SnapshotSeq};
pub(crate) use workshop::{DefinitionEdit, OrderedOptions, Registry, Workshop};
