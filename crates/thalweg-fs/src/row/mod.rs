//! The rows of a volume: what is stored for an entry, an inode, a directory and a volume, byte by byte
//! (`docs/format/volume.md`).
//!
//! - `attributes.rs`: [`Attributes`], and what they are made of.
//! - `entry.rs`: [`EntryRow`] of a name, and [`DirectoryRow`] of a directory's ".".
//! - `key.rs`: the keys of rows that are found by the number of an inode.
//! - `schema_1.rs`: attributes as earlier versions wrote them.
//! - `checked.rs`: the checksum that ends every row.
//! - `superblock.rs`: [`Superblock`], and the small rows of the keyspaces `volume` and `reclaim`.
//! - `fuzz.rs`: reads any bytes as rows, for fuzz targets.
//!
//! Every row ends with a checksum over its key and its bytes. So a row that was changed, or stands at another key, is
//! damage and names itself. The bytes of files have the checksums of the engine's log and tables.

mod attributes;
mod checked;
mod entry;
#[cfg(feature = "fuzzing")]
mod fuzz;
mod key;
mod schema_1;
mod superblock;

pub use attributes::{Attributes, Ino, Kind, Mode, ROOT, Time};
pub(crate) use attributes::{HAS_XATTRS, IS_OBJECT, IS_ORPHAN};
pub(crate) use entry::{DirectoryRow, EntryRow};
#[cfg(feature = "fuzzing")]
pub(crate) use fuzz::{fuzz_rows, seeds};
pub(crate) use key::{data_key, data_offset, inode_key, inode_of, xattr_key, xattr_name};
pub(crate) use superblock::{Debt, FORMAT_VERSION, Superblock, Totals, decode_number, encode_number};
