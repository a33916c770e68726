//! [`Daemon`]: what serves a mounted volume; [`Shared`]: how it answers.

use crate::convert::{attributes, errno};
use crate::daemon_log::say;
use crate::operations::{Begun, Operation, Operations};
use crate::options::Wanted;
use crate::passthrough::Passthrough;
use crate::pool::Pool;
use crate::turns::Turns;
use fuser::{Errno, Generation, INodeNo, Notifier, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr, Request};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use thalweg_fs::{Attributes, Caller, Error, Mode, Result, Volume};

/// The time for which the kernel keeps names and attributes: a year is for ever to a mount.
pub(crate) const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// Inodes are numbered once, so there is one generation of each.
pub(crate) const GENERATION: Generation = Generation(1);

/// The file system, as `fuser` calls it.
pub(crate) struct Daemon {
    pub shared: Arc<Shared>,
    /// For syncs, which take as long as the device does.
    pub syncs: Arc<Pool>,
    /// For everything else that waits for the device, and not for the syncs.
    pub pool: Arc<Pool>,
    /// For what may wait for room on a full disk.
    pub room: Arc<Pool>,
    pub wants: Wanted,
}

/// The parts that all answers share, on whatever thread.
pub(crate) struct Shared {
    pub volume: Arc<Volume>,
    pub operations: Operations,
    pub passthrough: Passthrough,
    /// The way to the kernel, once there is one.
    pub notifier: OnceLock<Notifier>,
    /// Whether changes of names are durable when they are answered.
    pub synced_names: bool,
    pub turns: Turns,
}

impl Deref for Daemon {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Daemon {
    pub(crate) fn new(volume: Arc<Volume>, wants: Wanted, [syncs, pool, room]: [Arc<Pool>; 3]) -> Self {
        let turns = Turns::new(wants.threads);
        let shared = Arc::new(Shared { synced_names: wants.synced_names, turns, ..Shared::new(volume) });
        Daemon { shared, syncs, pool, room, wants }
    }
}

impl Shared {
    pub(crate) fn new(volume: Arc<Volume>) -> Self {
        let (operations, passthrough, notifier) = (Operations::new(), Passthrough::new(), OnceLock::new());
        Shared { volume, operations, passthrough, notifier, synced_names: false, turns: Turns::new(1) }
    }

    pub(crate) fn begin(&self, operation: Operation) -> Begun {
        self.operations.begin(operation)
    }

    /// Counts an operation that ends; gives the number of its error. A fault goes to the log, with its operation.
    pub(crate) fn end<T>(&self, begun: &Begun, ino: INodeNo, result: Result<T>) -> std::result::Result<T, Errno> {
        self.operations.end(begun, result.is_ok());
        result.map_err(|error| {
            note(begun, ino, &error);
            errno(&error)
        })
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

    /// Calls `answer` with what a change of names gave; on a mount with `sync` or `dirsync`, once it is durable.
    pub(crate) fn when_named<T: Send + 'static>(
        &self,
        done: Result<T>,
        answer: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        match done {
            Ok(made) if self.synced_names => match self.volume.promise() {
                Ok(promise) => promise.when_durable(Box::new(move |durable| answer(durable.map(|()| made)))),
                Err(error) => answer(Err(error)),
            },
            done => answer(done),
        }
    }
}

/// Writes a fault to the log.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::sync::mpsc::channel;
    use thalweg_fs::{NewInode, ROOT};

    #[test]
    fn a_name_is_durable_when_it_is_answered_if_names_are_synced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume");
        Volume::format(&path, Default::default()).unwrap();
        let volume = Arc::new(thalweg_fs::OpenOptions::new().open(&path).unwrap());
        let shared = Shared { synced_names: true, ..Shared::new(Arc::clone(&volume)) };
        for number in 0..20 {
            let name = format!("{number}");
            let made = volume.create(&Caller::ROOT, ROOT, name.as_bytes(), NewInode::file(0o644));
            let named = volume.promise().unwrap();
            let (answered, answer) = channel();
            shared.when_named(made, move |made| answered.send((made.is_ok(), named.is_durable())).unwrap());
            assert_eq!(answer.recv(), Ok((true, true)));
        }
        let refused = Err::<(), _>(Error::posix(libc::EEXIST));
        shared.when_named(refused, |refused| assert_eq!(refused.unwrap_err().errno(), libc::EEXIST));
    }
}
