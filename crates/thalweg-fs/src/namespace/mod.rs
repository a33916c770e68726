//! Names: the operations that find, create, remove and move entries of directories. Each is one batch.
//!
//! - `lookup.rs`: by name and by path.
//! - `create.rs`: files, directories, links of both kinds.
//! - `remove.rs`: unlink and rmdir.
//! - `rename.rs`: rename, replace, exchange.
//! - `list.rs`: what a directory has.
//!
//! Locks: the inodes of an operation, exclusive, directories first and each by number ([`Locked`]). The numbers are
//! read before the locks are taken, so they are read again under them.
//!
//! [`Locked`]: crate::node::Locked

mod create;
mod list;
mod lookup;
mod remove;
mod rename;

pub use create::NewInode;
pub use list::Entry;
pub use rename::RenameFlags;

use crate::error::{Result, refuse};
use crate::node::{Place, State};
use crate::row::Time;
use crate::volume::NAME_BYTES_MAX;

/// # Errors
/// `ENAMETOOLONG`, `EINVAL` for a name that no entry may have, `EEXIST` for "." and "..", which every directory has.
fn check_new_name(name: &[u8]) -> Result<()> {
    match name {
        b"." | b".." => refuse(libc::EEXIST),
        _ => check_name(name),
    }
}

/// # Errors
/// `ENAMETOOLONG`, `ENOENT` for the empty name, `EINVAL` for a name that no entry may have.
fn check_name(name: &[u8]) -> Result<()> {
    match name {
        [] => refuse(libc::ENOENT),
        _ if name.len() > NAME_BYTES_MAX => refuse(libc::ENAMETOOLONG),
        _ if name.contains(&b'/') || name.contains(&0) => refuse(libc::EINVAL),
        _ => Ok(()),
    }
}

impl State {
    /// Returns the state of the directory after a change of its entries: by `entries_changed` entries, of which
    /// `directories_changed` are directories. Both may be negative.
    fn with_entries(&self, entries_changed: i64, directories_changed: i32, now: Time) -> State {
        let mut next = self.clone();
        if let Place::Directory { entries, .. } = &mut next.place {
            *entries = entries.saturating_add_signed(entries_changed);
            next.attributes.size = *entries;
        }
        next.attributes.nlink = next.attributes.nlink.saturating_add_signed(directories_changed);
        (next.attributes.mtime, next.attributes.ctime) = (now, now);
        next
    }
}
