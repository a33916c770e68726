//! [`Limits`]: the time that the device and the processor take for the least work that any engine must do here.
//!
//! Reads and writes bypass the page cache (`O_DIRECT`), one at a time. The measurement fails on a file system without
//! direct I/O.

use crate::distribution::{Uniform, random};
use crate::error::{Error, Result};
use crc_fast::{CrcAlgorithm, Digest};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// The bytes of a read and of a synced write, and the alignment of direct I/O.
const PAGE_BYTES: usize = 4096;
/// The bytes of one sequential write.
const PIECE_BYTES: usize = 1 << 20;
/// The greatest number of measurements of one kind.
const COUNT_MAX: usize = 100_000;
/// The memory that records are copied to repeatedly. Like a log and a memtable, it is larger than any cache.
const COPIED_BYTES: usize = 64 << 20;
/// How often the copies are timed; the median counts.
const COPY_ROUNDS: usize = 5;

/// The limits to measure.
#[derive(Clone, Copy)]
pub struct Measure<'a> {
    /// The directory of the file, which is removed afterwards.
    pub directory: &'a Path,
    /// The size of the file.
    pub file_bytes: u64,
    /// How long each measurement may take.
    pub longest: Duration,
    /// Bytes of a record's key.
    pub key_bytes: usize,
    /// Bytes of a record's value.
    pub value_bytes: usize,
    /// Whether the measurement is to end early.
    pub stop: &'a dyn Fn() -> bool,
}

/// Several measurements of one thing, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The median.
    pub median_ns: f64,
    /// The 99th percentile.
    pub p99_ns: f64,
    /// The number of measurements.
    pub count: u64,
}

/// The results of the measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// A direct read of 4 KiB at random; one read is in flight.
    pub read_4k: Times,
    /// Direct writes of 1 MiB one after the other into reserved space, and the sync at their end.
    pub write_bytes_per_second: f64,
    /// A direct write of 4 KiB over bytes written earlier, and its `fdatasync`.
    pub sync_4k: Times,
    /// The checksum of a record (CRC-32C) and its copy to memory that is not in the processor's caches.
    pub record_ns: f64,
    /// Bytes of such a record's key.
    pub key_bytes: u64,
    /// Bytes of the record's value.
    pub value_bytes: u64,
    /// Bytes of the file that was written and read.
    pub file_bytes: u64,
}

impl Limits {
    /// Measures all limits, which takes a few seconds.
    ///
    /// # Errors
    /// `Usage` for a file that is too small; the system's refusals, for example of direct I/O; `Io`, interrupted, if
    /// `stop` ended the measurement early.
    pub fn measure(what: &Measure<'_>) -> Result<Limits> {
        let pieces = what.file_bytes / PIECE_BYTES as u64;
        if pieces == 0 {
            return Err(Error::Usage("the file must have at least 1 MiB".into()));
        }
        let path = what.directory.join("limits");
        let failed = |error: io::Error| Error::io(format!("measure direct I/O on {}", path.display()), error);
        let file = create(&path).map_err(failed)?;
        // The file needs no name, and without a name nothing is left of it, however the process ends.
        std::fs::remove_file(&path).map_err(failed)?;
        let write_bytes_per_second = write(&file, pieces, what.stop).map_err(failed)?;
        let read_4k = read(&file, pieces, what).map_err(failed)?;
        let sync_4k = sync(&file, what).map_err(failed)?;
        drop(file);
        Ok(Limits {
            read_4k,
            write_bytes_per_second,
            sync_4k,
            record_ns: copy(what.key_bytes, what.value_bytes),
            key_bytes: what.key_bytes as u64,
            value_bytes: what.value_bytes as u64,
            file_bytes: pieces * PIECE_BYTES as u64,
        })
    }
}

fn create(path: &Path) -> io::Result<File> {
    let direct = OFlags::DIRECT.bits().cast_signed();
    OpenOptions::new().read(true).write(true).create_new(true).custom_flags(direct).open(path)
}

/// Returns memory for direct I/O, filled with incompressible bytes, and the offset of its aligned part.
fn aligned(bytes: usize) -> (Vec<u8>, usize) {
    let mut random = random(1, "limits", 0);
    let mut memory = vec![0; bytes + PAGE_BYTES];
    for word in memory.chunks_exact_mut(8) {
        word.copy_from_slice(&Uniform::below(u64::MAX, &mut random).to_le_bytes());
    }
    let start = memory.as_ptr().align_offset(PAGE_BYTES);
    (memory, start)
}

/// Writes the file, and returns the bytes a second.
fn write(file: &File, pieces: u64, stop: &dyn Fn() -> bool) -> io::Result<f64> {
    let (memory, start) = aligned(PIECE_BYTES);
    let bytes = pieces * PIECE_BYTES as u64;
    // Reserved, because the kernel serialises direct writes that extend a file. Without a reservation the writes extend
    // it.
    let _ = fallocate(file, FallocateFlags::empty(), 0, bytes);
    let begun = Instant::now();
    for piece in 0..pieces {
        go_on(stop)?;
        file.write_all_at(&memory[start..start + PIECE_BYTES], piece * PIECE_BYTES as u64)?;
    }
    file.sync_data()?;
    Ok(bytes as f64 / begun.elapsed().as_secs_f64())
}

fn read(file: &File, pieces: u64, what: &Measure<'_>) -> io::Result<Times> {
    let (mut memory, start) = aligned(PAGE_BYTES);
    let mut random = random(2, "limits", 0);
    let pages = pieces * (PIECE_BYTES / PAGE_BYTES) as u64;
    times(what, || {
        let page = Uniform::below(pages, &mut random);
        file.read_exact_at(&mut memory[start..start + PAGE_BYTES], page * PAGE_BYTES as u64)
    })
}

fn sync(file: &File, what: &Measure<'_>) -> io::Result<Times> {
    let (memory, start) = aligned(PAGE_BYTES);
    times(what, || {
        file.write_all_at(&memory[start..start + PAGE_BYTES], 0)?;
        file.sync_data()
    })
}

fn go_on(stop: &dyn Fn() -> bool) -> io::Result<()> {
    if stop() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}

/// Calls `act` repeatedly, and times each call.
fn times(what: &Measure<'_>, mut act: impl FnMut() -> io::Result<()>) -> io::Result<Times> {
    let mut taken = Vec::new();
    let begun = Instant::now();
    while taken.is_empty() || (begun.elapsed() < what.longest && taken.len() < COUNT_MAX) {
        go_on(what.stop)?;
        let start = Instant::now();
        act()?;
        taken.push(start.elapsed().as_nanos() as f64);
    }
    taken.sort_by(f64::total_cmp);
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share).round() as usize];
    Ok(Times { median_ns: at(0.5), p99_ns: at(0.99), count: taken.len() as u64 })
}

/// Measures the nanoseconds of a record's checksum and copy.
fn copy(key_bytes: usize, value_bytes: usize) -> f64 {
    let (source, _) = aligned(PIECE_BYTES + key_bytes + value_bytes);
    let record_bytes = (key_bytes + value_bytes).max(1);
    let mut target = vec![1; COPIED_BYTES.max(record_bytes)];
    let records = target.len() / record_bytes;
    let mut rounds: Vec<f64> = (0..=COPY_ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            for (number, place) in target.chunks_exact_mut(record_bytes).enumerate() {
                let from = number * record_bytes % PIECE_BYTES;
                let (key, value) = source[from..from + record_bytes].split_at(key_bytes.min(record_bytes));
                let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
                sum.update(black_box(key));
                sum.update(black_box(value));
                place[..key.len()].copy_from_slice(key);
                place[key.len()..].copy_from_slice(value);
                black_box(sum.finalize());
            }
            begun.elapsed().as_nanos() as f64 / records as f64
        })
        .skip(1) // The first one touches the memory.
        .collect();
    black_box(&target);
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_measured_and_nothing_is_left() {
        let directory = std::env::temp_dir().join(format!("thalweg-bench-limits-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let longest = Duration::from_millis(20);
        let what = Measure {
            directory: &directory,
            file_bytes: 4 << 20,
            longest,
            key_bytes: 16,
            value_bytes: 1000,
            stop: &|| false,
        };
        let stopped = Limits::measure(&Measure { stop: &|| true, ..what });
        assert!(matches!(stopped, Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::Interrupted));
        let measured = Limits::measure(&what);
        let left = std::fs::read_dir(&directory).unwrap().count();
        std::fs::remove_dir_all(&directory).unwrap();
        // A file system without direct I/O.
        let Ok(limits) = measured else { panic!("{}", measured.unwrap_err()) };
        assert_eq!(left, 0);
        assert!(limits.read_4k.median_ns > 100.0 && limits.read_4k.p99_ns >= limits.read_4k.median_ns);
        assert!(limits.sync_4k.count > 0 && limits.sync_4k.median_ns > 100.0);
        assert!(limits.write_bytes_per_second > 1e5 && limits.record_ns > 1.0);
        let stored: Limits = serde_json::from_str(&serde_json::to_string(&limits).unwrap()).unwrap();
        assert_eq!(stored, limits);
    }

    fn nothing(directory: &Path) -> Measure<'_> {
        let longest = Duration::ZERO;
        Measure { directory, file_bytes: 0, longest, key_bytes: 1, value_bytes: 1, stop: &|| false }
    }

    #[test]
    fn a_file_too_small_is_refused_before_anything_is_made() {
        let directory = Path::new("nowhere");
        assert!(matches!(Limits::measure(&Measure { file_bytes: 1, ..nothing(directory) }), Err(Error::Usage(_))));
    }

    #[test]
    fn a_failure_is_told_and_a_slow_thing_is_measured_once() {
        let what = nothing(Path::new("nowhere"));
        assert!(times(&what, || Err(io::ErrorKind::Other.into())).is_err());
        assert_eq!(times(&what, || Ok(())).unwrap().count, 1);
    }
}
