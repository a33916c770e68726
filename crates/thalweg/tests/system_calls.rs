//! Buffered writes make no system call. The kernel is the judge: a thread in its strict mode (seccomp) may only read,
//! write to open files and end. It is killed at any other system call.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rustix::thread::{SecureComputingMode, set_secure_computing_mode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg::{Database, Durability};

/// Writes before the strict mode, which let the allocator take the memory that a thread needs.
const EARLIER: u64 = 2_000;
const WRITES: u64 = 10_000;

/// How many writes a thread in strict mode makes before it is killed.
fn writes_in_strict_mode(write: impl Fn(u64) + Send + 'static) -> u64 {
    let done = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&done);
    // Never joined: the kernel ends it, and it leaves no result.
    std::thread::spawn(move || {
        (0..EARLIER).for_each(&write);
        set_secure_computing_mode(SecureComputingMode::Strict).unwrap();
        for number in EARLIER..EARLIER + WRITES {
            write(number);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let start = Instant::now();
    let mut before = 0;
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = done.load(Ordering::SeqCst);
        if now == WRITES || now == before && start.elapsed() > Duration::from_secs(10) {
            return now;
        }
        before = now;
    }
}

/// Whether the log is mapped, which not every file system allows (docs/log.md).
fn is_mapped() -> bool {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| line.contains("/log/00000000.log"))
}

#[test]
fn a_buffered_put_in_a_directory_makes_no_system_call() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // Where a thread was killed in the middle of a write, a close would wait for that write.
    let open = |name: &str| std::mem::ManuallyDrop::new(Database::open(directory.path().join(name)).unwrap());
    let (db, synced) = (open("buffered"), open("synced"));
    let (files, rows) = (db.directory_keyspace("files").unwrap(), db.keyspace("rows").unwrap());
    let before = db.statistics().syncs_waited_for;
    if !is_mapped() {
        return eprintln!("not tested: the log cannot be mapped here");
    }
    let put = move |number: u64| files.insert(number % 100, number.to_be_bytes(), [7; 100]).unwrap();
    assert_eq!(writes_in_strict_mode(put), WRITES, "buffered puts in directories");
    assert_eq!(writes_in_strict_mode(move |number| rows.insert(number.to_be_bytes(), [7; 100]).unwrap()), WRITES);
    assert_eq!(db.statistics().syncs_waited_for, before, "no put waits for a sync");
    // Else the strict mode would prove nothing.
    let files = synced.directory_keyspace("files").unwrap();
    let put = move |number: u64| {
        let durability = if number < EARLIER { Durability::Buffered } else { Durability::Sync };
        files.insert_with(1, number.to_be_bytes(), "value", durability).unwrap();
    };
    assert_eq!(writes_in_strict_mode(put), 0, "a write that is synced");
}
