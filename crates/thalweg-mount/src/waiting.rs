//! Operations that may wait for the device. No thread that reads the kernel's requests does: what waits for an object's
//! bytes goes to the pool, and a sync of rows is answered by the log when its promise is kept.

use crate::daemon::{Daemon, ended};
use crate::operations::Begun;
use fuser::{INodeNo, ReplyEmpty, ReplyWrite};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use thalweg_fs::{Allocation, Caller, RenameFlags, Result};

/// A directory and a name in it.
type Spot<'a> = (INodeNo, &'a OsStr);

impl Daemon {
    /// Answers a sync when it is done, without waiting for it here.
    pub(crate) fn sync(&self, begun: Begun, ino: INodeNo, reply: ReplyEmpty) {
        let operations = Arc::clone(&self.operations);
        let answer = move |result: Result<()>| match ended(&operations, &begun, ino, result) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        };
        if !self.volume.has_object(ino.0) {
            return match self.volume.begin_sync(ino.0) {
                Ok(promise) => promise.when_durable(Box::new(answer)),
                Err(error) => answer(Err(error)),
            };
        }
        let volume = Arc::clone(&self.volume);
        self.pool.run(move || match volume.begin_sync(ino.0) {
            Ok(promise) => promise.when_durable(Box::new(answer)),
            Err(error) => answer(Err(error)),
        });
    }

    /// Writes, on the pool if the file's bytes move to an object.
    pub(crate) fn write_at(
        &self,
        begun: Begun,
        caller: Caller<'static>,
        ino: INodeNo,
        (offset, bytes): (u64, &[u8]),
        reply: ReplyWrite,
    ) {
        let operations = Arc::clone(&self.operations);
        let length = bytes.len() as u32;
        let answer = move |result: Result<()>| match ended(&operations, &begun, ino, result) {
            Ok(()) => reply.written(length),
            Err(error) => reply.error(error),
        };
        if !self.volume.would_promote(ino.0, offset.saturating_add(bytes.len() as u64)) {
            return answer(self.volume.write(&caller, ino.0, offset, bytes));
        }
        let (volume, bytes) = (Arc::clone(&self.volume), bytes.to_vec());
        self.pool.run(move || answer(volume.write(&caller, ino.0, offset, &bytes)));
    }

    /// Renames, on the pool if an object replaces a file.
    pub(crate) fn rename_from(
        &self,
        begun: Begun,
        caller: Caller<'static>,
        (from, to): (Spot<'_>, Spot<'_>),
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let operations = Arc::clone(&self.operations);
        let ino = from.0;
        let answer = move |result: Result<()>| match ended(&operations, &begun, ino, result) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        };
        let (from, to) = ((from.0.0, from.1.as_bytes()), (to.0.0, to.1.as_bytes()));
        if flags != RenameFlags::Replace || !self.volume.rename_waits(from, to) {
            return answer(self.volume.rename(&caller, from, to, flags));
        }
        let (from, to) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
        let volume = Arc::clone(&self.volume);
        self.pool.run(move || answer(volume.rename(&caller, (from.0, &from.1), (to.0, &to.1), flags)));
    }

    /// Allocates, punches or zeroes, on the pool.
    pub(crate) fn allocate(
        &self,
        begun: Begun,
        caller: Caller<'static>,
        ino: INodeNo,
        what: (Allocation, bool),
        range: (u64, u64),
        reply: ReplyEmpty,
    ) {
        let (volume, operations) = (Arc::clone(&self.volume), Arc::clone(&self.operations));
        self.pool.run(move || match ended(&operations, &begun, ino, volume.allocate(&caller, ino.0, what, range)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        });
    }
}
