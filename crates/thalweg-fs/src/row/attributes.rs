//! [`Attributes`]: what is known of an inode, and its 96 bytes.

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
    /// Bytes of a row of attributes.
    pub(super) const BYTES: usize = 96;

    /// The attributes of an inode that is created now.
    pub(crate) fn new(ino: Ino, kind: Kind, mode: Mode, (uid, gid): (u32, u32), now: Time) -> Self {
        let nlink = if kind == Kind::Directory { 2 } else { 1 };
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
        row.extend_from_slice(&[self.kind.number(), self.flags]);
        row.extend_from_slice(&self.mode.to_le_bytes());
        for number in [self.nlink, self.uid, self.gid, self.rdev, self.epoch] {
            row.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.ino, self.size, self.bytes] {
            row.extend_from_slice(&number.to_le_bytes());
        }
        for time in [self.atime, self.mtime, self.ctime, self.btime] {
            row.extend_from_slice(&time.seconds.to_le_bytes());
            row.extend_from_slice(&time.nanoseconds.to_le_bytes());
        }
    }

    /// Reads attributes off the front of a row. `None`: these are no attributes.
    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (kind, flags, mode) = (Kind::from_number(fields.u8()?)?, fields.u8()?, fields.u16()?);
        let (nlink, uid, gid) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (rdev, epoch) = (fields.u32()?, fields.u32()?);
        let (ino, size, bytes) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mut time = || {
            let time = Time { seconds: fields.i64()?, nanoseconds: fields.u32()? };
            (time.nanoseconds < 1_000_000_000).then_some(time)
        };
        let (atime, mtime, ctime, btime) = (time()?, time()?, time()?, time()?);
        let is_sound = flags & !FLAGS == 0 && mode & !0o7777 == 0 && ino != 0 && size <= i64::MAX as u64;
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
