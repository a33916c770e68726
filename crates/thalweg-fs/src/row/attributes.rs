//! [`Attributes`]: what is known of an inode, and its bytes.
//!
//! A row has only the fields that differ from those of a new inode of root's, and says which (`docs/format/volume.md`).
//! Numbers are varints, and times are relative to the time of creation: 11 bytes for an empty directory, 26 in schema
//! 1 ([`super::schema_1`]). Rows of directories are not compressed, so they are as many bytes in memory and on disk.

use super::checked::{Fields, put_signed, put_varint};

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
pub(super) const FLAGS: u8 = HAS_XATTRS | IS_OBJECT | IS_ORPHAN;

/// Which fields a row has.
pub(super) const NLINK: u16 = 1;
pub(super) const UID: u16 = 2;
pub(super) const GID: u16 = 4;
pub(super) const RDEV: u16 = 8;
pub(super) const EPOCH: u16 = 16;
pub(super) const SIZE: u16 = 32;
pub(super) const BYTES: u16 = 64;
pub(super) const ATIME: u16 = 128;
pub(super) const MTIME: u16 = 256;
pub(super) const CTIME: u16 = 512;
pub(super) const FIELDS: u16 = 1023;

/// The first byte of attributes: this bit tells them from a row of schema 1; the next, whether there are fields. Below
/// are the flags, and the number of the kind.
pub(super) const SCHEMA_2: u8 = 0x80;
const HAS_FIELDS: u8 = 0x40;
const FLAGS_SHIFT: u32 = 3;
const KIND_MASK: u8 = 7;

/// A moment in 64 bits: nanoseconds in the lower 30, above them seconds since 1970 plus this.
const SECONDS_ADDED: i64 = 1 << 33;
const NANOSECOND_BITS: u32 = 30;
/// Stands for a moment that does not fit in 64 bits and follows in 96.
const LONG_MOMENT: u64 = u64::MAX;

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

/// The attributes of an inode, as `stat` tells them.
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
    /// The most bytes of attributes in a row.
    pub(super) const BYTES_MAX: usize = 1 + 2 + 2 + 20 + 5 * 5 + 2 * 10 + 3 * 14;

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

    /// Appends the attributes without the number of the inode.
    pub(super) fn encode(&self, row: &mut Vec<u8>) {
        let present = self.present();
        let has_fields = if present == 0 { 0 } else { HAS_FIELDS };
        row.push(SCHEMA_2 | has_fields | self.flags << FLAGS_SHIFT | self.kind.number());
        if present != 0 {
            row.extend_from_slice(&present.to_le_bytes());
        }
        put_varint(row, u128::from(self.mode));
        put_moment(row, self.btime);
        for (bit, (found, _)) in self.numbers() {
            if present & bit != 0 {
                put_varint(row, u128::from(found));
            }
        }
        for (bit, (found, usual)) in self.times() {
            if present & bit != 0 {
                put_signed(row, found.total_nanoseconds() - usual.total_nanoseconds());
            }
        }
    }

    /// The fields that differ from those of a new inode of root's.
    fn present(&self) -> u16 {
        let numbers = self.numbers().into_iter().filter(|(_, (found, usual))| found != usual).map(|(bit, _)| bit);
        let times = self.times().into_iter().filter(|(_, (found, usual))| found != usual).map(|(bit, _)| bit);
        numbers.chain(times).fold(0, |present, bit| present | bit)
    }

    /// The fields that are numbers, each with what a new inode of root's has, in the order of their bits.
    fn numbers(&self) -> [(u16, (u64, u64)); 7] {
        let nlink = links_of_new(self.kind);
        [
            (NLINK, (self.nlink.into(), nlink.into())),
            (UID, (self.uid.into(), 0)),
            (GID, (self.gid.into(), 0)),
            (RDEV, (self.rdev.into(), 0)),
            (EPOCH, (self.epoch.into(), 0)),
            (SIZE, (self.size, 0)),
            (BYTES, (self.bytes, 0)),
        ]
    }

    /// The fields that are times, each with the time that it is relative to.
    fn times(&self) -> [(u16, (Time, Time)); 3] {
        [(ATIME, (self.atime, self.btime)), (MTIME, (self.mtime, self.btime)), (CTIME, (self.ctime, self.mtime))]
    }

    /// Reads the attributes of the inode `ino` off the front of a row. `None`: these are no attributes.
    pub(super) fn decode(fields: &mut Fields<'_>, ino: Ino) -> Option<Self> {
        let first = fields.u8().filter(|first| first & SCHEMA_2 != 0)?;
        let kind = Kind::from_number(first & KIND_MASK)?;
        let flags = first >> FLAGS_SHIFT & FLAGS;
        let present = if first & HAS_FIELDS != 0 { fields.u16()? } else { 0 };
        let mode = Mode::try_from(fields.varint()?).ok()?;
        let btime = take_moment(fields)?;
        let mut number = |bit: u16, usual: u32| {
            if present & bit != 0 { u32::try_from(fields.varint()?).ok() } else { Some(usual) }
        };
        let (nlink, uid, gid) = (number(NLINK, links_of_new(kind))?, number(UID, 0)?, number(GID, 0)?);
        let (rdev, epoch) = (number(RDEV, 0)?, number(EPOCH, 0)?);
        let mut long = |bit: u16| if present & bit != 0 { u64::try_from(fields.varint()?).ok() } else { Some(0) };
        let (size, bytes) = (long(SIZE)?, long(BYTES)?);
        let mut time = |bit: u16, usual: Time| {
            if present & bit == 0 {
                return Some(usual);
            }
            Time::of_total_nanoseconds(usual.total_nanoseconds().checked_add(fields.signed()?)?)
        };
        let (atime, mtime) = (time(ATIME, btime)?, time(MTIME, btime)?);
        let ctime = time(CTIME, mtime)?;
        let found = Attributes {
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
        };
        (present & !FIELDS == 0 && found.is_sound()).then_some(found)
    }

    /// Whether an inode may have these attributes.
    pub(super) fn is_sound(&self) -> bool {
        self.mode & !0o7777 == 0 && self.ino != 0 && self.size <= i64::MAX as u64
    }
}

/// The number of names of a new inode.
pub(super) fn links_of_new(kind: Kind) -> u32 {
    if kind == Kind::Directory { 2 } else { 1 }
}

impl Time {
    /// Nanoseconds since 1970.
    fn total_nanoseconds(self) -> i128 {
        i128::from(self.seconds) * NANOSECONDS + i128::from(self.nanoseconds)
    }

    fn of_total_nanoseconds(total: i128) -> Option<Time> {
        let seconds = i64::try_from(total.div_euclid(NANOSECONDS)).ok()?;
        Some(Time { seconds, nanoseconds: total.rem_euclid(NANOSECONDS) as u32 })
    }
}

const NANOSECONDS: i128 = 1_000_000_000;

fn put_moment(row: &mut Vec<u8>, time: Time) {
    let seconds = time.seconds.checked_add(SECONDS_ADDED).and_then(|seconds| u64::try_from(seconds).ok());
    match seconds.filter(|seconds| *seconds < 1 << (u64::BITS - NANOSECOND_BITS)) {
        Some(seconds) => {
            row.extend_from_slice(&(seconds << NANOSECOND_BITS | u64::from(time.nanoseconds)).to_le_bytes())
        }
        None => {
            row.extend_from_slice(&LONG_MOMENT.to_le_bytes());
            row.extend_from_slice(&time.seconds.to_le_bytes());
            row.extend_from_slice(&time.nanoseconds.to_le_bytes());
        }
    }
}

/// Reads a time of 96 bits.
pub(super) fn take_time(fields: &mut Fields<'_>) -> Option<Time> {
    let time = Time { seconds: fields.i64()?, nanoseconds: fields.u32()? };
    (i128::from(time.nanoseconds) < NANOSECONDS).then_some(time)
}

fn take_moment(fields: &mut Fields<'_>) -> Option<Time> {
    let moment = fields.u64()?;
    if moment == LONG_MOMENT {
        return take_time(fields);
    }
    let seconds = (moment >> NANOSECOND_BITS) as i64 - SECONDS_ADDED;
    let nanoseconds = (moment & ((1 << NANOSECOND_BITS) - 1)) as u32;
    (i128::from(nanoseconds) < NANOSECONDS).then_some(Time { seconds, nanoseconds })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn encoded(attributes: &Attributes) -> Vec<u8> {
        let mut row = Vec::new();
        attributes.encode(&mut row);
        assert_eq!(Attributes::decode(&mut Fields(&row), attributes.ino), Some(*attributes));
        row
    }

    #[test]
    fn a_row_has_the_fields_that_differ_from_a_new_inode() {
        let moment = |seconds| Time { seconds, nanoseconds: 7 };
        let new = Attributes::new(42, Kind::File, 0o644, (0, 0), moment(1));
        assert_eq!(encoded(&new).len(), 11);
        assert_eq!(encoded(&Attributes { kind: Kind::Directory, nlink: 2, ..new }).len(), 11);
        // Each field alone, behind the two bytes that say which.
        let (at, before) = (moment(2), moment(-2));
        let changes: [(Attributes, usize); 10] = [
            (Attributes { nlink: 3, ..new }, 1),
            (Attributes { uid: 1000, ..new }, 2),
            (Attributes { gid: u32::MAX, ..new }, 5),
            (Attributes { rdev: 3, ..new }, 1),
            (Attributes { epoch: 4, ..new }, 1),
            (Attributes { size: i64::MAX as u64, ..new }, 9),
            (Attributes { bytes: u64::MAX, ..new }, 10),
            (Attributes { atime: before, ..new }, 5),
            (Attributes { mtime: at, ctime: at, ..new }, 5),
            (Attributes { ctime: at, ..new }, 5),
        ];
        for (changed, bytes) in changes {
            assert_eq!(encoded(&changed).len(), 11 + 2 + bytes, "{changed:?}");
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
        // Bytes are missing, or a field is there that nobody knows.
        assert!((0..row.len()).all(|bytes| Attributes::decode(&mut Fields(&row[..bytes]), 42).is_none()));
        let mut unknown = row;
        unknown[2] |= 0x80;
        assert_eq!(Attributes::decode(&mut Fields(&unknown), 42), None);
    }

    #[test]
    fn every_moment_has_a_row() {
        let least = Time { seconds: i64::MIN, nanoseconds: 0 };
        let most = Time { seconds: i64::MAX, nanoseconds: 999_999_999 };
        let short = [-(1 << 33), -1, 0, 1, (1 << 33) - 1].map(|seconds| Time { seconds, nanoseconds: 999_999_999 });
        for btime in short.into_iter().chain([least, most]) {
            let new = Attributes::new(1, Kind::File, 0o7777, (0, 0), btime);
            assert_eq!(encoded(&new).len(), if short.contains(&btime) { 11 } else { 23 });
            for other in [least, most, short[1]] {
                let others = Attributes { atime: other, mtime: other, ctime: btime, ..new };
                assert!(encoded(&others).len() <= Attributes::BYTES_MAX, "{others:?}");
            }
        }
    }
}
