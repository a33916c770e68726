//! The C library's `fsync`, `fdatasync`, `msync` and `sync_file_range`, counted and timed.
//!
//! This executable defines the four itself and exports them, so that every library in the process, compiled in or
//! loaded later, calls these; each makes the system call and counts it. Thalweg makes its system calls without the C
//! library and counts its own. What is no call is not seen: a file opened with `O_DSYNC` syncs with each write (LMDB
//! writes its meta page so).
//!
//! Invariant: the counters only grow, whoever reads them.

#![expect(unsafe_code, reason = "takes the place of functions of the C library")]

use libc::{c_int, c_long, c_uint, c_void, off64_t, size_t};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use thalweg_bench::engine::{Counters, Syncs};

static SYNCS: AtomicU64 = AtomicU64::new(0);
static NANOSECONDS: AtomicU64 = AtomicU64::new(0);
static RANGES: AtomicU64 = AtomicU64::new(0);

/// The syncs since a moment.
pub struct Since {
    syncs: u64,
    nanoseconds: u64,
    ranges: u64,
}

impl Since {
    /// From now on.
    pub fn now() -> Since {
        Since {
            syncs: SYNCS.load(Ordering::Relaxed),
            nanoseconds: NANOSECONDS.load(Ordering::Relaxed),
            ranges: RANGES.load(Ordering::Relaxed),
        }
    }

    /// Adds what this process synced since then. `sync_file_range` starts writing but promises nothing: it is no sync,
    /// and stands among the other counters.
    pub fn add_to(&self, counters: &mut Counters) {
        let now = Since::now();
        counters.syncs = Some(Syncs {
            count: now.syncs - self.syncs,
            total_ns: Some(now.nanoseconds - self.nanoseconds),
            waited_for: None,
        });
        counters.other.insert("sync_file_range calls".to_owned(), now.ranges - self.ranges);
    }
}

fn counted(call: impl FnOnce() -> c_long) -> c_int {
    let began = Instant::now();
    let result = call();
    let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    NANOSECONDS.fetch_add(took, Ordering::Relaxed);
    SYNCS.fetch_add(1, Ordering::Relaxed);
    // The system call returns 0 or -1.
    result as c_int
}

/// `fsync(2)`, counted.
// SAFETY: the only definition in this executable, with the signature of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn fsync(file: c_int) -> c_int {
    // SAFETY: the kernel checks the descriptor; no memory is passed.
    counted(|| unsafe { libc::syscall(libc::SYS_fsync, file) })
}

/// `fdatasync(2)`, counted.
// SAFETY: the only definition in this executable, with the signature of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(file: c_int) -> c_int {
    // SAFETY: the kernel checks the descriptor; no memory is passed.
    counted(|| unsafe { libc::syscall(libc::SYS_fdatasync, file) })
}

/// `msync(2)`, counted where it waits (`MS_SYNC`).
///
/// # Safety
/// As `msync(2)`: none that the kernel does not check.
// SAFETY: the only definition in this executable, with the signature of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msync(start: *mut c_void, bytes: size_t, flags: c_int) -> c_int {
    // SAFETY: the kernel checks the range and changes no memory.
    let call = || unsafe { libc::syscall(libc::SYS_msync, start, bytes, flags) };
    if flags & libc::MS_SYNC != 0 { counted(call) } else { call() as c_int }
}

/// `sync_file_range(2)`, counted apart.
// SAFETY: the only definition in this executable, with the signature of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn sync_file_range(file: c_int, start: off64_t, bytes: off64_t, flags: c_uint) -> c_int {
    RANGES.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel checks the descriptor and the range; no memory is passed.
    unsafe { libc::syscall(libc::SYS_sync_file_range, file, start, bytes, flags) as c_int }
}
