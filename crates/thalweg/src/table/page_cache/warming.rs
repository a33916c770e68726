//! [`Warming`]: brings the tables that somebody reads into the page cache, as long as all of them fit there.
//!
//! A table that was written past the page cache, or by an earlier life, is read from the device until its blocks are in
//! memory. The first read that misses asks here, once a table, and goes on; a coroutine then reads the whole table from
//! front to back through the page cache, one piece after the other, so that what foreground reads want at the device
//! waits for two pieces at most. What it meets of errors it leaves to those who read.
//! From then on they may read a mapping ([`super::mapping`]); a table that is gone is unmapped here.
//!
//! And out of it: a table that was replaced and that nobody has any more stays on disk until its edit is settled and
//! longer, and its pages would push out what is read. They are dropped here, in pieces, after the mapping (the kernel
//! keeps what is mapped). Its write-back was begun as it was written, so that hardly anything is written for this.
//!
//! Locks: each is held for a push or a pop.

use super::write_through::{Left, Residence};
use crate::runtime::{BackgroundFile, Environment, Event, yield_now};
use crate::storage::{File, OpenMode, ReadMapping};
use crate::table::store::{CHUNK_BYTES, TableIo};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A quarter of a millisecond at most; each call may make all processors empty their lists of new pages.
const FORGOTTEN_BYTES: u64 = 4 << 20;

/// See the module.
#[derive(Default)]
pub(in crate::table) struct Warming {
    asked: Mutex<VecDeque<Asked>>,
    /// To be dropped from the page cache.
    left: Mutex<VecDeque<Left>>,
    /// To be unmapped.
    mappings: Mutex<Vec<Arc<dyn ReadMapping>>>,
    changed: Event,
    stopping: AtomicBool,
}

/// A table's file, while anybody has it open, and its length.
struct Asked {
    file: Weak<dyn File>,
    bytes: u64,
    is_resident: Arc<AtomicBool>,
}

/// What the coroutine has to do next.
enum Next {
    Stop,
    Unmap(Vec<Arc<dyn ReadMapping>>),
    Forget(Left),
    Warm(Asked),
}

impl Warming {
    /// Somebody reads this file, of `bytes` bytes, and it is not known to be in memory; `is_resident` is set once it
    /// has been.
    pub(in crate::table) fn ask(&self, file: &Arc<dyn File>, bytes: u64, is_resident: &Arc<AtomicBool>) {
        let asked = Asked { file: Arc::downgrade(file), bytes, is_resident: Arc::clone(is_resident) };
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push_back(asked);
        self.changed.notify_all();
    }

    /// Unmaps a table that is gone, without having the caller wait for it.
    pub(in crate::table) fn unmap(&self, mapping: Arc<dyn ReadMapping>) {
        if self.is_stopping() {
            return;
        }
        self.mappings.lock().unwrap_or_else(PoisonError::into_inner).push(mapping);
        self.changed.notify_all();
    }

    /// Drops what the page cache has of a replaced table, unless the database is closed before.
    pub(in crate::table) fn forget(&self, left: Left) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push_back(left);
        self.changed.notify_all();
    }

    /// Ends the coroutine.
    pub(in crate::table) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// The coroutine, until it is stopped.
    pub(in crate::table) async fn run(&self, environment: &Environment, residence: &Residence, io: &TableIo) {
        loop {
            let next = environment.until(&self.changed, || self.next());
            let asked = match next.await {
                Next::Stop => return,
                Next::Unmap(mappings) => {
                    drop(mappings);
                    continue;
                }
                Next::Forget(left) => {
                    self.drop_pages(environment, &left).await;
                    continue;
                }
                Next::Warm(asked) => asked,
            };
            // Whether there is room takes a look at several files: not for a table that is gone, nor for many at once.
            yield_now().await;
            if asked.file.strong_count() > 0 && residence.is_warmed(&*environment.storage) {
                self.read(&asked, io).await;
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn next(&self) -> Option<Next> {
        if self.is_stopping() {
            return Some(Next::Stop);
        }
        let mappings = std::mem::take(&mut *self.mappings.lock().unwrap_or_else(PoisonError::into_inner));
        if !mappings.is_empty() {
            return Some(Next::Unmap(mappings));
        }
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let asked = || self.asked.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        left.map(Next::Forget).or_else(|| asked().map(Next::Warm))
    }

    async fn drop_pages(&self, environment: &Environment, left: &Left) {
        yield_now().await;
        // A name that is gone by now took the pages with it.
        let Ok(Some(file)) = environment.storage.open(&left.path, OpenMode::Read) else { return };
        for start in (0..left.bytes).step_by(FORGOTTEN_BYTES as usize) {
            if self.is_stopping() {
                return;
            }
            file.forget_cached(start, FORGOTTEN_BYTES.min(left.bytes - start));
            yield_now().await;
        }
    }

    async fn read(&self, asked: &Asked, io: &TableIo) {
        for start in (0..asked.bytes).step_by(CHUNK_BYTES) {
            // Replaced meanwhile, its bytes are worth nothing any more.
            let Some(file) = asked.file.upgrade().filter(|_| !self.is_stopping()) else { return };
            let end = start + CHUNK_BYTES as u64;
            file.will_need(end, CHUNK_BYTES as u64);
            let mut buffer = io.buffers.take();
            buffer.set_len(CHUNK_BYTES);
            if BackgroundFile::new(file).read(&io.gate, start, buffer).await.is_err() {
                return;
            }
        }
        asked.is_resident.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::SeqNo;
    use crate::table::Compression;
    use crate::table::tests::disk::{Bench, options, put};
    use std::future::Future;
    use std::task::{Context, Waker};

    /// The bytes of a table of several chunks, and those that the coroutine reads of it after some gets, where memory
    /// has room for `room` bytes of files.
    fn warmed(room: u64) -> (u64, u64) {
        let bench = Bench::new(options(4096, Compression::None, 10), 0);
        let entries: Vec<_> = (0..4000u32).map(|n| put(&n.to_be_bytes(), 1, &[7; 200])).collect();
        let table = bench.store.open(bench.write(&entries));
        bench.disk.file_room.store(room, Ordering::Relaxed);
        for n in [5u32, 3000, 77] {
            table.get(&n.to_be_bytes(), SeqNo::MAX).unwrap();
        }
        let before = bench.disk.read_bytes.load(Ordering::Relaxed);
        let mut coroutine = Box::pin(bench.store.warming());
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            assert!(coroutine.as_mut().poll(&mut context).is_pending());
        }
        let read = bench.disk.read_bytes.load(Ordering::Relaxed) - before;
        bench.store.stop_warming();
        assert!(coroutine.as_mut().poll(&mut context).is_ready());
        (table.meta().bytes, read)
    }

    #[test]
    fn a_table_that_is_read_is_brought_into_memory_once_and_only_where_it_fits() {
        let (bytes, read) = warmed(1 << 20);
        assert!(bytes > 2 * CHUNK_BYTES as u64);
        assert_eq!(read, bytes);
        assert_eq!(warmed(bytes - 1).1, 0);
    }
}
