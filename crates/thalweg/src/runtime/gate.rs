//! [`Gate`]: bounds the background writes at the device, so that reads do not queue behind them.
//!
//! PM-Blade (PMB-15): `q` is the number of operations that the device may have at once, a cap that the user sets (e.g.
//! 8). `q_comp` background operations are in flight: reads of compactions (S1) *and* writes (S3; PMB-A6). `q_cli` reads
//! of clients that missed the cache are in flight. Then `max(q - q_comp - q_cli, 0)` more writes may start. Reads are
//! never delayed.
//!
//! By the paper's rule no write ever starts while `q_cli >= q` (PMB-A6). This gate always admits one write. Apart from
//! that one write, the sum never exceeds `q`.
//!
//! Locks: none. The three counts are one atomic number, so an admission sees all of them at one moment.

use super::event::Event;
use crate::clock::Clock;
use crate::metrics::Metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bits of each count: writes in the lowest, then background reads, then client reads.
const COUNT_BITS: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const WRITE: u64 = 1;
const BACKGROUND_READ: u64 = 1 << COUNT_BITS;
const CLIENT_READ: u64 = 1 << (2 * COUNT_BITS);

/// The gate of one database.
pub(crate) struct Gate {
    /// The bound `q`.
    depth: u64,
    in_flight: AtomicU64,
    /// The number of flush coroutines that wait. While there are none, the end of an operation notifies nobody.
    refused: AtomicUsize,
    freed: Event,
    metrics: Arc<Metrics>,
    /// The clock for operations that are plain calls.
    clock: Option<Arc<dyn Clock>>,
}

/// A foreground read in flight, until dropped.
pub(crate) struct ClientRead<'a>(&'a Gate);

/// A write in flight, until dropped.
pub(crate) struct AdmittedWrite(Arc<Gate>);

/// A read in flight, until dropped, with the count that it is in. It goes to the kernel with the read, and is dropped
/// at the completion, because the code that reads ahead takes the result much later.
pub(crate) struct AdmittedRead(Arc<Gate>, u64);

impl Gate {
    /// A gate for `depth` operations at once, at least 1.
    pub(crate) fn new(depth: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        let depth = (depth as u64).clamp(1, COUNT_MASK);
        let (in_flight, refused, freed) = (AtomicU64::new(0), AtomicUsize::new(0), Event::default());
        Arc::new(Gate { depth, in_flight, refused, freed, metrics, clock: None })
    }

    /// As [`Gate::new`], but also times background operations that are plain calls.
    pub(crate) fn timed(depth: usize, metrics: Arc<Metrics>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let mut gate = Gate::new(depth, metrics);
        Arc::get_mut(&mut gate).into_iter().for_each(|gate| gate.clock = Some(Arc::clone(&clock)));
        gate
    }

    /// Counts a background read that took `ns`.
    pub(super) fn count_read(&self, ns: u64) {
        self.metrics.background_reads.record(ns, 1);
    }

    /// Counts a background write that took `ns`.
    pub(super) fn count_write(&self, ns: u64) {
        self.metrics.background_writes.record(ns, 1);
    }

    /// Makes a plain call, and gives `count` its time.
    pub(super) fn time<T>(&self, count: impl FnOnce(&Self, u64), call: impl FnOnce() -> T) -> T {
        let Some(clock) = &self.clock else { return call() };
        let start_ns = clock.now_ns();
        let result = call();
        count(self, clock.now_ns().saturating_sub(start_ns));
        result
    }

    /// Counts a foreground read, before it goes to the device. Costs two atomic additions.
    pub(crate) fn client_read(&self) -> ClientRead<'_> {
        self.in_flight.fetch_add(CLIENT_READ, Ordering::SeqCst);
        ClientRead(self)
    }

    /// Counts a background read, before it goes to the device.
    pub(crate) fn background_read(self: &Arc<Self>) -> AdmittedRead {
        self.in_flight.fetch_add(BACKGROUND_READ, Ordering::SeqCst);
        AdmittedRead(Arc::clone(self), BACKGROUND_READ)
    }

    /// As [`Gate::client_read`], for a read that a ring owns.
    pub(crate) fn owned_client_read(self: &Arc<Self>) -> AdmittedRead {
        self.in_flight.fetch_add(CLIENT_READ, Ordering::SeqCst);
        AdmittedRead(Arc::clone(self), CLIENT_READ)
    }

    /// Whether fewer operations are in flight than the device may have at once.
    pub(crate) fn has_room(&self) -> bool {
        split(self.in_flight.load(Ordering::Relaxed)).iter().sum::<u64>() < self.depth
    }

    fn end(&self, count: u64) {
        self.in_flight.fetch_sub(count, Ordering::SeqCst);
        // A writer counts itself as refused before it tries again, so either it sees this end or this sees the writer.
        if self.refused.load(Ordering::SeqCst) > 0 {
            self.freed.notify_all();
        }
    }

    /// Admits a write if it may start now.
    pub(crate) fn try_write(self: &Arc<Self>) -> Option<AdmittedWrite> {
        let admit = |counts: u64| {
            let [writes, reads, clients] = split(counts);
            (writes == 0 || writes + reads + clients < self.depth).then(|| counts + WRITE)
        };
        self.in_flight.fetch_update(Ordering::SeqCst, Ordering::SeqCst, admit).ok()?;
        Some(AdmittedWrite(Arc::clone(self)))
    }

    /// Waits until a write may start.
    pub(crate) async fn write(self: &Arc<Self>) -> AdmittedWrite {
        if let Some(admitted) = self.try_write() {
            return admitted;
        }
        self.metrics.gate_waits.increment();
        let _refused = Refused::new(self);
        loop {
            let ticket = self.freed.ticket();
            if let Some(admitted) = self.try_write() {
                return admitted;
            }
            self.freed.listen(ticket).await;
        }
    }
}

fn split(counts: u64) -> [u64; 3] {
    [counts & COUNT_MASK, counts >> COUNT_BITS & COUNT_MASK, counts >> (2 * COUNT_BITS) & COUNT_MASK]
}

impl Drop for ClientRead<'_> {
    fn drop(&mut self) {
        self.0.end(CLIENT_READ);
    }
}

impl Drop for AdmittedRead {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

impl Drop for AdmittedWrite {
    fn drop(&mut self) {
        self.0.end(WRITE);
    }
}

/// A flush coroutine that waits at the gate, counted until dropped.
struct Refused<'a>(&'a Gate);

impl<'a> Refused<'a> {
    fn new(gate: &'a Gate) -> Self {
        gate.refused.fetch_add(1, Ordering::SeqCst);
        Refused(gate)
    }
}

impl Drop for Refused<'_> {
    fn drop(&mut self) {
        self.0.refused.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn gate(depth: usize) -> (Arc<Gate>, Arc<Metrics>) {
        let metrics = Arc::<Metrics>::default();
        (Gate::new(depth, Arc::clone(&metrics)), metrics)
    }

    #[test]
    fn reads_take_the_room_of_writes() {
        let (gate, _) = gate(8);
        let reads: Vec<_> = (0..3).map(|_| gate.background_read()).collect();
        let clients: Vec<_> = (0..2).map(|_| gate.client_read()).collect();
        let writes: Vec<_> = std::iter::from_fn(|| gate.try_write()).collect();
        assert_eq!(writes.len(), 3, "max(8 - 3 - 2, 0)");
        drop((reads, clients));
        let more: Vec<_> = std::iter::from_fn(|| gate.try_write()).collect();
        assert_eq!(more.len(), 5, "max(8 - 3, 0)");
        drop(more);
        drop(writes);
        assert_eq!(gate.in_flight.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn there_is_room_below_the_depth_whatever_is_in_flight() {
        let (gate, _) = gate(3);
        let reads = (gate.background_read(), gate.owned_client_read());
        assert!(gate.has_room());
        let write = gate.try_write();
        assert!(write.is_some() && !gate.has_room());
        drop(reads);
        assert!(gate.has_room());
    }

    #[test]
    fn clients_without_end_leave_one_write() {
        let (gate, metrics) = gate(4);
        let clients: Vec<_> = (0..100).map(|_| gate.client_read()).collect();
        let one = gate.try_write();
        assert!(one.is_some());
        assert!(gate.try_write().is_none());
        let mut waiting = pin!(gate.write());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert_eq!(metrics.gate_waits.get(), 1);
        drop(one);
        assert!(waiting.as_mut().poll(&mut context).is_ready());
        drop(clients);
    }

    #[test]
    fn a_waiter_is_woken_by_every_end() {
        let (gate, _) = gate(1);
        let wakes = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let (write, read) = (gate.try_write(), gate.client_read());
        let mut waiting = pin!(gate.write());
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(read);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(write);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 2);
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    }

    /// Threads that read and write at random: apart from the one write the sum never exceeds the depth.
    #[test]
    fn no_interleaving_admits_more_than_the_depth() {
        let (gate, _) = gate(3);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..20_000 {
                        if round % 3 == 0 {
                            drop(gate.client_read());
                        }
                        if let Some(write) = gate.try_write() {
                            let [writes, ..] = split(gate.in_flight.load(Ordering::SeqCst));
                            assert!((1..=3).contains(&writes), "{writes}");
                            drop(write);
                        }
                    }
                });
            }
        });
        assert_eq!(gate.in_flight.load(Ordering::SeqCst), 0);
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}
