//! Attributes of inodes: `stat`, `chmod` and its kin, extended attributes.
//!
//! - `attributes.rs`: what is read, and what is changed ([`Change`]).
//! - `xattr.rs`: extended attributes.

mod attributes;
mod xattr;

pub use attributes::{Change, SetTime};
pub use xattr::XattrFlags;
