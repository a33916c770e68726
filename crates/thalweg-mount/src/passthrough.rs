//! [`Passthrough`]: which files the kernel reads and writes without the daemon, and by which registered files.
//!
//! The kernel wants one way for all handles of an inode at a time: either all go through the daemon, with its own page
//! cache, or all go to one *backing file* that the daemon has registered. An open of the other kind fails there with
//! EIO. So the first open of an inode decides, and holds until the last close. A close reaches the daemon after the
//! kernel has ended the handle: what is listed here is never less than what the kernel has.
//!
//! Locks: the table's, under which no lock of a volume is taken.

use crate::daemon_log::say;
use fuser::{BackingId, ReplyOpen, Session};
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The files of a mount that are open, and how.
pub(crate) struct Passthrough {
    /// The reason why there is no passthrough; empty if there is.
    refusal: OnceLock<String>,
    opens: Mutex<HashMap<u64, Opens>>,
    /// Whether the log tells of a file that the kernel did not register.
    has_failed: AtomicBool,
}

/// The handles of an inode.
enum Opens {
    /// All handles go through the daemon; their number.
    Daemon(u32),
    /// All handles go to one backing file; their number, and the file.
    Passed(u32, Arc<BackingId>),
}

/// How a handle was opened.
pub(crate) enum Way {
    /// Its requests come to the daemon.
    Daemon,
    /// Reads and writes go to the backing file.
    Passed(Arc<BackingId>),
}

impl Passthrough {
    pub(crate) fn new() -> Self {
        Passthrough { refusal: OnceLock::new(), opens: Mutex::default(), has_failed: AtomicBool::new(false) }
    }

    /// Records the reason why there is no passthrough, or an empty one, unless that is known.
    pub(crate) fn refuse(&self, reason: impl Into<String>) {
        let _ = self.refusal.set(reason.into());
    }

    /// Registers a file without a name in the folder of the objects, to see whether the kernel accepts it. The kernel
    /// then keeps an empty file without a name until the unmount, because only the answer to an open could release it.
    pub(crate) fn probe<F: fuser::Filesystem>(&self, session: &Session<F>, objects: &Path) {
        if self.refusal.get().is_some() {
            return;
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let probed = rustix::fs::open(objects, flags, Mode::RUSR | Mode::WUSR)
            .map_err(io::Error::from)
            .and_then(|file| BackingId::create_raw(session, &file));
        let refusal = match probed {
            Ok(_) => String::new(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "the kernel wants CAP_SYS_ADMIN for it".to_owned()
            }
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                "the volume is on a stacked file system".to_owned()
            }
            Err(error) => format!("the kernel refuses: {error}"),
        };
        if !refusal.is_empty() {
            say(&format!("reads and writes of large files go through this process: {refusal}"));
        }
        self.refuse(refusal);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.refusal.get().is_some_and(String::is_empty)
    }

    fn opens(&self) -> MutexGuard<'_, HashMap<u64, Opens>> {
        self.opens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many inodes are open to a backing file.
    pub(crate) fn files(&self) -> usize {
        self.opens().values().filter(|opens| matches!(opens, Opens::Passed(..))).count()
    }

    /// Adds a handle of an inode, whose bytes are in `file` if they can be passed. `reply` is that of the open.
    pub(crate) fn enter(&self, ino: u64, file: Option<&File>, reply: Option<&ReplyOpen>) -> Way {
        if !self.is_on() {
            return Way::Daemon;
        }
        let mut opens = self.opens();
        let entry = match opens.entry(ino) {
            Entry::Vacant(entry) => entry,
            Entry::Occupied(mut entry) => {
                return match entry.get_mut() {
                    Opens::Daemon(handles) => {
                        *handles += 1;
                        Way::Daemon
                    }
                    Opens::Passed(handles, backing) => {
                        *handles += 1;
                        Way::Passed(Arc::clone(backing))
                    }
                };
            }
        };
        match file.zip(reply).map(|(file, reply)| reply.open_backing(file)) {
            Some(Ok(backing)) => {
                let backing = Arc::new(backing);
                entry.insert(Opens::Passed(1, Arc::clone(&backing)));
                Way::Passed(backing)
            }
            failed => {
                entry.insert(Opens::Daemon(1));
                if let Some(Err(error)) = failed
                    && !self.has_failed.swap(true, Ordering::Relaxed)
                {
                    say(&format!("the kernel did not register inode {ino}, which this process serves: {error}"));
                }
                Way::Daemon
            }
        }
    }

    /// Removes a handle. With the last one the kernel gives the backing file back.
    pub(crate) fn leave(&self, ino: u64) {
        if !self.is_on() {
            return;
        }
        let mut opens = self.opens();
        let Entry::Occupied(mut entry) = opens.entry(ino) else { return };
        let (Opens::Daemon(handles) | Opens::Passed(handles, _)) = entry.get_mut();
        *handles = handles.saturating_sub(1);
        let ended = (*handles == 0).then(|| entry.remove());
        drop(opens);
        // The drop calls the kernel, and so comes after the lock is released.
        drop(ended);
    }
}

impl fmt::Display for Passthrough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refusal.get().map(String::as_str) {
            Some("") => write!(f, "on, {} files", self.files()),
            Some(refusal) => write!(f, "off: {refusal}"),
            None => write!(f, "off"),
        }
    }
}
