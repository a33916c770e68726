//! [`Reader`]: many lookups of one thread in flight at once, on a ring of its own.
//!
//! Invariant: the number of each read in `queue` is that of a lookup in `waiting`. No locks.

use super::keyspace::Keyspace;
use super::live_lookup::LiveLookup;
use crate::directory::Step;
use crate::error::{Error, Result};
use crate::format::Slice;
use crate::runtime::ReadQueue;
use crate::storage::IoBuffer;
use crate::table::{PackRead, Planned};
use std::collections::VecDeque;
use std::fmt;

/// The greatest depth of a reader.
const DEPTH_MAX: usize = 4096;

/// Looks up many entries of a directory keyspace at once, for one thread: lookups are [pushed](Reader::push) and
/// [completed](Reader::complete), in any order, while their reads are at the device together. A reader has a ring of
/// its own (io_uring): it starts no thread and wakes none. Where the kernel gives no ring it works all the same, with
/// one read after the other.
///
/// Each lookup sees its entry as it was at one moment between its push and its completion. A reader may be dropped with
/// lookups in flight; the drop waits for the reads at the device. A reader that is not dropped keeps the database open.
///
/// ```
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-reader-{}", std::process::id()));
/// # let db = thalweg::Database::open(&dir)?;
/// let files = db.directory_keyspace("files")?;
/// for name in ["main.rs", "lib.rs", "read.rs"] {
///     files.insert(7, name, "mode 644")?;
/// }
/// let mut reader = files.reader(16)?;
/// let (mut wanted, mut found) = (["main.rs", "lib.rs", "mod.rs"].into_iter().enumerate(), 0);
/// loop {
///     while !reader.is_full()
///         && let Some((number, name)) = wanted.next()
///     {
///         reader.push(number, 7, name)?;
///     }
///     let Some((_number, value)) = reader.complete() else { break };
///     found += usize::from(value?.is_some());
/// }
/// assert_eq!(found, 2);
/// # drop(reader); db.close()?; let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
pub struct Reader<T = u64> {
    keyspace: Keyspace,
    depth: usize,
    /// Lookups that wait for a read, by the number of the read.
    waiting: Vec<Option<Waiting<T>>>,
    /// The numbers that no lookup has.
    free: Vec<usize>,
    finished: VecDeque<(T, Result<Option<Slice>>)>,
    queue: ReadQueue,
}

/// A lookup that waits for its read.
struct Waiting<T> {
    tag: T,
    lookup: LiveLookup,
    read: PackRead,
    planned: Planned,
}

impl<T> Reader<T> {
    pub(super) fn new(keyspace: &Keyspace, depth: usize) -> Result<Self> {
        if !(1..=DEPTH_MAX).contains(&depth) {
            return Err(Error::invalid_input(format!("the depth of a reader is 1 to {DEPTH_MAX}, not {depth}")));
        }
        let engine = keyspace.engine();
        engine.readable()?;
        let queue = engine.tables().read_queue(depth);
        let keyspace = keyspace.clone();
        let (waiting, free, finished) = (Vec::new(), Vec::new(), VecDeque::with_capacity(depth));
        Ok(Reader { keyspace, depth, waiting, free, finished, queue })
    }

    /// How many lookups may be in flight.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// How many lookups are in flight: pushed, and not given by [`Reader::complete`].
    pub fn in_flight(&self) -> usize {
        self.waiting.len() - self.free.len() + self.finished.len()
    }

    /// Whether [`Reader::push`] would refuse a lookup.
    pub fn is_full(&self) -> bool {
        self.in_flight() >= self.depth
    }

    /// Begins to look up the entry `name` of a directory. Does not wait for the device: a lookup that memory or the
    /// block cache can answer is finished at once, and the read of any other lookup is queued. [`Reader::complete`]
    /// gives `tag` with the result, or with the error of the lookup.
    ///
    /// # Errors
    /// [`ReaderFull`] with the tag, while `depth` lookups are in flight: complete one and push again. It is the only
    /// error, so callers that ask [`Reader::is_full`] get none.
    pub fn push(&mut self, tag: T, directory: u64, name: impl AsRef<[u8]>) -> std::result::Result<(), ReaderFull<T>> {
        if self.is_full() {
            return Err(ReaderFull(tag));
        }
        match self.keyspace.entry_key(directory, name.as_ref()) {
            Ok(key) => self.go_on(tag, LiveLookup::new(key), None),
            Err(error) => self.finished.push_back((tag, Err(error))),
        }
        Ok(())
    }

    /// The tag and the result of a lookup that has finished: the value of the entry, or `None` if it is not there.
    /// Waits only while no lookup has finished. `None`: no lookup is in flight.
    ///
    /// The errors in a result are those of [`DirectoryKeyspace::get`](crate::DirectoryKeyspace::get).
    pub fn complete(&mut self) -> Option<(T, Result<Option<Slice>>)> {
        loop {
            while let Some((number, read)) = self.queue.ended() {
                self.read_ended(number, read);
            }
            if let Some(finished) = self.finished.pop_front() {
                return Some(finished);
            }
            let (number, read) = self.queue.wait()?;
            self.read_ended(number, read);
        }
    }

    fn read_ended(&mut self, number: usize, read: Result<IoBuffer>) {
        let ended = self.waiting.get_mut(number).and_then(Option::take);
        let Some(Waiting { tag, lookup, read: wanted, planned }) = ended else {
            unreachable!("a read that no lookup waits for");
        };
        self.free.push(number);
        match wanted.finish(planned, read) {
            Ok(bytes) => self.go_on(tag, lookup, Some(bytes)),
            Err(error) => self.finished.push_back((tag, Err(error))),
        }
        drop(wanted);
        self.keyspace.engine().readers_left();
    }

    /// Takes the next step of a lookup.
    fn go_on(&mut self, tag: T, mut lookup: LiveLookup, read: Option<Slice>) {
        let step = lookup.step(&self.keyspace, read);
        let planned = step.and_then(|step| match step {
            Step::Done(found) => Ok(Err(found)),
            Step::Needs(read) => read.plan(self.queue.has_ring()).map(|planned| Ok((read, planned))),
        });
        match planned {
            Ok(Ok((read, (to_make, planned)))) => {
                let number = self.free.pop().unwrap_or(self.waiting.len());
                if number == self.waiting.len() {
                    self.waiting.push(None);
                }
                self.waiting[number] = Some(Waiting { tag, lookup, read, planned });
                self.queue.push(number, to_make);
            }
            Ok(Err(found)) => self.finished.push_back((tag, Ok(found))),
            Err(error) => self.finished.push_back((tag, Err(error))),
        }
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        self.waiting.clear();
        self.keyspace.engine().readers_left();
    }
}

/// The error of [`Reader::push`] on a reader that is full, with the tag that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderFull<T>(pub T);

impl<T> fmt::Display for ReaderFull<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader has as many lookups in flight as it may have")
    }
}

impl<T: fmt::Debug> std::error::Error for ReaderFull<T> {}

/// For callers that never push to a full reader.
impl<T> From<ReaderFull<T>> for Error {
    fn from(full: ReaderFull<T>) -> Error {
        Error::invalid_input(full.to_string())
    }
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("depth", &self.depth)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}
