//! Several threads on one volume: few names, directories that move across directories, and everything at once. There
//! must be no deadlock, no circle of directories, no error but those of POSIX, and a volume that a check finds whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_fs::{Caller, Ino, Limits, NewInode, OpenOptions, READ, ROOT, RenameFlags, Volume, WRITE};
use thalweg_fs_sim::{MemoryDisk, VirtualClock, check, check_totals};
use thalweg_sim::Rng;

const ME: Caller<'static> = Caller::ROOT;
const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];
/// No operation waits longer.
const PATIENCE: Duration = Duration::from_secs(60);
const THREADS: u64 = 4;

/// What refuses an operation among others, and is no fault.
fn is_refused(errno: i32) -> bool {
    let refused = [
        libc::ENOENT,
        libc::EEXIST,
        libc::ENOTDIR,
        libc::EISDIR,
        libc::ENOTEMPTY,
        libc::EINVAL,
        libc::EPERM,
        libc::ESTALE,
        libc::ENXIO,
    ];
    refused.contains(&errno)
}

struct Worker<'v> {
    volume: &'v Volume,
    rng: Rng,
    /// What it refers to, once for each lookup.
    held: Vec<Ino>,
}

impl Worker<'_> {
    fn done<T>(&self, what: &str, result: thalweg_fs::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) if is_refused(error.errno()) && !error.is_fault() => None,
            Err(error) => panic!("{what}: {error} ({})", error.errno()),
        }
    }

    fn name(&mut self) -> &'static [u8] {
        NAMES[self.rng.index(NAMES.len())]
    }

    fn any(&mut self) -> Ino {
        if self.held.is_empty() || self.rng.one_in(6) { ROOT } else { self.held[self.rng.index(self.held.len())] }
    }

    fn step(&mut self) {
        let (volume, ino, other, name, second) = (self.volume, self.any(), self.any(), self.name(), self.name());
        match self.rng.below(16) {
            0 | 1 => {
                let new = if self.rng.one_in(2) { NewInode::directory(0o777) } else { NewInode::file(0o666) };
                let made = self.done("create", volume.create(&ME, ino, name, new));
                self.held.extend(made.map(|made| made.ino));
            }
            2 | 3 => {
                let found = self.done("lookup", volume.lookup(&ME, ino, name));
                self.held.extend(found.map(|found| found.ino));
            }
            4 => {
                let linked = self.done("link", volume.link(&ME, ino, other, name));
                self.held.extend(linked.map(|linked| linked.ino));
            }
            5 => _ = self.done("unlink", volume.unlink(&ME, ino, name)),
            6 => _ = self.done("rmdir", volume.remove_directory(&ME, ino, name)),
            7..10 => {
                let flags = *self.rng.choose(&[RenameFlags::Replace, RenameFlags::Replace, RenameFlags::Exchange]);
                self.done("rename", volume.rename(&ME, (ino, name), (other, second), flags));
            }
            10 => {
                let entries = self.done("list", volume.list(ino, 0, 3, true)).unwrap_or_default();
                self.held.extend(entries.iter().filter_map(|entry| entry.attributes.map(|_| entry.ino)));
            }
            11 => {
                let offset = self.rng.below(3_000);
                self.done("write", volume.write(&ME, ino, offset, &[7; 300]));
            }
            12 => {
                self.done("read", volume.read(ino, 0, 4_096));
            }
            13 => {
                let access = *self.rng.clone().choose(&[READ, WRITE]);
                if self.done("open", volume.open(&ME, ino, access)).is_some() {
                    self.done("append", volume.append(&ME, ino, b"more"));
                    self.done("release", volume.release(ino));
                }
            }
            14 => {
                let path = [b"/", name, b"/", second, b"/.."].concat();
                let found = self.done("resolve", volume.resolve(&ME, &path));
                self.held.extend(found.map(|found| found.ino));
            }
            _ if self.rng.one_in(8) => _ = self.done("sync", volume.sync()),
            _ => _ = self.done("fsync", volume.sync_file(ino)),
        }
        while self.held.len() > 6 {
            let index = self.rng.index(self.held.len());
            volume.forget(self.held.swap_remove(index), 1);
        }
    }
}

fn run(volume: &Volume, seed: u64, steps: u64) {
    let beats: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (beats, is_done) = (&beats, &is_done);
        scope.spawn(move || {
            let (mut before, mut since) = (Vec::new(), Instant::now());
            while !is_done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                let now: Vec<u64> = beats.iter().map(|beat| beat.load(Ordering::Relaxed)).collect();
                if now != before {
                    (before, since) = (now, Instant::now());
                } else if since.elapsed() > PATIENCE {
                    eprintln!("deadlock: seed {seed}, {now:?} steps");
                    std::process::abort();
                }
            }
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut worker = Worker { volume, rng: Rng::new(seed * 100 + thread), held: Vec::new() };
                    for step in 0..steps {
                        worker.step();
                        beats[thread as usize].store(step, Ordering::Relaxed);
                        if thread == 1 && step == 50 {
                            let counted = worker.volume.recount(&|| true);
                            worker.done("recount", counted);
                        }
                        if thread == 0 && step % 100 == 0 {
                            let work = worker.volume.work();
                            worker.done("work", work);
                        }
                    }
                    for ino in worker.held {
                        volume.forget(ino, 1);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        is_done.store(true, Ordering::Relaxed);
        for ended in ended {
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic);
            }
        }
    });
    assert_eq!(volume.inodes_in_use(), 1, "only the root is in use after all forgets");
    let worked = volume.work().map_err(|error| error.to_string());
    let checked = worked.and_then(|_| check(volume, |_| false)).and_then(|()| check_totals(volume));
    if let Err(found) = checked {
        panic!("seed {seed}: {found}");
    }
}

#[test]
fn threads_in_memory_do_not_break_a_volume() {
    for seed in 1..=40 {
        let clock = Arc::new(VirtualClock::default());
        let disk = MemoryDisk::new(seed, seed % 2 == 0, &clock);
        Volume::format_on(&disk.rows(), Default::default(), &*clock).unwrap_or_else(|error| panic!("{error}"));
        disk.yield_after_reads([0, 3, 10, 50][seed as usize % 4]);
        let limits = Limits { rows_bytes_max: 1_000, rewritten_bytes_max: 1_000, ..Limits::default() };
        let opened = || OpenOptions::new().limits(limits).open_on(Box::new(disk.rows()), Box::new(disk.objects()));
        // A mount that is left without a close, so that the inodes are counted while the threads run.
        let left = opened().unwrap_or_else(|error| panic!("{error}"));
        for name in NAMES {
            if let Err(error) = left.create(&ME, ROOT, name, NewInode::directory(0o777)) {
                panic!("{error}");
            }
        }
        drop(left);
        let volume = opened().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(volume.usage().map(|usage| usage.inodes).ok(), Some(1));
        run(&volume, seed, 4_000);
    }
}

#[test]
fn threads_on_the_engine_do_not_break_a_volume() {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let path = folder.path().join("volume");
    Volume::format(&path, Default::default()).unwrap_or_else(|error| panic!("{error}"));
    let limits = Limits { rows_bytes_max: 1_000, rewritten_bytes_max: 1_000, ..Limits::default() };
    let volume = OpenOptions::new().limits(limits).open(&path).unwrap_or_else(|error| panic!("{error}"));
    for seed in 1..=3 {
        run(&volume, seed, 4_000);
    }
}
