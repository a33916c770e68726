//! The keys of a volume's rows in one ordered key space.
//!
//! | bytes | row |
//! |---|---|
//! | 0 | the key of the hashes: 16 random bytes |
//! | 1, directory (8, big-endian), cursor (8, big-endian), name | an entry of a directory |
//! | 2 + number of the space, key | a row of a space |
//!
//! The cursor of an entry is the keyed hash of its name, from 3 to 2⁶³ − 2. So a listing can begin after any cursor,
//! and names with one cursor are neighbours.

use siphasher::sip::SipHasher13;
use thalweg_fs::{Ino, Space};

/// The key of the row that has the key of the hashes.
pub const HASH_KEY: &[u8] = &[0];
const ENTRY: u8 = 1;
const SPACES: u8 = 2;
/// Where the name begins in the key of an entry.
const NAME_AT: usize = 17;
/// The greatest cursor.
const CURSOR_MAX: u64 = (1 << 63) - 2;
/// The least cursor: lower ones belong to "." and "..".
const CURSOR_MIN: u64 = 3;

/// The cursor of a name.
pub fn cursor_of(hash_key: &[u8; 16], name: &[u8]) -> u64 {
    (SipHasher13::new_with_key(hash_key).hash(name) >> 1).clamp(CURSOR_MIN, CURSOR_MAX)
}

/// What the keys of a directory's entries begin with.
pub fn directory_key(directory: Ino) -> [u8; 9] {
    let mut key = [ENTRY; 9];
    key[1..].copy_from_slice(&directory.to_be_bytes());
    key
}

/// Where the entries of a directory with this cursor begin.
pub fn cursor_key(directory: Ino, cursor: u64) -> [u8; NAME_AT] {
    let mut key = [0; NAME_AT];
    key[..9].copy_from_slice(&directory_key(directory));
    key[9..].copy_from_slice(&cursor.to_be_bytes());
    key
}

/// The key of an entry.
pub fn entry_key(hash_key: &[u8; 16], directory: Ino, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(NAME_AT + name.len());
    key.extend_from_slice(&cursor_key(directory, cursor_of(hash_key, name)));
    key.extend_from_slice(name);
    key
}

/// The directory, the cursor and the name in the key of an entry; `None`: it is the key of another row.
pub fn parse_entry(key: &[u8]) -> Option<(Ino, u64, &[u8])> {
    let (tag, rest) = key.split_first()?;
    let (directory, rest) = rest.split_first_chunk()?;
    let (cursor, name) = rest.split_first_chunk()?;
    (*tag == ENTRY).then(|| (Ino::from_be_bytes(*directory), u64::from_be_bytes(*cursor), name))
}

/// The key of a row of a space.
pub fn row_key(space: Space, key: &[u8]) -> Vec<u8> {
    let mut row_key = Vec::with_capacity(1 + key.len());
    row_key.push(SPACES + space as u8);
    row_key.extend_from_slice(key);
    row_key
}

/// The key that a row has in its space.
pub fn key_of_row(key: &[u8]) -> &[u8] {
    key.get(1..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_an_entry_says_all_of_it_and_sorts_by_cursor() {
        let hash_key = [7; 16];
        let key = entry_key(&hash_key, 42, b"rhine");
        let cursor = cursor_of(&hash_key, b"rhine");
        assert_eq!(parse_entry(&key), Some((42, cursor, &b"rhine"[..])));
        assert!((3..(1 << 63) - 1).contains(&cursor));
        assert!(key.as_slice() >= &cursor_key(42, cursor)[..] && key.as_slice() < &cursor_key(42, cursor + 1)[..]);
        assert!(key.as_slice() > &directory_key(42)[..] && key.as_slice() < &directory_key(43)[..]);
        assert_eq!(parse_entry(&row_key(Space::Inodes, b"12345678abcdefgh")), None);
    }
}
