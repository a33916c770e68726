//! Reads any bytes as rows, for fuzz targets and tests.

use super::attributes::Ino;
use super::checked::seal;
use super::entry::{DirectoryRow, EntryRow};
use super::superblock::{Debt, Superblock, decode_number, encode_number};

/// The directory and the name of the entries, and the inode of the other rows.
const INO: Ino = 7;
const NAME: &[u8] = b"name";

/// The key of a row, and how it is decoded and encoded again.
type Kind<'k> = (&'k [&'k [u8]], fn(&[u8]) -> Option<Vec<u8>>);

/// Decodes bytes as each kind of row: as they are, and with the checksum that they would need. No bytes may cause a
/// panic. A row that decodes with a right checksum is encoded again, and must give the same row. Returns how many
/// decoded.
pub(crate) fn fuzz_rows(bytes: &[u8]) -> usize {
    let ino = INO.to_be_bytes();
    let kinds: [Kind<'_>; 6] = [
        (&[&ino, NAME], |row| EntryRow::decode(INO, NAME, row).ok().map(|entry| entry.encode(INO, NAME))),
        (&[&ino], |row| EntryRow::decode_inode(INO, row).ok().map(|(of, target)| EntryRow::encode_inode(&of, &target))),
        (&[&ino, DirectoryRow::NAME], |row| DirectoryRow::decode(INO, row).ok().map(|row| row.encode())),
        (&[Superblock::KEY], |row| Superblock::decode(row).ok().map(|superblock| superblock.encode())),
        (&[NAME], |row| decode_number(NAME, row).ok().map(|number| encode_number(NAME, number))),
        (&[&ino], |row| Debt::decode(&INO.to_be_bytes(), row).ok().map(|debt| debt.encode(&INO.to_be_bytes()))),
    ];
    let mut decoded = 0;
    for (key, decode) in kinds {
        let _ = decode(bytes);
        let sealed = seal(key, bytes.to_vec());
        if let Some(again) = decode(&sealed) {
            decoded += 1;
            // A row with a field that need not be written has a second form. That form must encode to itself.
            assert!(again == sealed || decode(&again) == Some(again), "a row changed when it was written again");
        }
    }
    decoded
}

/// The bodies of rows of each kind, without their checksums: seeds for fuzzers and tests.
pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    use super::attributes::{Attributes, HAS_XATTRS, Kind, Time};
    let time = |seconds| Time { seconds, nanoseconds: 999_999_999 };
    let file = Attributes::new(INO, Kind::File, 0o644, (0, 0), time(1));
    let all = Attributes {
        flags: HAS_XATTRS,
        nlink: 2,
        uid: 1000,
        gid: 100,
        rdev: 5,
        epoch: 3,
        size: 1 << 40,
        bytes: 4096,
        atime: time(-1),
        mtime: time(2),
        ctime: time(3),
        ..file
    };
    let link = Attributes { kind: Kind::Symlink, ..file };
    let directory = Attributes::new(INO, Kind::Directory, 0o755, (1, 1), time(1));
    let superblock = Superblock { version: 1, features: 0, uuid: [9; 16], epoch: 4, is_clean: true };
    let rows = [
        ("entry-file", EntryRow::Whole(file, Box::default()).encode(INO, NAME)),
        ("entry-link", EntryRow::Whole(link, b"../target".as_slice().into()).encode(INO, NAME)),
        ("entry-pointer", EntryRow::Pointer(INO, Kind::Directory).encode(INO, NAME)),
        ("inode-all", EntryRow::encode_inode(&all, b"")),
        ("directory", DirectoryRow { attributes: directory, parent: 1, entries: 2 }.encode()),
        ("superblock", superblock.encode()),
        ("number", encode_number(NAME, 1 << 20)),
        ("debt", Debt::Object.encode(&INO.to_be_bytes())),
    ];
    rows.into_iter().map(|(name, row)| (name, row[..row.len() - 4].to_vec())).collect()
}
