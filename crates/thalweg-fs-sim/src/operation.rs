//! [`Operation`]: one operation of a history, and [`Histories`], which draws them.

use crate::model::Model;
use thalweg_fs::{Allocation, Caller, Change, Ino, Kind, ROOT, RenameFlags, SetTime, Time, XattrFlags};
use thalweg_sim::Rng;

/// The callers of histories: root, and two users with a common group.
pub const CALLERS: [Caller<'static>; 3] = [
    Caller { uid: 0, gid: 0, groups: &[], is_checked: false },
    Caller { uid: 1000, gid: 1000, groups: &[100], is_checked: false },
    Caller { uid: 1001, gid: 1001, groups: &[100], is_checked: false },
];

/// The names of histories.
const NAMES: [&[u8]; 8] = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"];

/// An entry of a directory.
pub type Spot = (Ino, Vec<u8>);

/// An operation, without its caller.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "they are the operations of a volume, with their arguments")]
pub enum Operation {
    Lookup(Spot),
    Create { spot: Spot, kind: Kind, mode: u16, rdev: u32, target: Vec<u8> },
    Link(Ino, Spot),
    Unlink(Spot),
    RemoveDirectory(Spot),
    Rename(Spot, Spot, RenameFlags),
    List { directory: Ino, entries_max: usize, with_attributes: bool },
    Resolve { path: Vec<u8>, follows_last: bool },
    Stat(Ino),
    ReadLink(Ino),
    Access(Ino, u8),
    Open(Ino, u8),
    Release(Ino),
    Forget(Ino),
    Change(Ino, Change),
    Write { ino: Ino, offset: Option<u64>, length: usize, version: u64 },
    Read { ino: Ino, offset: u64, length: usize },
    Allocate { ino: Ino, what: Allocation, keeps_size: bool, offset: u64, length: u64 },
    Seek { ino: Ino, offset: u64, is_hole: bool },
    SetXattr { ino: Ino, name: &'static [u8], value: Vec<u8>, flags: XattrFlags },
    Xattr(Ino, &'static [u8]),
    RemoveXattr(Ino, &'static [u8]),
    ListXattrs(Ino),
    SyncFile(Ino),
    Sync,
    Work,
}

/// The bytes of a write: they differ from those of any other write and offset.
pub fn pattern(ino: Ino, offset: u64, length: usize, version: u64) -> Vec<u8> {
    (offset..offset + length as u64).map(|at| pattern_byte(ino, at, version)).collect()
}

/// The byte of a write at an offset; never 0.
pub fn pattern_byte(ino: Ino, offset: u64, version: u64) -> u8 {
    let mixed = (ino.wrapping_mul(0x9e37_79b9) ^ version.wrapping_mul(0x85eb_ca6b_c2b2)).wrapping_add(offset >> 3);
    let mixed = (mixed ^ (mixed >> 17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let byte = (mixed >> (8 * (offset & 7))) as u8;
    byte.max(1)
}

/// Draws operations.
pub struct Histories {
    rng: Rng,
    version: u64,
    /// The size that files mostly stay below.
    bytes_max: u64,
}

const XATTRS: [&[u8]; 8] = [
    b"user.a",
    b"user.b",
    b"trusted.t",
    b"security.capability",
    b"security.other",
    b"system.posix_acl_access",
    b"user.",
    b"",
];

impl Histories {
    /// The histories of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let bytes_max = *rng.choose(&[300, 2_000, 4_096, 4_096, 4_096, 200_000]);
        Histories { rng, version: 0, bytes_max }
    }

    /// The generator, for choices beside the operations.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// The next operation and its caller.
    pub fn next(&mut self, model: &Model) -> (usize, Operation) {
        let caller = if self.rng.percent(50) { 0 } else { self.rng.index(CALLERS.len()) };
        let operation = match self.rng.below(100) {
            0..12 => Operation::Lookup(self.spot(model)),
            12..23 => self.create(model),
            23..27 => Operation::Link(self.any(model), self.spot(model)),
            27..33 => Operation::Unlink(self.spot(model)),
            33..36 => Operation::RemoveDirectory(self.spot(model)),
            36..45 => self.rename(model),
            45..48 => {
                let entries_max = *self.rng.choose(&[1, 2, 3, 100]);
                let with_attributes = self.rng.one_in(2);
                Operation::List { directory: self.directory(model), entries_max, with_attributes }
            }
            48..53 => Operation::Resolve { path: self.path(), follows_last: self.rng.percent(80) },
            53..65 => self.metadata(model),
            65..87 => self.data(model),
            87..92 => self.xattr(model),
            92..98 => Operation::Forget(self.any(model)),
            98 => Operation::SyncFile(self.any(model)),
            _ if self.rng.one_in(2) => Operation::Sync,
            _ => Operation::Work,
        };
        (caller, operation)
    }

    /// Draws a number in use, seldom another one.
    fn any(&mut self, model: &Model) -> Ino {
        self.one_of(model, |_| true)
    }

    fn directory(&mut self, model: &Model) -> Ino {
        if self.rng.one_in(4) { ROOT } else { self.one_of(model, |kind| kind == Kind::Directory) }
    }

    fn one_of(&mut self, model: &Model, is_wanted: impl Fn(Kind) -> bool) -> Ino {
        if self.rng.one_in(300) {
            return self.rng.below(50);
        }
        let is_wanted = |ino: &Ino| model.inode(*ino).is_some_and(|inode| is_wanted(inode.stat.kind));
        let wanted = model.numbers_in_use().filter(is_wanted).count();
        if wanted == 0 || self.rng.one_in(40) {
            let all = model.numbers_in_use().count();
            return model.numbers_in_use().nth(self.rng.index(all)).unwrap_or(ROOT);
        }
        model.numbers_in_use().filter(is_wanted).nth(self.rng.index(wanted)).unwrap_or(ROOT)
    }

    fn name(&mut self) -> Vec<u8> {
        match self.rng.below(500) {
            0 => b".".to_vec(),
            1 => b"..".to_vec(),
            2 => Vec::new(),
            3 => vec![b'n'; 255],
            4 => vec![b'n'; 256],
            5 => b"x/y".to_vec(),
            _ => self.rng.choose(&NAMES).to_vec(),
        }
    }

    fn spot(&mut self, model: &Model) -> Spot {
        (self.directory(model), self.name())
    }

    fn mode(&mut self) -> u16 {
        match self.rng.below(8) {
            0 => self.rng.below(0o10000) as u16,
            1 => 0o4755,
            2 => 0o2775,
            3 => 0o1777,
            4 => 0o600,
            _ => 0o777,
        }
    }

    fn create(&mut self, model: &Model) -> Operation {
        let directories = model.inodes().filter(|inode| inode.is_directory()).count() as u64;
        let (mut mode, mut rdev, mut target) = (self.mode(), 0, Vec::new());
        let kind = match self.rng.below(20) {
            0 => Kind::Fifo,
            1 => *self.rng.choose(&[Kind::CharacterDevice, Kind::BlockDevice]),
            2..5 => Kind::Symlink,
            5..11 if directories < 4 + self.rng.below(8) => Kind::Directory,
            _ => Kind::File,
        };
        match kind {
            Kind::Symlink => {
                target = if self.rng.one_in(60) { vec![b't'; 4094 + self.rng.index(3)] } else { self.path() };
                mode = 0o777;
            }
            Kind::Directory => mode &= 0o1777,
            Kind::CharacterDevice | Kind::BlockDevice => rdev = 0x103,
            _ => {}
        }
        Operation::Create { spot: self.spot(model), kind, mode, rdev, target }
    }

    fn rename(&mut self, model: &Model) -> Operation {
        let flags = match self.rng.below(8) {
            0 => RenameFlags::NoReplace,
            1 | 2 => RenameFlags::Exchange,
            _ => RenameFlags::Replace,
        };
        Operation::Rename(self.spot(model), self.spot(model), flags)
    }

    fn path(&mut self) -> Vec<u8> {
        let mut path = if self.rng.one_in(2) { b"/".to_vec() } else { Vec::new() };
        for index in 0..self.rng.below(5) {
            if index > 0 {
                path.push(b'/');
            }
            match self.rng.below(10) {
                0 => path.extend(b".."),
                1 => path.extend(b"."),
                _ => path.extend(self.name()),
            }
        }
        if self.rng.one_in(12) {
            path.push(b'/');
        }
        path
    }

    fn metadata(&mut self, model: &Model) -> Operation {
        let ino = self.any(model);
        let time = |rng: &mut Rng| match rng.below(3) {
            0 => None,
            1 => Some(SetTime::Now),
            _ => Some(SetTime::To(Time { seconds: rng.below(1 << 40) as i64 - (1 << 39), nanoseconds: 7 })),
        };
        let some_id = |rng: &mut Rng| *rng.choose(&[None, Some(0), Some(100), Some(1000), Some(1001)]);
        match self.rng.below(14) {
            0 | 1 => Operation::Stat(ino),
            2 => Operation::ReadLink(self.one_of(model, |kind| kind == Kind::Symlink)),
            3 => Operation::Access(ino, self.rng.below(8) as u8),
            4 | 5 => {
                let file = self.one_of(model, |kind| matches!(kind, Kind::File | Kind::Directory));
                Operation::Open(file, *self.rng.choose(&[2, 4, 6]))
            }
            6 | 7 => match model.numbers_in_use().find(|ino| model.opens(*ino) > 0 && self.rng.one_in(2)) {
                Some(open) => Operation::Release(open),
                None => Operation::Stat(ino),
            },
            8 | 9 => Operation::Change(ino, Change { mode: Some(self.mode()), ..Change::default() }),
            10 => {
                let (uid, gid) = (some_id(&mut self.rng), some_id(&mut self.rng));
                let uid = if gid.is_none() { uid.or(Some(0)) } else { uid };
                Operation::Change(ino, Change { uid, gid, ..Change::default() })
            }
            11 => {
                let (atime, mtime) = (time(&mut self.rng), time(&mut self.rng));
                let atime = if mtime.is_none() { atime.or(Some(SetTime::Now)) } else { atime };
                Operation::Change(ino, Change { atime, mtime, ..Change::default() })
            }
            12 => Operation::Change(ino, Change { size: Some(self.offset()), ..Change::default() }),
            _ => Operation::Change(self.one_of(model, |kind| kind == Kind::File), Change::default()),
        }
    }

    fn offset(&mut self) -> u64 {
        match self.rng.below(40) {
            0 => u64::MAX - self.rng.below(3),
            1 => i64::MAX as u64 + 1,
            2..8 => 0,
            // Around the borders of chunks.
            8..10 if self.bytes_max > 65_536 => 65_536 * self.rng.between(1, 2) + self.rng.below(40) - 20,
            _ => self.rng.below(self.bytes_max),
        }
    }

    fn length(&mut self) -> usize {
        match self.rng.below(20) {
            0 => 0,
            1..14 => self.rng.between(1, 200) as usize,
            _ => self.rng.between(1, self.bytes_max) as usize,
        }
    }

    fn data(&mut self, model: &Model) -> Operation {
        let ino = self.one_of(model, |kind| kind == Kind::File);
        let offset = self.offset();
        match self.rng.below(24) {
            0..7 => {
                self.version += 1;
                Operation::Write { ino, offset: None, length: self.length(), version: self.version }
            }
            7..13 => {
                self.version += 1;
                Operation::Write { ino, offset: Some(offset), length: self.length(), version: self.version }
            }
            13..18 => Operation::Read { ino, offset, length: self.length() },
            18..20 => Operation::Change(ino, Change { size: Some(offset), ..Change::default() }),
            20..22 => Operation::Seek { ino, offset, is_hole: self.rng.one_in(2) },
            22 if self.rng.one_in(3) => {
                let what = *self.rng.choose(&[Allocation::Allocate, Allocation::Punch, Allocation::Zero]);
                let (keeps_size, length) = (self.rng.one_in(2), self.length() as u64);
                Operation::Allocate { ino, what, keeps_size, offset, length }
            }
            _ => Operation::Stat(ino),
        }
    }

    fn xattr(&mut self, model: &Model) -> Operation {
        let (ino, name) = (self.any(model), *self.rng.choose(&XATTRS));
        match self.rng.below(8) {
            0..4 => {
                let flags =
                    *self.rng.choose(&[XattrFlags::Any, XattrFlags::Any, XattrFlags::Create, XattrFlags::Replace]);
                let value = vec![self.rng.below(256) as u8; self.rng.index(40)];
                Operation::SetXattr { ino, name, value, flags }
            }
            4 | 5 => Operation::Xattr(ino, name),
            6 => Operation::RemoveXattr(ino, name),
            _ => Operation::ListXattrs(ino),
        }
    }
}
