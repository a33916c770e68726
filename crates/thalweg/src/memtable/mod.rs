//! [`Memtable`]: the newest entries of a keyspace's buffer, in memory, sorted.
//!
//! A list of leaves in an arena (`docs/memtable.md`). Readers take no lock and never wait; any number of writers insert
//! at once. Entries are never removed, so what a reader saw stays. The memory is freed with the last handle and cursor.
//!
//! Invariants: each `(key, seq)` is inserted once. The owner of a sealed memtable waits for the inserts under way
//! before it flushes; the memtable itself knows no such state. In reading order:
//!
//! - `sync`: what the lock-free parts synchronise with; `pool`, `arena`: memory;
//! - `filter`: which keys it may have; `entry`, `slots`, `leaf`, `list`: the structure; `order`: ranks the slots of a
//!   leaf; `position`: a place in a list;
//! - `sealed_entries`: what a flush reads; `cursor`: walks; `buffer`: the memtable; `handle`: its place in the log.

mod arena;
mod buffer;
mod cursor;
mod entry;
mod filter;
mod handle;
mod leaf;
mod list;
mod order;
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
