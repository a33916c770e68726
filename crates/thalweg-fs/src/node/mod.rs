//! The node table: the inodes in use, each with its lock, its attributes and the place of its row.
//!
//! - `state.rs`: [`State`] of an inode and [`Place`] of its row.
//! - `table.rs`: [`NodeTable`], by number, with counted references.
//! - `locked.rs`: [`Locked`], several inodes under exclusive locks.
//!
//! A row is changed only under the exclusive lock of its inode, and the state in memory is then the row. A name is
//! changed only under the exclusive lock of its directory.

mod locked;
mod state;
mod table;

pub(crate) use locked::Locked;
pub(crate) use state::{Place, State};
pub(crate) use table::{NodeTable, Pin, Removals};
