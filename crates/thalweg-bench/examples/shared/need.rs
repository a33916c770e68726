//! [`Need`]: what a database needs, and its process.

use std::path::Path;
use thalweg_bench::machine::allocated;

/// What is looked at every second.
#[derive(Clone, Copy, Default)]
pub struct Need {
    memory_mib: f64,
    descriptors: f64,
    threads: f64,
    files: f64,
    space_mib: f64,
    /// How many looks the others are the sums of.
    looks: f64,
}

impl Need {
    pub fn now(directory: &Path) -> Need {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let kib = |name: &str| -> f64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        let space: u64 = allocated(directory).unwrap().values().sum();
        Need {
            memory_mib: (kib("VmRSS:") - kib("RssFile:")) / 1024.0,
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count() as f64,
            threads: kib("Threads:"),
            files: files(directory) as f64,
            space_mib: space as f64 / f64::from(1 << 20),
            looks: 1.0,
        }
    }

    /// The means of all looks.
    pub fn means(self) -> [f64; 5] {
        let sums = [self.memory_mib, self.descriptors, self.threads, self.files, self.space_mib];
        sums.map(|sum| sum / self.looks)
    }

    /// The sums of both.
    pub fn with(self, other: Need) -> Need {
        Need {
            memory_mib: self.memory_mib + other.memory_mib,
            descriptors: self.descriptors + other.descriptors,
            threads: self.threads + other.threads,
            files: self.files + other.files,
            space_mib: self.space_mib + other.space_mib,
            looks: self.looks + other.looks,
        }
    }
}

/// Files below a directory. Those that vanish meanwhile do not count.
fn files(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let count = |entry: std::fs::DirEntry| if entry.path().is_dir() { files(&entry.path()) } else { 1 };
    entries.map(count).sum()
}
