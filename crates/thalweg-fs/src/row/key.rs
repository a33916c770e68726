//! The keys of rows that are found by the number of an inode. Numbers are big-endian, so that keys sort as they do.

use super::attributes::Ino;

/// The key of an inode's row.
pub(crate) fn inode_key(ino: Ino) -> [u8; 8] {
    ino.to_be_bytes()
}

/// The inode that a key begins with.
pub(crate) fn inode_of(key: &[u8]) -> Option<Ino> {
    key.first_chunk().map(|first| Ino::from_be_bytes(*first))
}

/// The key of the bytes of a file from `offset` on.
pub(crate) fn data_key(ino: Ino, offset: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&ino.to_be_bytes());
    key[8..].copy_from_slice(&offset.to_be_bytes());
    key
}

/// The offset in the key of bytes of a file.
pub(crate) fn data_offset(key: &[u8]) -> Option<u64> {
    let (_, offset) = key.split_first_chunk::<8>()?;
    offset.try_into().ok().map(u64::from_be_bytes)
}

/// The key of an extended attribute.
pub(crate) fn xattr_key(ino: Ino, name: &[u8]) -> Vec<u8> {
    [&ino.to_be_bytes(), name].concat()
}

/// The name in the key of an extended attribute.
pub(crate) fn xattr_name(key: &[u8]) -> Option<&[u8]> {
    key.get(8..)
}
