//! [`FHashes`]: the f-hashes of all directories of a keyspace, the f-cache (PHAT-4), and the scratch file.
//!
//! Locks: `turn` for a change of one directory, reads and writes included, so that changes exclude each other; lookups
//! do not take it. Then the lock of a shard, never over I/O, and never two at once.

use super::descriptor::Descriptor;
use super::page::{Entry, PAGE_BYTES};
use super::scratch::Scratch;
use super::shard::{Changed, Looked, Missing, Shard};
use super::statistics::FHashStatistics;
use crate::error::Result;
use crate::format::NameHash;
use crate::metrics::Counter;
use crate::storage::Storage;
use crate::sync::{Mutex, MutexGuard};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of shards.
const SHARDS: usize = 16;

/// The directories of a shard whose numbers are adjacent. Their f-hashes may share a page.
const ADJACENT: u64 = 256;

/// The options of the f-hashes of a database.
pub(crate) struct FHashOptions {
    storage: Arc<dyn Storage>,
    root: PathBuf,
    /// The bytes of the f-cache of each keyspace.
    f_cache_bytes: usize,
    /// The number of the next scratch file.
    next: AtomicU64,
}

impl FHashOptions {
    /// The options of a database in `root`.
    pub(crate) fn new(storage: &Arc<dyn Storage>, root: PathBuf, f_cache_bytes: usize) -> Arc<Self> {
        Arc::new(FHashOptions { storage: Arc::clone(storage), root, f_cache_bytes, next: AtomicU64::new(0) })
    }
}

impl fmt::Debug for FHashOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FHashOptions").field("f_cache_bytes", &self.f_cache_bytes).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Counters {
    /// Lookups, and those whose page was in the f-cache.
    lookups: Counter,
    hits: Counter,
    /// Pages of the scratch file that were read and written.
    reads: Counter,
    writes: Counter,
    /// Pages that came along with others.
    prefetched: Counter,
}

/// The f-hashes of a keyspace; see the module.
pub(in crate::directory) struct FHashes {
    shards: [Mutex<Shard>; SHARDS],
    turn: Mutex<()>,
    scratch: Scratch,
    f_cache_bytes: usize,
    /// The bytes of the pages in the f-cache.
    cached_bytes: AtomicUsize,
    /// The shard that the next page is evicted from.
    next_shard: AtomicUsize,
    counters: Counters,
}

/// A locked shard. Its drop adds the bytes that the shard has gained or lost to those of the f-cache.
struct Locked<'a> {
    shard: MutexGuard<'a, Shard>,
    before: usize,
    cached_bytes: &'a AtomicUsize,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Wraps where the shard has become smaller.
        let more = self.shard.cached_bytes().wrapping_sub(self.before);
        self.cached_bytes.fetch_add(more, Ordering::Relaxed);
    }
}

impl FHashes {
    /// No f-hashes yet.
    pub(in crate::directory) fn new(options: &FHashOptions) -> Self {
        let number = options.next.fetch_add(1, Ordering::Relaxed);
        FHashes {
            shards: std::array::from_fn(|_| Mutex::default()),
            turn: Mutex::default(),
            scratch: Scratch::new(Arc::clone(&options.storage), &options.root, number),
            f_cache_bytes: options.f_cache_bytes,
            cached_bytes: AtomicUsize::new(0),
            next_shard: AtomicUsize::new(0),
            counters: Counters::default(),
        }
    }

    fn shard(&self, directory: u64) -> Locked<'_> {
        self.lock((directory / ADJACENT) as usize % SHARDS)
    }

    fn lock(&self, number: usize) -> Locked<'_> {
        let shard = self.shards[number].lock();
        Locked { before: shard.cached_bytes(), shard, cached_bytes: &self.cached_bytes }
    }

    /// Calls `take` with the descriptors of a hash while they cannot change. `None`: the directory has no f-hash that
    /// can be used, or its f-hash cannot be read and is lost.
    pub(in crate::directory) fn find<T>(
        &self,
        directory: u64,
        hash: NameHash,
        take: impl FnOnce(Vec<Descriptor>) -> T,
    ) -> Option<T> {
        self.counters.lookups.increment();
        let mut locked = self.shard(directory);
        let mut has_read = false;
        let found = loop {
            match locked.shard.look(directory, hash) {
                Looked::Found(descriptors) => break Some(take(descriptors)),
                Looked::Lost => break None,
                Looked::Missing(missing) => {
                    drop(locked);
                    has_read = true;
                    locked = match self.read(missing) {
                        Ok(locked) => locked,
                        Err(_) => {
                            self.lose(directory);
                            return None;
                        }
                    };
                }
            }
        };
        drop(locked);
        if has_read {
            self.shrink();
        } else {
            self.counters.hits.increment();
        }
        found
    }

    /// Reads a page into the f-cache. Returns the locked shard, so that the page is still there.
    fn read(&self, missing: Missing) -> Result<Locked<'_>> {
        self.counters.reads.increment();
        let page = self.scratch.read(missing.scratch)?;
        let mut locked = self.shard(missing.directory);
        let taken = locked.shard.take_in(missing, page.filled());
        self.counters.prefetched.add(taken.saturating_sub(1) as u64);
        Ok(locked)
    }

    /// Removes the descriptors of the packs `gone` from the f-hash of a directory, and adds entries. A lookup meanwhile
    /// finds the entries of a hash either as they were before or as they are afterwards.
    ///
    /// If the f-hash cannot be read or written, it is lost: lookups of the directory do without it.
    pub(in crate::directory) fn change(&self, directory: u64, gone: &[u32], added: &[Entry]) {
        let turn = self.turn.lock();
        let mut locked = self.shard(directory);
        locked.shard.pin(directory, true);
        let mut done = 0;
        loop {
            let changed = match gone {
                [] => locked.shard.add(directory, added, &mut done, &self.scratch),
                gone => locked.shard.replace(directory, gone, added, &self.scratch),
            };
            let Changed::Missing(missing) = changed else { break };
            drop(locked);
            locked = match self.read(missing) {
                Ok(locked) => locked,
                Err(_) => {
                    let mut locked = self.shard(directory);
                    locked.shard.lose(directory, &self.scratch);
                    locked
                }
            };
        }
        locked.shard.pin(directory, false);
        drop((locked, turn));
        self.shrink();
    }

    /// Gives up the f-hash of a directory.
    pub(in crate::directory) fn lose(&self, directory: u64) {
        let _turn = self.turn.lock();
        self.shard(directory).shard.lose(directory, &self.scratch);
    }

    /// Removes everything.
    pub(in crate::directory) fn clear(&self) {
        let _turn = self.turn.lock();
        (0..SHARDS).for_each(|number| self.lock(number).shard.clear(&self.scratch));
    }

    /// Evicts pages until the f-cache has no more bytes than it may have: from each shard in turn, its least recently
    /// used page.
    fn shrink(&self) {
        let mut idle = 0;
        while self.cached_bytes.load(Ordering::Relaxed) > self.f_cache_bytes && idle < SHARDS {
            let number = self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARDS;
            idle = if self.evict(number) { 0 } else { idle + 1 };
        }
    }

    /// Evicts a page of a shard, and those that are written with it. Returns whether there was one.
    fn evict(&self, number: usize) -> bool {
        let mut buffer = None;
        let (eviction, has_found) = self.lock(number).shard.evict(&self.scratch, &mut |bytes| {
            let appended = buffer.get_or_insert_with(|| self.scratch.buffer()).append(bytes);
            debug_assert_eq!(appended, bytes.len(), "the pages of an eviction fit in {PAGE_BYTES} bytes");
        });
        let (Some(eviction), Some(buffer)) = (eviction, buffer) else { return has_found };
        self.counters.writes.increment();
        let is_written = self.scratch.write(eviction.scratch, buffer).is_ok();
        self.lock(number).shard.end(eviction, is_written, &self.scratch);
        true
    }

    /// The counters of the f-hashes, and their size.
    pub(in crate::directory) fn statistics(&self) -> FHashStatistics {
        let mut size = FHashStatistics::default();
        for number in 0..SHARDS {
            let (f_hashes, lost, bytes) = self.lock(number).shard.size();
            size.f_hashes += f_hashes as u64;
            size.lost += lost as u64;
            size.memory_bytes += bytes as u64;
        }
        let cached_bytes = self.cached_bytes.load(Ordering::Relaxed) as u64;
        FHashStatistics {
            memory_bytes: size.memory_bytes + cached_bytes,
            cached_bytes,
            scratch_bytes: self.scratch.bytes(),
            lookups: self.counters.lookups.get(),
            hits: self.counters.hits.get(),
            reads: self.counters.reads.get(),
            prefetched: self.counters.prefetched.get(),
            writes: self.counters.writes.get(),
            ..size
        }
    }
}
