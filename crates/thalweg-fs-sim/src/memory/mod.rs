//! [`MemoryDisk`]: rows and objects in memory, with power cuts and deaths of the process.
//!
//! It keeps exactly the promises of the traits of `thalweg-fs` and nothing more: batches are atomic, and become durable
//! in their order; an object is durable when its sync has returned. A power cut keeps any number of the first batches
//! that were not durable. Of an unsynced object it leaves any mixture of old and new pages, any length between, or no
//! file. So an invariant that holds here holds on every store that keeps the promises, and a seed costs milliseconds.
//!
//! A call may fail with an error of the disk. A failed batch may be in the log, and every later batch is refused. An
//! object whose sync failed is not durable, though later syncs of it succeed. On a full disk only removals are
//! accepted.
//!
//! - `disk.rs`: [`MemoryDisk`].
//! - `tables.rs`: the rows; `rows.rs`: [`MemoryRows`], a `MetaStore` on them.
//! - `object.rs`: an object; `objects.rs`: [`MemoryObjects`], an `ObjectStore`.

mod disk;
mod object;
mod objects;
mod rows;
mod tables;

pub use disk::{End, MemoryDisk};
pub use objects::MemoryObjects;
pub use rows::MemoryRows;

impl MemoryDisk {
    /// The store of rows.
    pub fn rows(&self) -> MemoryRows {
        MemoryRows::new(self.clone())
    }

    /// The store of objects.
    pub fn objects(&self) -> MemoryObjects {
        MemoryObjects::new(self.clone())
    }
}
