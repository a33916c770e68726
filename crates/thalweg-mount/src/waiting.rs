//! Operations that may wait for the device. No thread that reads the kernel's requests does: what waits for an object's
//! bytes goes to a pool, and a sync of rows is answered by the log when its promise is kept. Syncs have a pool of their
//! own: they take as long as the device has bytes to write, and nothing else waits for a thread meanwhile.

use crate::daemon::Daemon;
use crate::opening::Opening;
use crate::operations::Begun;
use fuser::{INodeNo, ReplyAttr, ReplyData, ReplyEmpty, ReplyOpen, ReplyWrite};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use thalweg_fs::{Allocation, Caller, Change, Error, RenameFlags, Result, Volume};

/// A directory and a name in it.
type Spot<'a> = (INodeNo, &'a OsStr);

impl Daemon {
    /// Opens, on the pool of the syncs if an object is truncated or synced by it.
    pub(crate) fn open_at(&self, opening: Opening, reply: ReplyOpen) {
        if !opening.may_wait() || !self.volume.has_object(opening.ino.0) {
            return self.open_file(opening, reply);
        }
        let shared = Arc::clone(&self.shared);
        self.syncs.run(move || shared.open_file(opening, reply));
    }

    /// Answers a sync when it is done, without waiting for it here.
    pub(crate) fn sync(&self, begun: Begun, ino: INodeNo, reply: ReplyEmpty) {
        let shared = Arc::clone(&self.shared);
        let answer = move |result: Result<()>| shared.empty(&begun, ino, result, reply);
        if !self.volume.has_object(ino.0) {
            return match self.volume.begin_sync(ino.0) {
                Ok(promise) => promise.when_durable(Box::new(answer)),
                Err(error) => answer(Err(error)),
            };
        }
        let volume = Arc::clone(&self.volume);
        self.syncs.run(move || match volume.begin_sync(ino.0) {
            Ok(promise) => promise.when_durable(Box::new(answer)),
            Err(error) => answer(Err(error)),
        });
    }

    /// Reads, on the pool if the bytes of an object are not in memory.
    pub(crate) fn read_at(&self, begun: Begun, ino: INodeNo, (offset, size): (u64, u32), reply: ReplyData) {
        let shared = Arc::clone(&self.shared);
        let answer = move |result: Result<Vec<u8>>| match shared.end(&begun, ino, result) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        };
        match self.volume.read_now(ino.0, offset, size as usize).transpose() {
            Some(read) => answer(read),
            None => {
                let volume = Arc::clone(&self.volume);
                self.pool.run(move || answer(volume.read(ino.0, offset, size as usize)));
            }
        }
    }

    /// Writes, on the pool if the file's bytes move to an object, or if the disk is full and files are gone whose
    /// objects are still there.
    pub(crate) fn write_at(
        &self,
        begun: Begun,
        caller: Caller<'static>,
        ino: INodeNo,
        (offset, bytes): (u64, &[u8]),
        reply: ReplyWrite,
    ) {
        let shared = Arc::clone(&self.shared);
        let length = bytes.len() as u32;
        let answer = move |result: Result<()>| match shared.end(&begun, ino, result) {
            Ok(()) => reply.written(length),
            Err(error) => reply.error(error),
        };
        if !self.volume.would_promote(ino.0, offset.saturating_add(bytes.len() as u64)) {
            match self.volume.write(&caller, ino.0, offset, bytes) {
                Err(error) if may_try_again(&self.volume, &error) => {}
                done => return answer(done),
            }
        }
        let (volume, bytes) = (Arc::clone(&self.volume), bytes.to_vec());
        self.pool.run(move || answer(with_room(&volume, || volume.write(&caller, ino.0, offset, &bytes))));
    }

    /// Changes attributes, on the pool if the size of an object is among them.
    pub(crate) fn change(&self, begun: Begun, caller: Caller<'static>, ino: INodeNo, change: Change, reply: ReplyAttr) {
        if change.size.is_none() || !self.volume.has_object(ino.0) {
            return self.attr(&begun, ino, self.volume.change(&caller, ino.0, &change), reply);
        }
        let shared = Arc::clone(&self.shared);
        self.pool.run(move || shared.attr(&begun, ino, shared.volume.change(&caller, ino.0, &change), reply));
    }

    /// Renames, on the pool of the syncs if an object replaces a file.
    pub(crate) fn rename_from(
        &self,
        begun: Begun,
        caller: Caller<'static>,
        (from, to): (Spot<'_>, Spot<'_>),
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let shared = Arc::clone(&self.shared);
        let ino = from.0;
        let answer = move |result: Result<()>| {
            let named = Arc::clone(&shared);
            shared.when_named(result, move |result| named.empty(&begun, ino, result, reply));
        };
        let (from, to) = ((from.0.0, from.1.as_bytes()), (to.0.0, to.1.as_bytes()));
        if flags != RenameFlags::Replace || !self.volume.rename_waits(from, to) {
            return answer(self.volume.rename(&caller, from, to, flags));
        }
        let (from, to) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
        let volume = Arc::clone(&self.volume);
        self.syncs.run(move || answer(volume.rename(&caller, (from.0, &from.1), (to.0, &to.1), flags)));
    }

    /// Allocates, punches or zeroes, on the pool. See [`Daemon::write_at`] for a full disk.
    pub(crate) fn allocate(
        &self,
        begun: Begun,
        caller: Caller<'static>,
        ino: INodeNo,
        what: (Allocation, bool),
        range: (u64, u64),
        reply: ReplyEmpty,
    ) {
        let shared = Arc::clone(&self.shared);
        self.pool.run(move || {
            let volume = &shared.volume;
            shared.empty(&begun, ino, with_room(volume, || volume.allocate(&caller, ino.0, what, range)), reply);
        });
    }
}

/// Makes a call that needs room. On a full disk it is made again once the objects of files that are gone are removed.
fn with_room(volume: &Volume, call: impl Fn() -> Result<()>) -> Result<()> {
    match call() {
        Err(error) if may_try_again(volume, &error) => {
            // A failure is the background's to report, which tries again: what the caller lacks is room.
            volume.make_room().or(Err(error)).and_then(|()| call())
        }
        done => done,
    }
}

fn may_try_again(volume: &Volume, error: &Error) -> bool {
    error.errno() == libc::ENOSPC && volume.may_make_room()
}
