//! A POSIX file system on Thalweg's directory keyspaces, as a library: PhatKV's use as the metadata engine of a file
//! system (PHAT-E7), with the files' bytes beside it.
//!
//! [`Volume`] is the file system: operations by the number of an inode, as the kernel has them, and by path
//! ([`Volume::resolve`]). The crate has no FUSE in it and starts no thread: `thalweg mount` does both on top of it.
//!
//! ```
//! use thalweg_fs::{Caller, FormatOptions, NewInode, OpenOptions, ROOT, Volume};
//!
//! # fn main() -> thalweg_fs::Result<()> {
//! # let path = std::env::temp_dir().join(format!("thalweg-fs-doc-{}", std::process::id()));
//! Volume::format(&path, FormatOptions::default())?;
//! let volume = OpenOptions::new().open(&path)?;
//! let root = Caller::ROOT;
//! let made = volume.create(&root, ROOT, b"rivers.txt", NewInode::file(0o644))?;
//! volume.open(&root, made.ino, thalweg_fs::WRITE)?;
//! volume.write(&root, made.ino, 0, b"Rhine 1233 km\n")?;
//! volume.sync_file(made.ino)?; // no power cut can take it
//! volume.release(made.ino)?;
//! volume.forget(made.ino, 1);
//!
//! let found = volume.resolve(&root, b"/rivers.txt")?;
//! assert_eq!(volume.read(found.ino, 0, 5)?, b"Rhine");
//! volume.forget(found.ino, 1);
//! volume.close()?;
//! # let _ = std::fs::remove_dir_all(path);
//! # Ok(())
//! # }
//! ```
//!
//! The modules stand on floors. A module imports only from floors below its own:
//!
//! | floor | module | holds |
//! |---|---|---|
//! | 4 | `namespace/` `data/` `inode/` `reclaim/` `check/` | the operations of a [`Volume`] |
//! | 3 | `volume/` | [`Volume`]: what the operations share |
//! | 2 | `node/` | the inodes in use, and their locks |
//! | 1 | `store/` `object/` | where rows and large files are, as traits |
//! | 0 | `row/` `caller.rs` `clock.rs` `error.rs` `planted.rs` | the bytes of rows; who calls; time; errors |

/// The decoders of rows, for fuzz targets: whatever the bytes are, they must not panic.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    /// Reads the bytes as every kind of row. Returns the number of kinds that could be read.
    pub fn rows(bytes: &[u8]) -> usize {
        crate::row::fuzz_rows(bytes)
    }

    /// Bodies of rows of every kind, with names.
    pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
        crate::row::seeds()
    }
}

mod caller;
mod check;
mod clock;
mod data;
mod error;
mod inode;
mod namespace;
mod node;
mod object;
mod planted;
mod reclaim;
mod row;
mod store;
mod volume;

pub use caller::{Caller, EXECUTE, READ, WRITE};
pub use check::{CheckEvent, CheckProgress, CheckReport, Finding};
pub use clock::{Clock, KernelClock, SystemClock};
pub use data::{Allocation, SharedObject};
pub use error::{Error, Result};
pub use inode::{Change, SetTime, XattrFlags};
pub use namespace::{Entry, NewInode, RenameFlags};
pub use object::{FolderObjects, ObjectAttributes, ObjectStore, Room};
#[cfg(feature = "planted-bugs")]
pub use planted::{Bug, plant};
pub use reclaim::{Reclaimable, Work};
pub use row::{Attributes, Ino, Kind, Mode, ROOT, Time};
pub use store::{
    Batch, Directories, EngineStore, Listed, Listing, MetaStore, NAMES, Operation, Promise, RowReader, Rows, Space,
    WhenDurable,
};
pub use volume::{FormatOptions, Limits, NAME_BYTES_MAX, OBJECTS, OpenOptions, TARGET_BYTES_MAX, Usage, Volume};
