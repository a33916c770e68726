//! The description of the machine, seen from the directory of the database.

use super::device::Device;
use super::memory;
use crate::report::Machine;
use procfs::process::{MountInfo, Process};
use procfs::{CpuInfo, Current, CurrentSI, KernelStats};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Read-ahead in KiB above which a random read of one block fetches mostly unneeded data.
const READ_AHEAD_KB_MAX: u64 = 256;

/// Describes the machine, seen from `directory`. Unknown parts are left empty.
pub fn describe(directory: &Path) -> Machine {
    let device = device_of(directory);
    Machine {
        cpu: processor(),
        cpus: KernelStats::current().map_or(0, |stats| u32::try_from(stats.cpu_time.len()).unwrap_or(0)),
        memory_bytes: memory::of_machine().map_or(0, |(all, _)| all),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| String::new(), |s| s.trim().into()),
        file_system: mount_of(directory).map(|mount| file_system(&mount)).unwrap_or_default(),
        device: device.as_ref().map(Device::name),
        read_ahead_kb: device.as_ref().and_then(Device::read_ahead_kb),
    }
}

/// A note on a read-ahead that ruins random reads. The device has this setting; nothing here changes it.
pub fn read_ahead_note(machine: &Machine) -> Option<String> {
    let (device, kib) = (machine.device.as_ref()?, machine.read_ahead_kb?);
    (kib > READ_AHEAD_KB_MAX).then(|| {
        format!(
            "{device} reads {kib} KiB ahead, which random reads through the page cache pay for; to compare with others \
             set its queue/read_ahead_kb to 128"
        )
    })
}

/// The block device under `directory`.
pub(super) fn device_of(directory: &Path) -> Option<Device> {
    let source = mount_of(directory).and_then(|mount| mount.mount_source).map(PathBuf::from);
    Device::under(directory, source.as_deref())
}

/// The mount that holds `directory`: the deepest mount on its path; of several at one mount point, the last.
fn mount_of(directory: &Path) -> Option<MountInfo> {
    let directory = fs::canonicalize(directory).ok()?;
    let mounts = Process::myself().and_then(|process| process.mountinfo()).ok()?;
    let depth = |mount: &MountInfo| mount.mount_point.components().count();
    mounts.into_iter().filter(|mount| directory.starts_with(&mount.mount_point)).max_by_key(depth)
}

/// The description of a file system: `ext4, data=ordered,noatime,rw`.
fn file_system(mount: &MountInfo) -> String {
    // `rw` may be in both maps. The options are sorted, so that two runs give the same text.
    let options: BTreeMap<_, _> = mount.super_options.iter().chain(&mount.mount_options).collect();
    let options: Vec<String> = options
        .into_iter()
        .map(|(name, value)| value.as_ref().map_or_else(|| name.clone(), |value| format!("{name}={value}")))
        .collect();
    format!("{}, {}", mount.fs_type, options.join(","))
}

/// The processor's name, or else its architecture.
fn processor() -> String {
    let info = CpuInfo::current().ok();
    let name = info.as_ref().and_then(|info| info.model_name(0));
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let machine = describe(&std::env::temp_dir());
        assert!(machine.cpus >= 1 && machine.memory_bytes > 1 << 20, "{machine:?}");
        assert!(!machine.cpu.is_empty() && !machine.kernel.is_empty(), "{machine:?}");
        assert!(machine.file_system.contains(", "), "{machine:?}");
    }

    #[test]
    fn proc_is_known_by_its_type_and_has_no_device() {
        let machine = describe(Path::new("/proc/self"));
        assert!(machine.file_system.starts_with("proc, "), "{machine:?}");
        assert_eq!(machine.device, None);
    }

    #[test]
    fn a_large_read_ahead_is_told() {
        let with = |kib| Machine { device: Some("sda".into()), read_ahead_kb: Some(kib), ..Machine::default() };
        assert_eq!(read_ahead_note(&with(256)), None);
        assert!(read_ahead_note(&with(4096)).unwrap().starts_with("sda reads 4096 KiB ahead"));
        assert_eq!(read_ahead_note(&Machine::default()), None);
    }
}
