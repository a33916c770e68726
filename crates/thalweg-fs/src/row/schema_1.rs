//! Attributes of schema 1, in volumes that were formatted as version 1. They are read, and never written.

use super::attributes::{
    ATIME, Attributes, BYTES, CTIME, EPOCH, FIELDS, FLAGS, GID, Kind, MTIME, NLINK, RDEV, SIZE, UID, links_of_new,
    take_time,
};
use super::checked::Fields;

/// Reads attributes off the front of a row. `None`: these are no attributes.
pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Attributes> {
    let (kind, flags, mode) = (Kind::from_number(fields.u8()?)?, fields.u8()?, fields.u16()?);
    let present = fields.u16()?;
    let (ino, btime) = (fields.u64()?, take_time(fields)?);
    let mut number = |bit: u16, usual| if present & bit != 0 { fields.u32() } else { Some(usual) };
    let (nlink, uid, gid) = (number(NLINK, links_of_new(kind))?, number(UID, 0)?, number(GID, 0)?);
    let (rdev, epoch) = (number(RDEV, 0)?, number(EPOCH, 0)?);
    let mut long = |bit: u16| if present & bit != 0 { fields.u64() } else { Some(0) };
    let (size, bytes) = (long(SIZE)?, long(BYTES)?);
    let mut time = |bit: u16, usual| if present & bit != 0 { take_time(fields) } else { Some(usual) };
    let (atime, mtime) = (time(ATIME, btime)?, time(MTIME, btime)?);
    let ctime = time(CTIME, mtime)?;
    let found =
        Attributes { ino, kind, flags, mode, nlink, uid, gid, rdev, epoch, size, bytes, atime, mtime, ctime, btime };
    let is_known = flags & !FLAGS == 0 && present & !FIELDS == 0;
    (is_known && found.is_sound()).then_some(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::attributes::{HAS_XATTRS, Time};
    use super::super::{DirectoryRow, EntryRow};
    use super::*;

    /// Rows that a program of schema 1 wrote, with their checksums.
    const FILE: &str = "010000a401000007000000000000000100000000000000ffc99a3b905eb492";
    const LINK: &str = "\
        010200a401000007000000000000000100000000000000ffc99a3b2e2e2f74617267657423795ccf";
    const POINTER: &str = "02010700000000000000bb63f32e";
    const ALL: &str = "\
        010001a401ff0307000000000000000100000000000000ffc99a3b02000000e8030000640000000500000003000000000000\
        00000100000010000000000000ffffffffffffffffffc99a3b0200000000000000ffc99a3b0300000000000000ffc99a3b4f\
        eb4c0c";
    const DIRECTORY: &str = "\
        0100ed01260107000000000000000100000000000000ffc99a3b010000000100000002000000000000000900000000000000\
        ffc99a3b010000000000000002000000000000006003061c";

    fn bytes(row: &str) -> Vec<u8> {
        (0..row.len()).step_by(2).map(|at| u8::from_str_radix(&row[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn rows_of_schema_1_are_read() {
        let time = |seconds| Time { seconds, nanoseconds: 999_999_999 };
        let file = Attributes::new(7, Kind::File, 0o644, (0, 0), time(1));
        let link = Attributes { kind: Kind::Symlink, ..file };
        let times = Attributes { atime: time(-1), mtime: time(2), ctime: time(3), ..file };
        let long = Attributes { flags: HAS_XATTRS, rdev: 5, epoch: 3, size: 1 << 40, bytes: 4096, ..times };
        let all = Attributes { nlink: 2, uid: 1000, gid: 100, ..long };
        let new = Attributes::new(7, Kind::Directory, 0o755, (1, 1), time(1));
        let directory = Attributes { size: 2, mtime: time(9), ctime: time(9), ..new };
        let entry = |row| EntryRow::decode(7, b"name", &bytes(row)).unwrap();
        assert_eq!(entry(FILE), EntryRow::Whole(file, Box::default()));
        assert_eq!(entry(LINK), EntryRow::Whole(link, b"../target".as_slice().into()));
        assert_eq!(entry(POINTER), EntryRow::Pointer(7, Kind::Directory));
        assert_eq!(EntryRow::decode_inode(7, &bytes(ALL)).unwrap(), (all, Box::default()));
        let row = DirectoryRow { attributes: directory, parent: 1, entries: 2 };
        assert_eq!(DirectoryRow::decode(7, &bytes(DIRECTORY)).unwrap(), row);
        // Bytes are missing: the rows above end with their checksums.
        let [file, all] = [&bytes(FILE)[1..27], &bytes(ALL)[1..99]];
        for row in [file, all] {
            assert!(decode(&mut Fields(row)).is_some());
            assert!((0..row.len()).all(|bytes| decode(&mut Fields(&row[..bytes])).is_none()));
        }
    }
}
