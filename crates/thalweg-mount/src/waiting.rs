//! Operations that may wait for the device. No thread that reads the kernel's requests waits: a call that needs an
//! object's bytes goes to a pool, and the log answers a sync of rows when its promise is kept. Syncs have a pool of
//! their own, because they take as long as the device has bytes to write. So nothing else waits for a thread meanwhile.

use crate::daemon::{Daemon, Shared, caller};
use crate::opening::Opening;
use crate::operations::Begun;
use crate::turns::may_try_again;
use fuser::{INodeNo, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use thalweg_fs::{Allocation, Caller, Change, NewInode, RenameFlags, Result, Volume};

/// A directory and a name in it.
type Spot<'a> = (INodeNo, &'a OsStr);

impl Daemon {
    /// Opens, on the pool of the syncs if the open syncs an object.
    pub(crate) fn open_at(&self, opening: Opening, reply: ReplyOpen) {
        if !opening.is_synced() || !self.volume.has_object(opening.ino.0) {
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
        let would_promote = self.volume.would_promote(ino.0, offset.saturating_add(bytes.len() as u64));
        if let Some(_turn) = self.turns.take().filter(|_| !would_promote) {
            match self.volume.write(&caller, ino.0, offset, bytes) {
                Err(error) if self.turns.may_try_again(&self.volume, &error) => {}
                done => return answer(done),
            }
        }
        let (volume, bytes) = (Arc::clone(&self.volume), bytes.to_vec());
        let pool = if would_promote { &self.pool } else { &self.room };
        pool.run(move || answer(with_room(&volume, || volume.write(&caller, ino.0, offset, &bytes))));
    }

    /// Changes attributes, on the pool if the size of an object is among them.
    pub(crate) fn change(&self, begun: Begun, caller: Caller<'static>, ino: INodeNo, change: Change, reply: ReplyAttr) {
        if change.size.is_none() || !self.volume.has_object(ino.0) {
            return self.attr(&begun, ino, self.volume.change(&caller, ino.0, &change), reply);
        }
        let shared = Arc::clone(&self.shared);
        self.pool.run(move || shared.attr(&begun, ino, shared.volume.change(&caller, ino.0, &change), reply));
    }

    /// Creates anything but a file that is opened with it.
    pub(crate) fn new_inode(
        &self,
        begun: Begun,
        request: &Request,
        (parent, name): Spot<'_>,
        new: NewInode<'_>,
        reply: ReplyEntry,
    ) {
        let (caller, name, target) = (caller(request), name.as_bytes().to_vec(), new.target.to_vec());
        let NewInode { kind, mode, rdev, .. } = new;
        let create = move |volume: &Volume| {
            volume.create(&caller, parent.0, &name, NewInode { kind, mode, rdev, target: &target })
        };
        self.name(create, move |shared, made| shared.entry(&begun, parent, made, reply));
    }

    /// As [`Daemon::make`], for a call that makes a name.
    pub(crate) fn name<T: Send + 'static>(
        &self,
        call: impl Fn(&Volume) -> Result<T> + Send + 'static,
        answer: impl FnOnce(&Shared, Result<T>) + Send + 'static,
    ) {
        let shared = Arc::clone(&self.shared);
        let answered = Arc::clone(&self.shared);
        self.make(call, move |made| shared.when_named(made, move |made| answer(&answered, made)));
    }

    /// Makes a call that needs room and answers it: on the pool for such calls, if that keeps a thread free for others
    /// on a full disk, or if files are gone whose objects are still there.
    pub(crate) fn make<T: 'static>(
        &self,
        call: impl Fn(&Volume) -> Result<T> + Send + 'static,
        answer: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        if let Some(_turn) = self.turns.take() {
            match call(&self.volume) {
                Err(error) if self.turns.may_try_again(&self.volume, &error) => {}
                done => return answer(done),
            }
        }
        let volume = Arc::clone(&self.volume);
        self.room.run(move || answer(with_room(&volume, || call(&volume))));
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
            let (from, to) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
            return self.make(move |volume| volume.rename(&caller, (from.0, &from.1), (to.0, &to.1), flags), answer);
        }
        let (from, to) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
        let volume = Arc::clone(&self.volume);
        let rename = move || volume.rename(&caller, (from.0, &from.1), (to.0, &to.1), flags);
        let volume = Arc::clone(&self.volume);
        self.syncs.run(move || answer(with_room(&volume, rename)));
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
fn with_room<T>(volume: &Volume, call: impl Fn() -> Result<T>) -> Result<T> {
    match call() {
        Err(error) if may_try_again(volume, &error) => {
            // The background reports a failure, and tries again. The caller gets the error that it lacks room.
            volume.make_room().or(Err(error)).and_then(|()| call())
        }
        done => done,
    }
}
