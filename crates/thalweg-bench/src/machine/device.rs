//! The block device under a directory, and its counters in sysfs.
//!
//! The device number of a directory names its device. Some file systems invent a number (btrfs): there the mount's
//! source names the device. tmpfs, overlay and network file systems have no device. A partition has counters of its
//! own, but flushes are counted for the whole disk only, and only the disk has a queue.

use crate::report::DeviceIo;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The bytes of a sector in sysfs, whatever the sector size of the device is.
const SECTOR_BYTES: u64 = 512;

/// A block device.
#[derive(Clone, Debug)]
pub struct Device {
    /// The device's directory in sysfs.
    directory: PathBuf,
    /// The directory of the whole disk in sysfs.
    disk: PathBuf,
}

impl Device {
    /// The device under `directory`; `source` is the source of the mount that holds the directory, if it is known.
    pub fn under(directory: &Path, source: Option<&Path>) -> Option<Device> {
        let own = fs::metadata(directory).ok().map(|metadata| metadata.dev());
        let mounted = || {
            let metadata = fs::metadata(source?).ok()?;
            metadata.file_type().is_block_device().then(|| metadata.rdev())
        };
        own.and_then(Device::numbered).or_else(|| mounted().and_then(Device::numbered))
    }

    fn numbered(number: u64) -> Option<Device> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        Device::at(Path::new(&format!("/sys/dev/block/{major}:{minor}")))
    }

    /// The device whose directory in sysfs is `link` or the target of `link`.
    fn at(link: &Path) -> Option<Device> {
        let directory = fs::canonicalize(link).ok()?;
        let partition = directory.join("partition").exists();
        let disk = if partition { directory.parent()?.to_path_buf() } else { directory.clone() };
        Some(Device { directory, disk })
    }

    /// Its name: `nvme0n1p2`.
    pub fn name(&self) -> String {
        self.directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The disk's read-ahead in KiB.
    pub fn read_ahead_kb(&self) -> Option<u64> {
        fs::read_to_string(self.disk.join("queue/read_ahead_kb")).ok()?.trim().parse().ok()
    }

    /// Its counters since the machine started.
    pub fn counted(&self) -> Option<DeviceIo> {
        let own = parse(&fs::read_to_string(self.directory.join("stat")).ok()?)?;
        if self.disk == self.directory {
            return Some(own);
        }
        let disk = parse(&fs::read_to_string(self.disk.join("stat")).ok()?)?;
        Some(DeviceIo { flushes: disk.flushes, ..own })
    }
}

/// The fields of `Documentation/block/stat.rst`; kernels before 5.5 count no flushes.
fn parse(text: &str) -> Option<DeviceIo> {
    let fields: Vec<u64> = text.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    Some(DeviceIo {
        reads: *fields.first()?,
        read_bytes: fields.get(2)? * SECTOR_BYTES,
        writes: *fields.get(4)?,
        written_bytes: fields.get(6)? * SECTOR_BYTES,
        flushes: fields.get(15).copied().unwrap_or(0),
        busy_ms: fields.get(9).copied().unwrap_or(0),
    })
}

/// The counts since `earlier`.
pub fn since(now: &DeviceIo, earlier: &DeviceIo) -> DeviceIo {
    DeviceIo {
        reads: now.reads.saturating_sub(earlier.reads),
        read_bytes: now.read_bytes.saturating_sub(earlier.read_bytes),
        writes: now.writes.saturating_sub(earlier.writes),
        written_bytes: now.written_bytes.saturating_sub(earlier.written_bytes),
        flushes: now.flushes.saturating_sub(earlier.flushes),
        busy_ms: now.busy_ms.saturating_sub(earlier.busy_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_in_sectors_of_512_bytes() {
        let io = parse("  10 0 8 1  20 0 4 1 0 50 0 0 0 0 0 30 7").unwrap();
        let expected =
            DeviceIo { reads: 10, read_bytes: 4096, writes: 20, written_bytes: 2048, flushes: 30, busy_ms: 50 };
        assert_eq!(io, expected);
        assert_eq!(parse("10 0 8 1 20 0 4 1 0 0 0").unwrap().flushes, 0);
        assert_eq!(parse("10 0"), None);
    }

    #[test]
    fn a_partition_has_its_own_counters_and_the_flushes_and_queue_of_its_disk() {
        let root = std::env::temp_dir().join(format!("thalweg-bench-device-{}", std::process::id()));
        let partition = root.join("disk/disk1");
        fs::create_dir_all(&partition).unwrap();
        fs::create_dir_all(root.join("disk/queue")).unwrap();
        fs::write(root.join("disk/stat"), "1 0 1 0 1 0 1 0 0 0 0 0 0 0 0 9 0").unwrap();
        fs::write(root.join("disk/queue/read_ahead_kb"), "128\n").unwrap();
        fs::write(partition.join("stat"), "5 0 2 0 6 0 4 0 0 0 0 0 0 0 0 0 0").unwrap();
        fs::write(partition.join("partition"), "1").unwrap();
        let device = Device::at(&partition).unwrap();
        let io = device.counted().unwrap();
        let expected = DeviceIo { reads: 5, read_bytes: 1024, writes: 6, written_bytes: 2048, flushes: 9, busy_ms: 0 };
        assert_eq!(io, expected);
        assert_eq!(device.name(), "disk1");
        assert_eq!(device.read_ahead_kb(), Some(128));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn proc_lies_on_no_device() {
        assert!(Device::under(Path::new("/proc"), Some(Path::new("proc"))).is_none());
    }
}
