//! [`Warming`]: the coroutine that brings tables that are read into the page cache, as long as all tables fit there.
//! It also drops the pages of replaced tables and unmaps tables.
//!
//! **In.** A table that was written past the page cache, or in an earlier life of the process, is read from the device
//! until its blocks are in memory. The first read that misses requests the table here, once, and goes on. The coroutine
//! then reads the whole table from front to back through the page cache, one piece after the other. So a foreground
//! read waits for two pieces at the device at most. Errors are left to the readers of the table. Once all of it was
//! read, foreground reads may use a mapping ([`super::mapping`]).
//!
//! **Out.** A replaced table without readers stays on disk until its edit is settled, or longer, and its pages would
//! evict pages that are read. The coroutine first unmaps the table, because the kernel keeps mapped pages, and then
//! drops the pages in pieces. The table's write-back began as it was written, so dropping its pages writes little. A
//! late table keeps its pages until its file is removed.
//!
//! Locks: each is held for a push or a pop.

use super::write_through::{StalePages, WriteThroughPolicy};
use crate::runtime::{BackgroundFile, Environment, Event, yield_now};
use crate::storage::{File, OpenMode, ReadMapping};
use crate::sync::Mutex;
use crate::table::io::{CHUNK_BYTES, TableIo};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The bytes that one call drops: a quarter of a millisecond at most. Each call may make all processors empty their
/// lists of new pages.
const DROPPED_BYTES: u64 = 4 << 20;

/// See the module.
#[derive(Default)]
pub(in crate::table) struct Warming {
    requests: Mutex<VecDeque<Request>>,
    /// Pages to be dropped from the page cache.
    stale: Mutex<VecDeque<StalePages>>,
    /// Mappings to be unmapped.
    mappings: Mutex<Vec<Arc<dyn ReadMapping>>>,
    changed: Event,
    stopping: AtomicBool,
}

/// A table to bring into the page cache, while it is open.
struct Request {
    file: Weak<dyn File>,
    /// The length of the file.
    bytes: u64,
    is_resident: Arc<AtomicBool>,
}

/// The next task of the coroutine.
enum Next {
    Stop,
    Unmap(Vec<Arc<dyn ReadMapping>>),
    Drop(StalePages),
    Warm(Request),
}

impl Warming {
    /// Requests that `file`, of `bytes` bytes, be brought into the page cache. Sets `is_resident` once it was.
    pub(in crate::table) fn request(&self, file: &Arc<dyn File>, bytes: u64, is_resident: &Arc<AtomicBool>) {
        let request = Request { file: Arc::downgrade(file), bytes, is_resident: Arc::clone(is_resident) };
        self.requests.lock().push_back(request);
        self.changed.notify_all();
    }

    /// Unmaps a table in the background, so that the caller need not wait for it.
    pub(in crate::table) fn unmap(&self, mapping: Arc<dyn ReadMapping>) {
        if self.is_stopping() {
            return;
        }
        self.mappings.lock().push(mapping);
        self.changed.notify_all();
    }

    /// Drops the pages of a replaced table in the background, unless the database is closed first.
    pub(in crate::table) fn drop_stale(&self, stale: StalePages) {
        self.stale.lock().push_back(stale);
        self.changed.notify_all();
    }

    /// Ends the coroutine.
    pub(in crate::table) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// The coroutine. It runs until it is stopped.
    pub(in crate::table) async fn run(&self, environment: &Environment, policy: &WriteThroughPolicy, io: &TableIo) {
        loop {
            let next = environment.until(&self.changed, || self.next());
            let request = match next.await {
                Next::Stop => return,
                Next::Unmap(mappings) => {
                    drop(mappings);
                    continue;
                }
                Next::Drop(stale) => {
                    self.drop_pages(environment, &stale).await;
                    continue;
                }
                Next::Warm(request) => request,
            };
            // The policy reads several files to learn how much room there is. So it is asked only once per table, and
            // only for a table that still exists.
            yield_now().await;
            if request.file.strong_count() > 0 && policy.is_warmed(&*environment.storage) {
                self.read(&request, io).await;
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
        let mappings = std::mem::take(&mut *self.mappings.lock());
        if !mappings.is_empty() {
            return Some(Next::Unmap(mappings));
        }
        let stale = self.stale.lock().pop_front();
        let request = || self.requests.lock().pop_front();
        stale.map(Next::Drop).or_else(|| request().map(Next::Warm))
    }

    async fn drop_pages(&self, environment: &Environment, stale: &StalePages) {
        yield_now().await;
        // A file that was removed took its pages with it.
        let Ok(Some(file)) = environment.storage.open(&stale.path, OpenMode::Read) else { return };
        for start in (0..stale.bytes).step_by(DROPPED_BYTES as usize) {
            if self.is_stopping() {
                return;
            }
            file.forget_cached(start, DROPPED_BYTES.min(stale.bytes - start));
            yield_now().await;
        }
    }

    async fn read(&self, request: &Request, io: &TableIo) {
        for start in (0..request.bytes).step_by(CHUNK_BYTES) {
            // The rest of a table that was replaced meanwhile is not worth reading.
            let Some(file) = request.file.upgrade().filter(|_| !self.is_stopping()) else { return };
            let end = start + CHUNK_BYTES as u64;
            file.will_need(end, CHUNK_BYTES as u64);
            let mut buffer = io.chunk_buffers.take();
            buffer.set_len(CHUNK_BYTES);
            if BackgroundFile::new(file).read(&io.gate, start, buffer).await.is_err() {
                return;
            }
        }
        request.is_resident.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::SeqNo;
    use crate::table::Compression;
    use crate::table::tests::bench::{Bench, options};
    use crate::table::tests::entries::put;
    use std::future::Future;
    use std::task::{Context, Waker};

    /// Returns the bytes of a table of several chunks, and the bytes that the coroutine reads of it after some gets.
    /// Memory has room for `room` bytes of files.
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
