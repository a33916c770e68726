//! [`Daemon`]: what serves a mounted volume, and how it answers.

use crate::convert::{attributes, errno};
use crate::daemon_log::say;
use crate::operations::{Begun, Operation, Operations};
use crate::pool::Pool;
use fuser::{Errno, Generation, INodeNo, Notifier, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr, Request};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use thalweg_fs::{Attributes, Caller, Change, Error, Mode, NewInode, Result, Volume};

/// A year is for ever to a mount.
pub(crate) const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// Inodes are numbered once, so there is one generation of each.
pub(crate) const GENERATION: Generation = Generation(1);

/// The file system, as `fuser` calls it.
pub(crate) struct Daemon {
    pub volume: Arc<Volume>,
    pub pool: Arc<Pool>,
    pub operations: Arc<Operations>,
    /// The way to the kernel, once there is one.
    pub notifier: Arc<OnceLock<Notifier>>,
}

impl Daemon {
    pub(crate) fn new(volume: Arc<Volume>, pool: Arc<Pool>) -> Self {
        Daemon { volume, pool, operations: Arc::new(Operations::new()), notifier: Arc::default() }
    }

    pub(crate) fn begin(&self, operation: Operation) -> Begun {
        self.operations.begin(operation)
    }

    /// Counts an operation that ends; gives the number of its error. A fault goes to the log, with its operation.
    pub(crate) fn end<T>(&self, begun: &Begun, ino: INodeNo, result: Result<T>) -> std::result::Result<T, Errno> {
        ended(&self.operations, begun, ino, result)
    }

    pub(crate) fn empty(&self, begun: &Begun, ino: INodeNo, result: Result<()>, reply: ReplyEmpty) {
        match self.end(begun, ino, result) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    pub(crate) fn entry(&self, begun: &Begun, ino: INodeNo, result: Result<Attributes>, reply: ReplyEntry) {
        match self.end(begun, ino, result) {
            Ok(found) => reply.entry(&FOREVER, &attributes(&found), GENERATION),
            Err(error) => reply.error(error),
        }
    }

    pub(crate) fn attr(&self, begun: &Begun, ino: INodeNo, result: Result<Attributes>, reply: ReplyAttr) {
        match self.end(begun, ino, result) {
            Ok(found) => reply.attr(&FOREVER, &attributes(&found)),
            Err(error) => reply.error(error),
        }
    }

    pub(crate) fn new_inode(
        &self,
        begun: &Begun,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        new: NewInode<'_>,
        reply: ReplyEntry,
    ) {
        let made = self.volume.create(&caller(request), parent.0, name.as_bytes(), new);
        self.entry(begun, parent, made, reply);
    }

    pub(crate) fn truncate_on_open(&self, request: &Request, ino: INodeNo, flags: i32) -> Result<()> {
        if flags & libc::O_TRUNC == 0 {
            return Ok(());
        }
        let before = self.volume.attributes(ino.0)?.mode;
        let change = Change { size: Some(0), ..Change::default() };
        let after = self.volume.change(&caller(request), ino.0, &change)?.mode;
        if before != after
            && let Some(notifier) = self.notifier.get()
        {
            // The kernel expects a new size and new times of a truncating open, and no new mode.
            // Attributes alone are dropped at once, also from a thread that answers requests.
            let _ = notifier.inval_inode(ino, -1, 0);
        }
        Ok(())
    }
}

/// Says a fault in the log.
fn note(begun: &Begun, ino: INodeNo, error: &Error) {
    if error.is_fault() {
        say(&format!("{:?} of inode {}: {error}", begun.operation(), ino.0));
    }
}

pub(crate) fn caller(request: &Request) -> Caller<'static> {
    Caller::checked(request.uid(), request.gid())
}

pub(crate) fn mode(mode: u32) -> Mode {
    (mode & 0o7777) as Mode
}

/// Answers with bytes, or with how many they are, as the kernel asks for either.
pub(crate) fn sized(bytes: &[u8], size: u32, reply: ReplyXattr) {
    match size as usize {
        0 => reply.size(bytes.len() as u32),
        size if size < bytes.len() => reply.error(Errno::ERANGE),
        _ => reply.data(bytes),
    }
}

/// Counts an operation that ends; gives the number of its error.
pub(crate) fn ended<T>(
    operations: &Operations,
    begun: &Begun,
    ino: INodeNo,
    result: Result<T>,
) -> std::result::Result<T, Errno> {
    operations.end(begun, result.is_ok());
    result.map_err(|error| {
        note(begun, ino, &error);
        errno(&error)
    })
}
