//! The bytes of files: rows up to a size, objects beyond ([`Limits`](crate::Limits)).
//!
//! - `rows.rs`: [`RowChange`], and how the bytes of a file lie in rows.
//! - `write.rs`, `read.rs`, `resize.rs`: writes, reads, and changes of the size.
//! - `promote.rs`: from rows to an object.
//! - `open.rs`: open, close, sync.
//! - `allocate.rs`: `fallocate` and `SEEK_DATA`.
//! - `share.rs`: [`SharedObject`], an object that somebody reads and writes without the volume.
//!
//! **Rows.** A file is cut into chunks of 64 KiB. A row has bytes of one chunk, and its key says where they begin. Rows
//! do not overlap; what no row has is a hole. A write behind the last byte adds a row. A write over bytes that are
//! there makes one row of all that the chunk has, and so does the 17th row of a chunk.
//!
//! **Promotion**, by lineage: the object is complete before the batch that removes the rows. It is also durable before
//! that batch if any of the rows may be durable. So no power cut takes durable bytes from a file.

mod allocate;
mod open;
mod promote;
mod read;
mod resize;
mod rows;
mod share;
mod write;

pub use allocate::Allocation;
pub(crate) use rows::CHUNK_BYTES;
pub use share::SharedObject;
