//! Converts between the types of the volume and those of `fuser`.

use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_fs::{Attributes, Error, Kind, SetTime, Time};

/// The size that programs are told to read and write by, in bytes.
const BLOCK_BYTES: u32 = 4096;

pub(crate) fn errno(error: &Error) -> Errno {
    Errno::from_i32(error.errno())
}

pub(crate) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let base = if time.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    base.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(u64::from(time.nanoseconds))
}

/// A time that the kernel sent. For a time before 1970, fuser 0.18 subtracts the nanoseconds, which the kernel adds.
fn time(time: SystemTime) -> Time {
    let since = time.duration_since(UNIX_EPOCH);
    let (seconds, part) = match &since {
        Ok(since) => (seconds(*since), since),
        Err(before) => (-seconds(before.duration()), &before.duration()),
    };
    Time { seconds, nanoseconds: part.subsec_nanos() }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

pub(crate) fn set_time(wanted: TimeOrNow) -> SetTime {
    match wanted {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(wanted) => SetTime::To(time(wanted)),
    }
}

/// Attributes as `fuser` has them. The size of a directory is that of its entries, not in bytes; `stat` shows it.
pub(crate) fn attributes(attributes: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(attributes.ino),
        size: attributes.size,
        blocks: attributes.blocks(),
        atime: system_time(attributes.atime),
        mtime: system_time(attributes.mtime),
        ctime: system_time(attributes.ctime),
        crtime: system_time(attributes.btime),
        kind: file_type(attributes.kind),
        perm: attributes.mode,
        nlink: attributes.nlink,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: attributes.rdev,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// Attributes of which only the number counts: 0 for a missing name, or the number of a dot in a listing.
pub(crate) fn bare(ino: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::Directory,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        // 23:59:58.25 on the last day of 1969: the kernel sends -2 s and 0.25 s, and fuser takes both from 1970.
        let sent = UNIX_EPOCH - Duration::from_secs(2) - Duration::from_millis(250);
        let read = time(sent);
        assert_eq!(read, Time { seconds: -2, nanoseconds: 250_000_000 });
        assert_eq!(UNIX_EPOCH.duration_since(system_time(read)).map(|before| before.as_millis()).ok(), Some(1750));
    }
}
