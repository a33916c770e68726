//! The keys of entries.

use crate::distribution::scrambled;
use crate::parameters::Parameters;

/// The number of entries of a directory that the paper takes for typical.
pub(super) const ENTRIES: u64 = 20;
pub(super) const KEY_BYTES: u32 = 16;

/// The number of entries of a directory.
pub(super) fn entries_of(parameters: &Parameters) -> u64 {
    parameters.directory_entries.unwrap_or(ENTRIES).max(1)
}

/// The key of entry number `entry`, if each directory has `entries` entries.
pub(super) fn key(entry: u64, entries: u64) -> [u8; KEY_BYTES as usize] {
    let mut key = [0; KEY_BYTES as usize];
    key[..8].copy_from_slice(&(entry / entries).to_be_bytes());
    key[8..].copy_from_slice(&scrambled(entry).to_be_bytes());
    key
}
