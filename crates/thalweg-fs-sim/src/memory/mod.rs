//! [`MemoryDisk`]: rows and objects in memory, with power cuts and deaths of the process.
//!
//! It keeps exactly what the traits of `thalweg-fs` promise and nothing more: batches are whole, and durable in their
//! order; an object is durable when its sync has returned. A power cut leaves any number of the batches that were not
//! durable, and of an object that was not synced any mixture of old and new pages, any length between, or no file. So
//! what survives here survives on every store that keeps the promises, and a seed costs milliseconds.
//!
//! A call may fail with an error of the disk. A batch that fails may be in the log, and no batch is taken after it. An
//! object whose sync failed is not durable, though later syncs of it succeed. On a full disk only removals are taken.
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
