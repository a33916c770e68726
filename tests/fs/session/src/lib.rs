//! What the yardsticks share, so that their rates differ by what they do and by nothing else: options of the command,
//! capabilities of the connection, and the life of a mount.
//!
//! `flags` negotiates the connection, `mount` runs it until it is unmounted or a signal asks it to end.

mod flags;
mod mount;

pub use flags::{Options, Timeout, negotiate};
pub use mount::{failed, serve};
