//! What is measured.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;

use clap::ValueEnum;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// Bytes of a file that is written and synced.
const SMALL_BYTES: usize = 16 << 10;

/// Calls of `getattr` a file.
const GETATTRS: usize = 4;

/// One kind of call, or a sequence of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Phase {
    /// Create and close.
    Create,
    /// Ask for the attributes of an open file by fstat, four times a file.
    Fstat,
    /// Ask for attributes that must come from the file system: statx with `AT_STATX_FORCE_SYNC`, four times a file.
    Getattr,
    /// Ask for the attributes of a name whose entry and inode the kernel has dropped.
    Stat,
    /// List, and ask for the attributes of each name, after the kernel has dropped them.
    List,
    /// Rename within a directory.
    Rename,
    /// Unlink.
    Unlink,
    /// Make a directory.
    Mkdir,
    /// Remove a directory.
    Rmdir,
    /// Create a file, write 16 KiB, fsync, close.
    Sync,
    /// Write in calls of 1 MiB, and fsync at the end.
    Write,
    /// Read in calls of 1 MiB, after the kernel has dropped the pages.
    Read,
}

/// How much is measured, and where.
pub(crate) struct Load {
    pub(crate) directory: PathBuf,
    pub(crate) files_each: usize,
    pub(crate) threads: usize,
    pub(crate) synced_each: usize,
    pub(crate) mib: usize,
}

impl Phase {
    pub(crate) const ALL: [Self; 12] = [
        Self::Create,
        Self::Getattr,
        Self::Fstat,
        Self::Stat,
        Self::List,
        Self::Rename,
        Self::Unlink,
        Self::Mkdir,
        Self::Rmdir,
        Self::Sync,
        Self::Write,
        Self::Read,
    ];

    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Whether the kernel must have dropped names and attributes, or pages.
    fn is_cold(self) -> bool {
        matches!(self, Self::Stat | Self::List | Self::Read)
    }
}

impl Load {
    fn own(&self, thread: usize) -> PathBuf {
        self.directory.join(format!("thread-{thread}"))
    }

    /// Makes the threads' directories.
    pub(crate) fn begin(&self) -> io::Result<()> {
        self.end()?;
        (0..self.threads).try_for_each(|thread| fs::create_dir(self.own(thread)))
    }

    /// Removes the threads' directories and all in them.
    pub(crate) fn end(&self) -> io::Result<()> {
        for thread in 0..self.threads {
            match fs::remove_dir_all(self.own(thread)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// What must be done before a phase and is not part of it.
    pub(crate) fn prepare(&self, phase: Phase) -> io::Result<()> {
        if phase.is_cold() {
            rustix::fs::sync();
            // The second time for what the first time pinned: a FUSE file system gives back inodes that it kept of the
            // file system below.
            for _ in 0..2 {
                fs::write("/proc/sys/vm/drop_caches", if phase == Phase::Read { "1" } else { "2" })?;
            }
        }
        Ok(())
    }

    /// Runs a phase on all threads and returns the number of operations.
    pub(crate) fn run(&self, phase: Phase) -> io::Result<u64> {
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.threads).map(|thread| scope.spawn(move || self.run_one(phase, &self.own(thread)))).collect();
            let mut operations = 0;
            for thread in threads {
                operations += thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
            }
            Ok(operations)
        })
    }

    fn run_one(&self, phase: Phase, own: &Path) -> io::Result<u64> {
        let files = || (0..self.files_each).map(|number| own.join(format!("file-{number}")));
        let moved = || (0..self.files_each).map(|number| own.join(format!("moved-{number}")));
        let directories = || (0..self.files_each).map(|number| own.join(format!("directory-{number}")));
        let mut operations = self.files_each as u64;
        match phase {
            Phase::Create => files().try_for_each(|path| File::create_new(path).map(drop))?,
            Phase::Fstat => {
                let file = File::open(own.join("file-0"))?;
                operations *= GETATTRS as u64;
                (0..operations).try_for_each(|_| rustix::fs::fstat(&file).map(drop))?;
            }
            Phase::Getattr => {
                operations *= GETATTRS as u64;
                for path in files() {
                    (0..GETATTRS).try_for_each(|_| getattr(&path))?;
                }
            }
            Phase::Stat => files().try_for_each(|path| fs::symlink_metadata(path).map(drop))?,
            Phase::List => {
                operations = 0;
                for entry in fs::read_dir(own)? {
                    entry?.metadata()?;
                    operations += 1;
                }
            }
            Phase::Rename => files().zip(moved()).try_for_each(|(from, to)| fs::rename(from, to))?,
            // Whichever names `rename` has left.
            Phase::Unlink if own.join("moved-0").exists() => moved().try_for_each(fs::remove_file)?,
            Phase::Unlink => files().try_for_each(fs::remove_file)?,
            Phase::Mkdir => directories().try_for_each(fs::create_dir)?,
            Phase::Rmdir => directories().try_for_each(fs::remove_dir)?,
            Phase::Sync => {
                let data = vec![0x5a; SMALL_BYTES];
                operations = self.synced_each as u64;
                for number in 0..self.synced_each {
                    let mut file = File::create_new(own.join(format!("synced-{number}")))?;
                    file.write_all(&data)?;
                    file.sync_all()?;
                }
            }
            Phase::Write => operations = self.write(&own.join("large"))?,
            Phase::Read => operations = self.read(&own.join("large"))?,
        }
        Ok(operations)
    }

    fn write(&self, path: &Path) -> io::Result<u64> {
        let data = vec![0x5a; 1 << 20];
        let mut file = File::create_new(path)?;
        let calls = self.mib / self.threads;
        (0..calls).try_for_each(|_| file.write_all(&data))?;
        file.sync_all()?;
        Ok(calls as u64)
    }

    fn read(&self, path: &Path) -> io::Result<u64> {
        let mut buffer = vec![0; 1 << 20];
        let mut file = File::open(path)?;
        let calls = self.mib / self.threads;
        (0..calls).try_for_each(|_| file.read_exact(&mut buffer))?;
        Ok(calls as u64)
    }
}

/// Asks the file system, not what the kernel keeps.
fn getattr(path: &Path) -> io::Result<()> {
    statx(CWD.as_fd(), path, AtFlags::STATX_FORCE_SYNC | AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)?;
    Ok(())
}
