//! [`Sampler`]: samples memory and I/O of this process during a run, ten times a second.
//!
//! When a long run has too many samples, every second one is dropped, so that the samples stay evenly spread. A sample
//! that cannot be read is left out, and the run continues.
//!
//! Lock: `taken`, held while a sample is read.

use super::describe::device_of;
use super::device::Device;
use super::io;
use crate::report::Sample;
use procfs::process::Process;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The number of samples above which they are thinned.
const SAMPLES_MAX: usize = 600;

/// Takes the samples of one run.
pub struct Sampler {
    device: Option<Device>,
    /// `memory.stat` of the process's own memory control group.
    group: Option<PathBuf>,
    /// Bytes read and written before the run.
    before: (u64, u64),
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    samples: Vec<Sample>,
    /// Calls of `look` skipped between two samples.
    skipped: u32,
    /// Calls of `look` since the last sample.
    looks: u32,
}

impl Sampler {
    /// A sampler for a database in `directory`; `grouped`: the process has a memory control group of its own.
    pub fn new(directory: &Path, grouped: bool) -> Sampler {
        let device = device_of(directory);
        let group = if grouped { group_statistics() } else { None };
        let before = moved(device.as_ref()).unwrap_or_default();
        Sampler { device, group, before, taken: Mutex::default() }
    }

    /// Takes a sample, `seconds` after the start.
    pub fn look(&self, seconds: f64) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.looks < taken.skipped {
            taken.looks += 1;
            return;
        }
        taken.looks = 0;
        if let Some(sample) = self.sample(seconds) {
            taken.samples.push(sample);
        }
        if taken.samples.len() > SAMPLES_MAX {
            let mut number = 0;
            taken.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            taken.skipped = taken.skipped * 2 + 1;
        }
    }

    /// Stops, and returns the samples.
    pub fn end(self) -> Vec<Sample> {
        self.taken.into_inner().unwrap_or_else(PoisonError::into_inner).samples
    }

    fn sample(&self, seconds: f64) -> Option<Sample> {
        let status = Process::myself().and_then(|process| process.status()).ok()?;
        let bytes = |kib: Option<u64>| kib.unwrap_or(0) * 1024;
        let (read, written) = moved(self.device.as_ref())?;
        Some(Sample {
            ms: (seconds * 1e3) as u64,
            rss_bytes: bytes(status.vmrss),
            mapped_bytes: bytes(status.rssfile),
            page_cache_bytes: self.group.as_deref().and_then(page_cache),
            read_bytes: read.saturating_sub(self.before.0),
            written_bytes: written.saturating_sub(self.before.1),
        })
    }
}

/// Bytes read and written so far, by the device or, if there is none, for the process.
fn moved(device: Option<&Device>) -> Option<(u64, u64)> {
    match device.and_then(Device::counted) {
        Some(counted) => Some((counted.read_bytes, counted.written_bytes)),
        None => io::counted().ok().map(|counted| (counted.read_bytes, counted.written_bytes)),
    }
}

/// Bytes that this process's own control group may still have: `None` without a limit.
pub(super) fn left_in_group() -> Option<u64> {
    let group = group_statistics()?;
    let figure = |name: &str| fs::read_to_string(group.with_file_name(name)).ok()?.trim().parse::<u64>().ok();
    // Without a limit, version 2 of control groups says `max`, and version 1 a number beyond any memory.
    let limit = figure("memory.max").or_else(|| figure("memory.limit_in_bytes"))?;
    let used = figure("memory.current").or_else(|| figure("memory.usage_in_bytes"))?;
    Some(limit.saturating_sub(used))
}

/// `memory.stat` of the group that this process is in.
fn group_statistics() -> Option<PathBuf> {
    let process = Process::myself().ok()?;
    let mounts = process.mountinfo().ok()?;
    let mounts: Vec<_> = mounts.into_iter().collect();
    let groups = process.cgroups().ok()?;
    let file = |group: procfs::ProcessCGroup| {
        let is_memory = group.controllers.iter().any(|controller| controller == "memory");
        let mount = mounts.iter().find(|mount| match is_memory {
            true => mount.fs_type == "cgroup" && mount.super_options.contains_key("memory"),
            false => group.hierarchy == 0 && mount.fs_type == "cgroup2",
        })?;
        let file = mount.mount_point.join(group.pathname.trim_start_matches('/')).join("memory.stat");
        file.exists().then_some(file)
    };
    groups.into_iter().find_map(file)
}

/// Bytes of page cache: `cache` in version 1 of control groups, `file` in version 2.
fn page_cache(statistics: &Path) -> Option<u64> {
    let text = fs::read_to_string(statistics).ok()?;
    let figure = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    figure("cache ").or_else(|| figure("file "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_memory_and_bytes_that_only_grow() {
        let sampler = Sampler::new(&std::env::temp_dir(), false);
        sampler.look(0.0);
        sampler.look(0.1);
        let samples = sampler.end();
        let [first, second] = &samples[..] else { panic!("{} samples", samples.len()) };
        assert!(first.rss_bytes > 0 && first.mapped_bytes <= first.rss_bytes);
        assert_eq!((first.ms, second.ms), (0, 100));
        assert!(second.written_bytes >= first.written_bytes && first.page_cache_bytes.is_none());
    }

    #[test]
    fn of_a_long_run_there_are_evenly_spread_samples() {
        let sampler = Sampler::new(&std::env::temp_dir(), false);
        for look in 0..2000 {
            sampler.look(f64::from(look));
        }
        let samples = sampler.end();
        assert!((SAMPLES_MAX / 2..=SAMPLES_MAX).contains(&samples.len()), "{}", samples.len());
        let steps: Vec<u64> = samples.windows(2).map(|two| two[1].ms - two[0].ms).collect();
        assert!(steps.iter().all(|step| (3999..=4001).contains(step)), "{steps:?}");
    }

    #[test]
    fn page_cache_is_read_of_both_versions() {
        let path = std::env::temp_dir().join(format!("thalweg-bench-memory-stat-{}", std::process::id()));
        for (text, expected) in [("cache 4096\nrss 1\n", Some(4096)), ("anon 1\nfile 8192\n", Some(8192)), ("", None)] {
            fs::write(&path, text).unwrap();
            assert_eq!(page_cache(&path), expected);
        }
        fs::remove_file(&path).unwrap();
    }
}
