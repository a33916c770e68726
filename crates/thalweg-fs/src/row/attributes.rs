//! [`Attributes`]: what is known of an inode, and its bytes.
//!
//! A row has only the fields that differ from those of a new inode of root's, and says which (`docs/format/volume.md`):
//! 26 bytes instead of 98 for an empty file. Rows of directories are not compressed, so they are as many bytes in
//! memory and on disk.

use super::checked::Fields;

/// The number of an inode. Numbers are never used again.
pub type Ino = u64;

/// The inode of a volume's root directory.
pub const ROOT: Ino = 1;

/// The permission bits of an inode, with set-user-ID, set-group-ID and sticky: 12 bits.
pub type Mode = u16;

/// Flag: the inode has extended attributes.
pub(crate) const HAS_XATTRS: u8 = 1;
/// Flag: the bytes of the file are in an object, not in rows.
pub(crate) const IS_OBJECT: u8 = 2;
/// Flag: the file has no name any more.
pub(crate) const IS_ORPHAN: u8 = 4;
const FLAGS: u8 = HAS_XATTRS | IS_OBJECT | IS_ORPHAN;

/// Which fields a row has.
const NLINK: u16 = 1;
const UID: u16 = 2;
const GID: u16 = 4;
const RDEV: u16 = 8;
const EPOCH: u16 = 16;
const SIZE: u16 = 32;
const BYTES: u16 = 64;
const ATIME: u16 = 128;
const MTIME: u16 = 256;
const CTIME: u16 = 512;
const FIELDS: u16 = 1023;

/// The kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
}

impl Kind {
    /// Every kind, in the order of their numbers in rows.
    pub const ALL: [Kind; 7] = [
        Kind::File,
        Kind::Directory,
        Kind::Symlink,
        Kind::Fifo,
        Kind::Socket,
        Kind::CharacterDevice,
        Kind::BlockDevice,
    ];

    pub(super) fn number(self) -> u8 {
        self as u8
    }

    pub(super) fn from_number(number: u8) -> Option<Kind> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The `S_IFMT` bits of the kind.
    pub fn bits(self) -> u32 {
        match self {
            Kind::File => libc::S_IFREG,
            Kind::Directory => libc::S_IFDIR,
            Kind::Symlink => libc::S_IFLNK,
            Kind::Fifo => libc::S_IFIFO,
            Kind::Socket => libc::S_IFSOCK,
            Kind::CharacterDevice => libc::S_IFCHR,
            Kind::BlockDevice => libc::S_IFBLK,
        }
    }

    /// The kind that the `S_IFMT` bits of a mode name; 0 is a file, as for `mknod`.
    pub fn from_bits(mode: u32) -> Option<Kind> {
        let bits = mode & libc::S_IFMT;
        if bits == 0 { Some(Kind::File) } else { Self::ALL.into_iter().find(|kind| kind.bits() == bits) }
    }
}

/// A moment: seconds since 1970 and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, below 10⁹.
    pub nanoseconds: u32,
}

/// What `stat` tells about an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The number of the inode.
    pub ino: Ino,
    /// Its kind.
    pub kind: Kind,
    pub(crate) flags: u8,
    /// Permission bits.
    pub mode: Mode,
    /// How many names it has; for a directory 2 and one for each directory in it.
    pub nlink: u32,
    /// The user that owns it.
    pub uid: u32,
    /// The group that owns it.
    pub gid: u32,
    /// The number of a device, as the kernel encodes it in 32 bits.
    pub rdev: u32,
    /// The mount in which the row of an object was written.
    pub(crate) epoch: u32,
    /// The size in bytes. Of a directory: how many entries it has.
    pub size: u64,
    /// The bytes that are allocated for its data.
    pub bytes: u64,
    /// When it was last read. Reads do not change it.
    pub atime: Time,
    /// When its data changed.
    pub mtime: Time,
    /// When its attributes changed.
    pub ctime: Time,
    /// When it was created.
    pub btime: Time,
}

impl Attributes {
    /// The least bytes of attributes in a row, and the most.
    pub(super) const BYTES_MIN: usize = 26;
    pub(super) const BYTES_MAX: usize = Self::BYTES_MIN + 5 * 4 + 2 * 8 + 3 * 12;

    /// The attributes of an inode that is created now.
    pub(crate) fn new(ino: Ino, kind: Kind, mode: Mode, (uid, gid): (u32, u32), now: Time) -> Self {
        let nlink = links_of_new(kind);
        let (flags, rdev, epoch, size, bytes) = (0, 0, 0, 0, 0);
        let (atime, mtime, ctime, btime) = (now, now, now, now);
        Attributes { ino, kind, flags, mode, nlink, uid, gid, rdev, epoch, size, bytes, atime, mtime, ctime, btime }
    }

    /// Whether the inode has a flag.
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// The whole mode, as `stat` gives it: kind and permissions.
    pub fn st_mode(&self) -> u32 {
        self.kind.bits() | u32::from(self.mode)
    }

    /// Blocks of 512 bytes, as `stat` gives them.
    pub fn blocks(&self) -> u64 {
        self.bytes.div_ceil(512)
    }

    pub(super) fn encode(&self, row: &mut Vec<u8>) {
        let begin = row.len();
        row.extend_from_slice(&[self.kind.number(), self.flags]);
        row.extend_from_slice(&self.mode.to_le_bytes());
        row.extend_from_slice(&[0; 2]);
        row.extend_from_slice(&self.ino.to_le_bytes());
        put_time(row, self.btime);
        let mut present = 0_u16;
        for (number, (found, usual)) in self.numbers().into_iter().enumerate() {
            if found != usual {
                present |= 1 << number;
                row.extend_from_slice(&found.to_le_bytes());
            }
        }
        for (number, (found, usual)) in [(self.size, 0), (self.bytes, 0)].into_iter().enumerate() {
            if found != usual {
                present |= SIZE << number;
                row.extend_from_slice(&found.to_le_bytes());
            }
        }
        let times = [(self.atime, self.btime), (self.mtime, self.btime), (self.ctime, self.mtime)];
        for (number, (found, usual)) in times.into_iter().enumerate() {
            if found != usual {
                present |= ATIME << number;
                put_time(row, found);
            }
        }
        if let Some(place) = row.get_mut(begin + 4..begin + 6) {
            place.copy_from_slice(&present.to_le_bytes());
        }
    }

    /// The fields of 32 bits, each with what a new inode of root's has, in the order of their bits.
    fn numbers(&self) -> [(u32, u32); 5] {
        let nlink = links_of_new(self.kind);
        [(self.nlink, nlink), (self.uid, 0), (self.gid, 0), (self.rdev, 0), (self.epoch, 0)]
    }

    /// Reads attributes off the front of a row. `None`: these are no attributes.
    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
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
        let is_known = flags & !FLAGS == 0 && present & !FIELDS == 0;
        let is_sound = is_known && mode & !0o7777 == 0 && ino != 0 && size <= i64::MAX as u64;
        is_sound.then_some(Attributes {
            ino,
            kind,
            flags,
            mode,
            nlink,
            uid,
            gid,
            rdev,
            epoch,
            size,
            bytes,
            atime,
            mtime,
            ctime,
            btime,
        })
    }
}

/// The number of names of a new inode.
fn links_of_new(kind: Kind) -> u32 {
    if kind == Kind::Directory { 2 } else { 1 }
}

fn put_time(row: &mut Vec<u8>, time: Time) {
    row.extend_from_slice(&time.seconds.to_le_bytes());
    row.extend_from_slice(&time.nanoseconds.to_le_bytes());
}

fn take_time(fields: &mut Fields<'_>) -> Option<Time> {
    let time = Time { seconds: fields.i64()?, nanoseconds: fields.u32()? };
    (time.nanoseconds < 1_000_000_000).then_some(time)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn encoded(attributes: &Attributes) -> Vec<u8> {
        let mut row = Vec::new();
        attributes.encode(&mut row);
        assert_eq!(Attributes::decode(&mut Fields(&row)), Some(*attributes));
        row
    }

    #[test]
    fn a_row_has_the_fields_that_differ_from_a_new_inode() {
        let moment = |seconds| Time { seconds, nanoseconds: 7 };
        let new = Attributes::new(42, Kind::File, 0o644, (0, 0), moment(1));
        assert_eq!(encoded(&new).len(), Attributes::BYTES_MIN);
        assert_eq!(encoded(&Attributes { kind: Kind::Directory, nlink: 2, ..new }).len(), Attributes::BYTES_MIN);
        // Each field alone.
        let (at, before) = (moment(2), moment(-2));
        let changes: [(Attributes, usize); 10] = [
            (Attributes { nlink: 3, ..new }, 4),
            (Attributes { uid: 1, ..new }, 4),
            (Attributes { gid: 2, ..new }, 4),
            (Attributes { rdev: 3, ..new }, 4),
            (Attributes { epoch: 4, ..new }, 4),
            (Attributes { size: 5, ..new }, 8),
            (Attributes { bytes: 6, ..new }, 8),
            (Attributes { atime: before, ..new }, 12),
            (Attributes { mtime: at, ctime: at, ..new }, 12),
            (Attributes { ctime: at, ..new }, 12),
        ];
        for (changed, bytes) in changes {
            assert_eq!(encoded(&changed).len(), Attributes::BYTES_MIN + bytes, "{changed:?}");
        }
        let all = Attributes {
            flags: FLAGS,
            nlink: 9,
            uid: 1,
            gid: 2,
            rdev: 3,
            epoch: 4,
            size: 5,
            bytes: 6,
            atime: moment(2),
            mtime: moment(3),
            ctime: moment(4),
            ..new
        };
        let row = encoded(&all);
        assert_eq!(row.len(), Attributes::BYTES_MAX);
        // Bytes are missing, or a field is there that nobody knows.
        assert!((0..row.len()).all(|bytes| Attributes::decode(&mut Fields(&row[..bytes])).is_none()));
        let mut unknown = row;
        unknown[5] |= 0x80;
        assert_eq!(Attributes::decode(&mut Fields(&unknown)), None);
    }
}
