//! [`ReadQueue`]: reads of one thread, many at the device at once, each taken when it has ended.
//!
//! A read is pushed with a number and comes back with it, in any order. The queue has a ring of its own, so nothing
//! wakes another thread. Pushed reads are submitted together: when the caller waits, or when half of the depth has
//! gathered. Without a ring, and for files without a descriptor (in simulation), a read is made by system calls when it
//! is waited for.
//!
//! Invariant: the drop waits for the reads in flight, so that the kernel writes into no freed memory; if the kernel
//! stops reporting completions, the ring leaks that memory. No locks.

use super::gate::Gate;
use super::read_ring::{ForegroundRead, ReadRing, ReadRings, finish};
use crate::error::Result;
use crate::metrics::Metrics;
use crate::storage::IoBuffer;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most reads that a ring has at the device at once. Further reads are made when they are waited for.
const ENTRIES_MAX: u32 = 4096;

/// A queue of one thread's reads.
pub(crate) struct ReadQueue {
    ring: Option<ReadRing>,
    /// The number of pushed reads that are submitted without a wait.
    submit_at: usize,
    /// Reads that are made when they are waited for.
    unmade: VecDeque<(usize, ForegroundRead)>,
    gate: Arc<Gate>,
    metrics: Arc<Metrics>,
}

impl ReadQueue {
    /// A queue for at most `depth` reads in flight. Its ring is made like the rings of `rings`.
    pub(crate) fn new(rings: &ReadRings, depth: usize, gate: &Arc<Gate>) -> Self {
        let entries = u32::try_from(depth).unwrap_or(ENTRIES_MAX).clamp(1, ENTRIES_MAX);
        let (ring, gate, metrics) = (rings.make(entries), Arc::clone(gate), Arc::clone(&rings.metrics));
        ReadQueue { ring, submit_at: (depth / 2).max(2), unmade: VecDeque::new(), gate, metrics }
    }

    /// Whether reads overlap. If not, the kernel refuses a ring.
    pub(crate) fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Adds a read. No other read of the queue has its number.
    pub(crate) fn push(&mut self, number: usize, read: ForegroundRead) {
        let Some(ring) = &mut self.ring else { return self.unmade.push_back((number, read)) };
        match ring.push(number, read, &self.gate) {
            Err(back) => self.unmade.push_back((number, back)),
            Ok(()) => {
                self.metrics.reads().overlapped_reads.increment();
                if ring.pushed() >= self.submit_at && !ring.enter(0) {
                    self.give_up();
                }
            }
        }
    }

    /// Returns a read that has ended: its number and its buffer. The length of the buffer is the number of bytes read,
    /// which is smaller only at the end of a file. Does not wait.
    pub(crate) fn ended(&mut self) -> Option<(usize, Result<IoBuffer>)> {
        let (number, read, done) = self.ring.as_mut()?.next()?;
        Some((number, finish(&self.gate, read, done)))
    }

    /// As [`ReadQueue::ended`], but waits for a read. `None`: the queue is empty.
    pub(crate) fn wait(&mut self) -> Option<(usize, Result<IoBuffer>)> {
        loop {
            if let Some(ended) = self.ended() {
                return Some(ended);
            }
            let Some(ring) = self.ring.as_mut().filter(|ring| ring.count() > 0) else { break };
            if !ring.enter(1) {
                self.give_up();
            }
        }
        let (number, read) = self.unmade.pop_front()?;
        Some((number, finish(&self.gate, read, Ok(0))))
    }

    /// Goes on without the ring.
    fn give_up(&mut self) {
        if let Some(mut ring) = self.ring.take() {
            self.unmade.extend(ring.give_up());
        }
    }
}

impl Drop for ReadQueue {
    fn drop(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        while ring.count() > 0 && ring.enter(1) {
            while ring.next().is_some() {}
        }
    }
}

#[cfg(test)]
#[path = "tests/read_queue.rs"]
mod tests;
