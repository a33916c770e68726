//! Opens and closes of files: through the daemon, or to a backing file that the kernel reads and writes itself.

use crate::daemon::Shared;
use crate::operations::Begun;
use crate::passthrough::Way;
use fuser::{BackingId, FileHandle, FopenFlags, INodeNo, ReplyOpen};
use std::sync::Arc;
use thalweg_fs::{Caller, Error, Promise, READ, Result, WRITE};

/// A handle whose requests come to the daemon.
pub(crate) const THROUGH_DAEMON: FileHandle = FileHandle(0);
/// A handle to a backing file, for reading.
const PASSED_READS: FileHandle = FileHandle(1);
/// A handle to a backing file, for writing too.
const PASSED_WRITES: FileHandle = FileHandle(2);
/// The flags of a handle: the file's pages stay in the kernel's cache when it is opened again.
pub(crate) const CACHED: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE;

/// An open of a file that is being answered.
pub(crate) struct Opening {
    pub begun: Begun,
    pub caller: Caller<'static>,
    pub ino: INodeNo,
    pub flags: i32,
}

impl Opening {
    fn is_written(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }

    /// Whether each write is durable when it returns. Then the open of an object waits for the device.
    pub(crate) fn is_synced(&self) -> bool {
        // O_SYNC has the bit of O_DSYNC.
        self.is_written() && self.flags & libc::O_DSYNC != 0
    }
}

impl Shared {
    /// Opens a file and answers.
    pub(crate) fn open_file(self: &Arc<Self>, opening: Opening, reply: ReplyOpen) {
        let (ino, is_written) = (opening.ino, opening.is_written());
        let access = if is_written { READ | WRITE } else { READ };
        let opened = self.volume.open(&opening.caller, ino.0, access).and_then(|_| {
            let shared = if self.passthrough.is_on() { self.volume.share(ino.0, is_written) } else { Ok(None) };
            shared.inspect_err(|_| _ = self.volume.release(ino.0))
        });
        let shared = match opened {
            Ok(shared) => shared,
            Err(error) => return self.open_failed(&opening.begun, ino, error, reply),
        };
        let (file, row) = shared.map(|shared| (shared.file, shared.row)).unzip();
        match self.passthrough.enter(ino.0, file.as_deref(), Some(&reply)) {
            Way::Passed(backing) => {
                let handle = if is_written { PASSED_WRITES } else { PASSED_READS };
                self.answer_passed(opening, handle, (backing, row.flatten()), reply);
            }
            Way::Daemon => {
                if file.is_some() && is_written {
                    let _ = self.volume.end_share(ino.0);
                }
                self.operations.end(&opening.begun, true);
                // The kernel's pages of an object are stale if the object was written without them.
                let may_be_stale = self.passthrough.is_on() && self.volume.has_object(ino.0);
                reply.opened(THROUGH_DAEMON, if may_be_stale { FopenFlags::empty() } else { CACHED });
            }
        }
    }

    fn open_failed(&self, begun: &Begun, ino: INodeNo, error: Error, reply: ReplyOpen) {
        if let Err(error) = self.end::<()>(begun, ino, Err(error)) {
            reply.error(error);
        }
    }

    /// Answers an open to a backing file once the row that leads to the file is durable: a sync of the file promises
    /// that.
    fn answer_passed(
        self: &Arc<Self>,
        opening: Opening,
        handle: FileHandle,
        (backing, row): (Arc<BackingId>, Option<Box<dyn Promise>>),
        reply: ReplyOpen,
    ) {
        let ino = opening.ino;
        let promise = if opening.is_synced() { self.volume.begin_sync(ino.0).map(Some) } else { Ok(row) };
        let shared = Arc::clone(self);
        let answer = move |result: Result<()>| match shared.end(&opening.begun, ino, result) {
            Ok(()) => reply.opened_passthrough(handle, FopenFlags::empty(), &backing),
            Err(error) => {
                let _ = shared.close_file(ino, handle);
                reply.error(error);
            }
        };
        match promise {
            Ok(Some(promise)) => promise.when_durable(Box::new(answer)),
            Ok(None) => answer(Ok(())),
            Err(error) => answer(Err(error)),
        }
    }

    /// Closes a handle of a file.
    pub(crate) fn close_file(&self, ino: INodeNo, handle: FileHandle) -> Result<()> {
        self.passthrough.leave(ino.0);
        // The kernel knows what it wrote by `write`, and not what programs wrote to a mapped file.
        if handle == PASSED_WRITES && self.volume.end_share(ino.0).unwrap_or(true) {
            self.drop_attributes(ino);
        }
        self.volume.release(ino.0)
    }

    /// Has the kernel ask for the attributes of an inode again. They are dropped at once, also from a thread that
    /// answers requests.
    pub(crate) fn drop_attributes(&self, ino: INodeNo) {
        if let Some(notifier) = self.notifier.get() {
            // An inode that the kernel has forgotten is no fault.
            let _ = notifier.inval_inode(ino, -1, 0);
        }
    }
}
