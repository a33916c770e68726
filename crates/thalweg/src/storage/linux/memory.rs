//! The memory that Linux has for this process: for the page cache, and as address space for mappings of files.
//!
//! The page cache's part is the minimum of what the machine has available and of what each control group on the way to
//! the root leaves (both versions of control groups). A group leaves the least of its limits, minus its usage, plus the
//! file pages in that usage, because the kernel can evict those. A value that cannot be read sets no limit.

use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::{Path, PathBuf};

/// Files are mapped while the process uses at most 1/`MAPPED_PART` of its address space.
const MAPPED_PART: u64 = 2;

/// The file names and fields of one version of control groups.
struct Names {
    /// The hard limit, and the limit beyond which the group is throttled.
    limits: &'static [&'static str],
    used: &'static str,
    file_pages: [&'static str; 2],
}

const VERSION_1: Names = Names {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    file_pages: ["total_active_file", "total_inactive_file"],
};

const VERSION_2: Names = Names {
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    file_pages: ["active_file", "inactive_file"],
};

/// See [`crate::storage::Storage::file_room_bytes`].
pub(super) fn file_room_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_bytes(&text));
    least_of_groups(group_room_bytes).into_iter().chain(machine).min()
}

/// See [`crate::storage::Storage::memory_max`].
pub(super) fn memory_max() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok();
    let machine = meminfo.and_then(|text| field(&text, "MemTotal:")?.checked_mul(1024));
    least_of_groups(group_limit_bytes).into_iter().chain(machine).min()
}

/// The least value that `of_line` gives for the lines of `/proc/self/cgroup`, each with the mounts of the process.
fn least_of_groups(of_line: fn(&str, &str) -> Option<u64>) -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    groups.lines().filter_map(|line| of_line(line, &mounts)).min()
}

/// See [`crate::storage::Storage::mappings_max`].
pub(super) fn mappings_max() -> Option<u64> {
    fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()
}

/// Whether `bytes` of a file may be mapped. Where the address space is limited (`ulimit -v`), mappings must leave half
/// of it: files can be read and written without mappings, but a process that gets no memory is aborted.
pub(super) fn may_map(bytes: u64) -> bool {
    let Some(limit) = getrlimit(Resource::As).current else { return true };
    let pages = fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let used = pages.map(|pages| pages.saturating_mul(rustix::param::page_size() as u64));
    used.is_some_and(|used| used.saturating_add(bytes) <= limit / MAPPED_PART)
}

/// `MemAvailable` of `/proc/meminfo`.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let kib = field(meminfo, "MemAvailable:")?;
    kib.checked_mul(1024)
}

/// The bytes that the groups of one line of `/proc/self/cgroup` leave; `None` where they do not limit memory.
fn group_room_bytes(line: &str, mountinfo: &str) -> Option<u64> {
    least(line, mountinfo, left_in)
}

/// The least limit of the groups of one line of `/proc/self/cgroup`; `None` where they do not limit memory.
fn group_limit_bytes(line: &str, mountinfo: &str) -> Option<u64> {
    least(line, mountinfo, limit_of)
}

/// The least value that `of_group` gives for the groups of one line and the groups above them.
fn least(line: &str, mountinfo: &str, of_group: fn(&Path, &Names) -> Option<u64>) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let (file_system, names) = match controllers {
        "" => ("cgroup2", VERSION_2),
        _ if controllers.split(',').any(|controller| controller == "memory") => ("cgroup", VERSION_1),
        _ => return None,
    };
    let (root, mounted) = mount_of(mountinfo, file_system)?;
    // In a container the mount may show only a part of the tree.
    let within = Path::new(path).strip_prefix(&root).unwrap_or(Path::new(""));
    let innermost = mounted.join(within);
    let groups = innermost.ancestors().take_while(|group| group.starts_with(&mounted));
    groups.filter_map(|group| of_group(group, &names)).min()
}

/// The root within its hierarchy, and the mount point, of the mount with the memory controller.
fn mount_of(mountinfo: &str, file_system: &str) -> Option<(PathBuf, PathBuf)> {
    mountinfo.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let options = (kind.next()? == file_system).then(|| kind.nth(1))??;
        if file_system == "cgroup" && !options.split(',').any(|option| option == "memory") {
            return None;
        }
        let mut places = mount.split(' ').skip(3);
        Some((PathBuf::from(places.next()?), PathBuf::from(places.next()?)))
    })
}

/// The bytes that one group leaves.
fn left_in(group: &Path, names: &Names) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let limit = limit_of(group, names)?;
    let used: u64 = read(names.used)?.trim().parse().ok()?;
    let pages = read("memory.stat")?;
    let files = names.file_pages.iter().filter_map(|name| field(&pages, name)).sum();
    Some(limit.saturating_sub(used.saturating_sub(files)))
}

/// The limit of one group.
fn limit_of(group: &Path, names: &Names) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    // No limit is "max" in version 2, and a huge number in version 1.
    let limit = |name: &&str| read(name)?.trim().parse().ok().filter(|limit: &u64| *limit < 1 << 60);
    names.limits.iter().filter_map(limit).min()
}

/// The number after `name` at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tests::TestDirectory;

    fn group(directory: &Path, names: &Names, limit: &str, used: u64, files: u64) {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join(names.limits[0]), format!("{limit}\n")).unwrap();
        fs::write(directory.join(names.used), format!("{used}\n")).unwrap();
        let [active, inactive] = names.file_pages;
        fs::write(directory.join("memory.stat"), format!("cache 7\n{active} {files}\n{inactive} 1\n")).unwrap();
    }

    #[test]
    fn the_tightest_group_on_the_way_up_decides_and_pages_of_files_give_way() {
        let directory = TestDirectory::new("groups");
        let root = &directory.0;
        group(root, &VERSION_2, "max", 5000, 0);
        group(&root.join("a"), &VERSION_2, "1000", 700, 199);
        group(&root.join("a/b"), &VERSION_2, "900", 200, 99);
        let mounts = format!("30 20 0:26 / {} rw,nosuid - cgroup2 cgroup2 rw\n", root.display());
        assert_eq!(group_room_bytes("0::/a/b", &mounts), Some(500));
        assert_eq!(group_room_bytes("0::/a", &mounts), Some(500));
        assert_eq!(group_room_bytes("0::/", &mounts), None);
        fs::write(root.join("a/memory.high"), "max\n").unwrap();
        assert_eq!(group_room_bytes("0::/a", &mounts), Some(500));
        fs::write(root.join("a/memory.high"), "800\n").unwrap();
        assert_eq!(group_room_bytes("0::/a", &mounts), Some(300));
        assert_eq!(group_limit_bytes("0::/a/b", &mounts), Some(800));
        assert_eq!(group_limit_bytes("0::/", &mounts), None);
    }

    #[test]
    fn the_first_version_is_read_where_its_memory_controller_is() {
        let directory = TestDirectory::new("groups-1");
        let root = &directory.0;
        group(&root.join("x"), &VERSION_1, "4096", 1000, 499);
        group(root, &VERSION_1, "9223372036854771712", 1000, 0);
        let line =
            |controllers: &str| format!("33 20 0:28 /outer {} rw - cgroup cgroup rw,{controllers}\n", root.display());
        let mounts = format!("29 20 0:25 / /elsewhere rw - cgroup cgroup rw,cpu\n{}", line("memory"));
        assert_eq!(group_room_bytes("4:memory:/outer/x", &mounts), Some(3596));
        assert_eq!(group_room_bytes("2:cpu,cpuacct:/outer/x", &mounts), None);
        assert_eq!(group_room_bytes("4:memory:/outer/x", &line("cpu")), None);
    }

    #[test]
    fn what_is_available_is_told_in_bytes() {
        assert_eq!(available_bytes("MemTotal:  9 kB\nMemAvailable:    3 kB\n"), Some(3072));
        assert_eq!(available_bytes("MemTotal:  9 kB\n"), None);
        assert!(file_room_bytes().is_none_or(|room| room > 0));
        assert!(memory_max().is_none_or(|most| file_room_bytes().is_none_or(|room| room <= most)));
    }
}
