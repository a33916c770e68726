//! [`Memtable`]: the newest entries of a partition, in memory, sorted (DESIGN 7).
//!
//! A list of leaves in an arena (`docs/memtable.md`): readers take no lock and never wait; any number of writers insert
//! at once. Entries are never removed, so what a reader once saw stays. The memory goes when the last handle
//! and cursor do.
//!
//! Invariants: each `(key, seq)` is inserted once. When a memtable is sealed, its owner has waited for the inserts
//! under way (DESIGN 5, "Letting go"); the memtable itself knows no such state. Locks: none of its own.

mod arena;
mod buffer;
mod cursor;
mod entry;
mod handle;
mod leaf;
mod list;
mod order;
mod pages;
mod pool;
mod position;
mod sealed_entries;
mod slots;
mod sync;
#[cfg(test)]
mod tests;

pub(crate) use buffer::Memtable;
pub(crate) use cursor::MemtableCursor;
pub(crate) use handle::MemtableHandle;
pub(crate) use pool::MemtablePool;
pub(crate) use sealed_entries::SealedEntries;
#[cfg(test)]
pub(crate) use tests::model as test_model;
