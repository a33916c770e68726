//! [`ThreadScheduler`]: the production scheduler: worker threads, each with its own executor.
//!
//! One worker serves `Lane::Log`, one `Lane::Flush`, and n serve `Lane::Compaction`, which get tasks in turn.
//! `Lane::LogSegments` has its own worker only where several databases share the scheduler. Where compactions block
//! their workers, these have no ring, and `Lane::Compaction` has a worker of its own. A task stays with its worker (no
//! work stealing). A worker without ready tasks *parks* until a task is woken, an operation of its ring (`ring.rs`)
//! ends, or its earliest timer is due; so timers need no thread. It parks in its ring, or on a condition variable where
//! the kernel refuses a ring. Only a parked worker is woken by a system call: on a busy worker a wake-up is a push to
//! its queue. Between two rounds of ready tasks the worker submits to the kernel what the tasks queued. A busy worker
//! leaves its processor to callers every 100 µs (`courtesy.rs`).
//!
//! A task that panics is dropped, and its worker continues. The owner of a task guards against its loss.
//!
//! Locks: `Worker::state` is held for a few instructions. No waker is woken or dropped under it, and no future polled
//! or dropped. `TaskCell::future` is held while the task is polled, by its worker alone.

use super::affinity::bind_to_processor;
use super::courtesy::Courtesy;
use super::event::{Event, Ticket};
use super::ring::{self, Bell, Ring};
use super::scheduler::{Lane, Point, Scheduler, Task};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of address space for a worker's stack. Coroutines are on the heap, so flushes and compactions touch about 20
/// KiB of the stack. Pages that are not touched use no memory.
const STACK_BYTES: usize = 1 << 20;

/// The reason why nothing has a ring if [`crate::Builder::io_uring`] is off.
pub(crate) const RINGS_ARE_OFF: &str = "the option io_uring is off";

/// Which workers a scheduler has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crew {
    /// Workers for compactions, at least one.
    pub(crate) compaction: usize,
    /// Whether operations are handed to the kernel's io_uring, where it has one.
    pub(crate) io_uring: bool,
    /// Whether compactions make plain calls even where there is an io_uring.
    pub(crate) compactions_block: bool,
    /// The compaction workers are bound to this many processors, in turn.
    pub(crate) bound_to: Option<usize>,
    /// Whether several databases share the workers.
    pub(crate) is_shared: bool,
}

impl Crew {
    /// A crew with this many compaction workers, for one database.
    pub(crate) fn of(compaction: usize) -> Self {
        Crew { compaction, io_uring: true, compactions_block: false, bound_to: None, is_shared: false }
    }
}

/// Worker threads for background coroutines. Foreground threads wait by futexes (`event.rs`).
pub struct ThreadScheduler {
    clock: Arc<dyn Clock>,
    log: Arc<Worker>,
    /// The worker of log segments, where that is not `log`.
    segments: Option<Arc<Worker>>,
    flush: Arc<Worker>,
    compaction: Vec<Arc<Worker>>,
    /// The worker of `Lane::Compaction`, where compactions block their workers.
    cleanup: Option<Arc<Worker>>,
    /// The worker that gets the next compaction task.
    next_compaction: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The kernel's reason, where a worker has no ring.
    ring_refused: Option<String>,
}

impl ThreadScheduler {
    /// Starts the workers of one database.
    #[cfg(test)]
    pub(crate) fn new(clock: Arc<dyn Clock>, compaction_workers: usize) -> Result<Self> {
        ThreadScheduler::with_crew(clock, Crew::of(compaction_workers))
    }

    /// Starts these workers. An error when the operating system refuses a thread.
    pub(crate) fn with_crew(clock: Arc<dyn Clock>, crew: Crew) -> Result<Self> {
        let ring_clock = Arc::clone(&clock);
        ThreadScheduler::with_rings(clock, crew, || match crew.io_uring {
            true => Ring::new(Arc::clone(&ring_clock)),
            false => Err(io::Error::other(RINGS_ARE_OFF)),
        })
    }

    /// As [`ThreadScheduler::with_crew`], with a function that makes a worker's ring.
    fn with_rings(clock: Arc<dyn Clock>, crew: Crew, new_ring: impl Fn() -> io::Result<Ring>) -> Result<Self> {
        let mut rings = Vec::new();
        let mut ring_refused = None;
        let mut worker = |has_ring: bool| {
            let new = || new_ring().map_err(|error| ring_refused = Some(error.to_string())).ok();
            let ring = has_ring.then(new).flatten();
            let worker = Worker::new(Arc::clone(&clock), ring.as_ref().map(|ring| Arc::clone(ring.bell())));
            rings.push(ring);
            worker
        };
        let (log, flush) = (worker(true), worker(true));
        let compaction: Vec<_> = (0..crew.compaction.max(1)).map(|_| worker(!crew.compactions_block)).collect();
        let segments = crew.is_shared.then(|| worker(true));
        let cleanup = crew.compactions_block.then(|| worker(true));
        let scheduler = ThreadScheduler {
            log,
            segments,
            flush,
            compaction,
            cleanup,
            next_compaction: AtomicUsize::new(0),
            threads: Mutex::new(Vec::new()),
            ring_refused,
            clock,
        };
        let numbered = (0..scheduler.compaction.len()).map(|number| format!("thalweg-compact-{number}"));
        let names = ["thalweg-log".to_owned(), "thalweg-flush".to_owned()].into_iter().chain(numbered);
        let segments = scheduler.segments.as_ref().map(|_| "thalweg-segment".to_owned());
        let cleanup = scheduler.cleanup.as_ref().map(|_| "thalweg-cleanup".to_owned());
        let names = names.chain(segments).chain(cleanup);
        let number_of = |worker: &Arc<Worker>| scheduler.compaction.iter().position(|it| Arc::ptr_eq(it, worker));
        // After an error the drop stops the workers that run.
        for ((worker, name), ring) in scheduler.workers().zip(names).zip(rings) {
            let processor = crew.bound_to.and_then(|count| Some(number_of(worker)? % count.max(1)));
            scheduler.start(worker, name, ring, processor)?;
        }
        Ok(scheduler)
    }

    fn start(&self, worker: &Arc<Worker>, name: String, ring: Option<Ring>, processor: Option<usize>) -> Result<()> {
        let path = Path::new(&name).to_path_buf();
        let worker = Arc::clone(worker);
        let run = move || {
            processor.into_iter().for_each(bind_to_processor);
            worker.run(ring);
        };
        let handle = std::thread::Builder::new()
            .name(name)
            .stack_size(STACK_BYTES)
            .spawn(run)
            .map_err(|source| Error::io("start the worker thread", &path, source))?;
        self.threads.lock().push(handle);
        Ok(())
    }

    fn workers(&self) -> impl Iterator<Item = &Arc<Worker>> {
        [&self.log, &self.flush].into_iter().chain(&self.compaction).chain(&self.segments).chain(&self.cleanup)
    }
}

impl Scheduler for ThreadScheduler {
    fn spawn(&self, lane: Lane, task: Task) {
        let worker = match lane {
            Lane::Log => &self.log,
            Lane::LogSegments => self.segments.as_ref().unwrap_or(&self.log),
            Lane::Flush => &self.flush,
            Lane::Compaction => self.cleanup.as_ref().unwrap_or_else(|| {
                let turn = self.next_compaction.fetch_add(1, Ordering::Relaxed);
                &self.compaction[turn % self.compaction.len()]
            }),
            Lane::CompactionWorker(number) => &self.compaction[number % self.compaction.len()],
        };
        worker.spawn(task);
    }

    fn sleep_until(&self, deadline_ns: u64) -> Task {
        // A sleep that is polled outside of a worker (by a foreign executor in a test) uses the log worker's timers.
        let home = Arc::clone(&self.log);
        Box::pin(Sleep { clock: Arc::clone(&self.clock), deadline_ns, home, timer: None })
    }

    fn wait(&self, event: &Event, ticket: Ticket, deadline_ns: Option<u64>) {
        let timeout = deadline_ns.map(|deadline| Duration::from_nanos(deadline.saturating_sub(self.clock.now_ns())));
        event.block(ticket, timeout);
    }

    fn point(&self, _: Point) {}

    fn has_waiting_compactor(&self) -> bool {
        self.compaction.iter().any(|worker| worker.state().parked)
    }

    fn ring_refused(&self) -> Option<&str> {
        self.ring_refused.as_deref()
    }

    /// Drops the pending tasks on their workers, and joins the workers. A second call does nothing. A call from a
    /// worker (when the last handle is dropped inside a coroutine) does not join that worker, which then ends by
    /// itself.
    fn shutdown(&self) {
        for worker in self.workers() {
            worker.stop();
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        let this_thread = std::thread::current().id();
        for thread in threads {
            if thread.thread().id() != this_thread {
                // A worker catches the panics of its tasks, so it ends without one.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for ThreadScheduler {
    fn drop(&mut self) {
        self.shutdown();
    }
}

thread_local! {
    /// The worker that this thread runs, for timers.
    static CURRENT: RefCell<Option<Arc<Worker>>> = const { RefCell::new(None) };
}

/// Whether this thread is a worker's.
pub(super) fn on_a_worker() -> bool {
    CURRENT.with(|current| current.borrow().is_some())
}

/// The executor of one thread.
struct Worker {
    clock: Arc<dyn Clock>,
    state: Mutex<WorkerState>,
    /// Wakes the worker while it parks in its ring; without a ring it parks on `changed`.
    bell: Option<Arc<Bell>>,
    changed: Condvar,
}

#[derive(Default)]
struct WorkerState {
    stopping: bool,
    /// Whether the worker waits or is about to. The code that gives it work clears this and wakes it.
    parked: bool,
    ready: VecDeque<Arc<TaskCell>>,
    /// All tasks that have not ended, by number, for the stop to drop.
    tasks: BTreeMap<u64, Arc<TaskCell>>,
    next_task: u64,
    /// The wakers of the timers, by deadline and number.
    timers: BTreeMap<(u64, u64), Waker>,
    next_timer: u64,
}

/// The next action of a worker.
enum Next {
    Poll(Arc<TaskCell>),
    Wake(Vec<Waker>),
    Park(Option<Duration>),
    Stop,
}

impl Worker {
    fn new(clock: Arc<dyn Clock>, bell: Option<Arc<Bell>>) -> Arc<Self> {
        Arc::new(Worker { clock, state: Mutex::default(), bell, changed: Condvar::default() })
    }

    /// Wakes the worker if it is parked; called after a change of its state.
    fn changed(&self, mut state: MutexGuard<'_, WorkerState>) {
        let parked = std::mem::take(&mut state.parked);
        drop(state);
        match &self.bell {
            _ if !parked => {}
            Some(bell) => bell.ring(),
            None => self.changed.notify_one(),
        }
    }

    fn state(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock()
    }

    fn spawn(self: &Arc<Self>, task: Task) {
        let mut state = self.state();
        if state.stopping {
            drop(state);
            drop(task);
            return;
        }
        let number = state.next_task;
        state.next_task += 1;
        let cell = Arc::new(TaskCell {
            number,
            worker: Arc::clone(self),
            queued: AtomicBool::new(true),
            future: Mutex::new(Some(task)),
        });
        state.tasks.insert(number, Arc::clone(&cell));
        state.ready.push_back(cell);
        self.changed(state);
    }

    fn stop(&self) {
        let mut state = self.state();
        state.stopping = true;
        self.changed(state);
    }

    fn run(self: Arc<Self>, ring: Option<Ring>) {
        CURRENT.with(|current| *current.borrow_mut() = Some(Arc::clone(&self)));
        if let Some(ring) = ring {
            ring::install(ring);
        }
        // The number of tasks that were ready when the round began and are not polled yet.
        let mut round = 0;
        let mut courtesy = Courtesy::new(self.clock.now_ns());
        loop {
            if round == 0 {
                ring::submit_and_reap();
                round = self.state().ready.len();
            }
            match self.next() {
                Next::Poll(cell) => {
                    self.poll(&cell);
                    round = round.saturating_sub(1);
                    courtesy.yield_if_due(&*self.clock);
                }
                Next::Wake(wakers) => wakers.into_iter().for_each(Waker::wake),
                Next::Park(timeout) => courtesy.rest(&*self.clock, || self.park(timeout)),
                Next::Stop => break,
            }
        }
        self.drop_tasks();
        // No task can submit operations from here on. This waits for the operations in flight.
        ring::uninstall();
        CURRENT.with(|current| *current.borrow_mut() = None);
    }

    /// Picks the next action. Due timers go before ready tasks, and neither starves the other: a timer fires once, and
    /// the task that it wakes goes to the end of the queue.
    fn next(&self) -> Next {
        let mut state = self.state();
        if state.stopping {
            return Next::Stop;
        }
        // Without timers the clock is not read, so a task that yields costs no clock call.
        let now_ns = if state.timers.is_empty() { 0 } else { self.clock.now_ns() };
        let later = state.timers.split_off(&(now_ns.saturating_add(1), 0));
        let due = std::mem::replace(&mut state.timers, later);
        if !due.is_empty() {
            return Next::Wake(due.into_values().collect());
        }
        if let Some(cell) = state.ready.pop_front() {
            return Next::Poll(cell);
        }
        state.parked = true;
        let deadline_ns = state.timers.keys().next().map(|&(deadline_ns, _)| deadline_ns);
        Next::Park(deadline_ns.map(|deadline_ns| Duration::from_nanos(deadline_ns.saturating_sub(now_ns))))
    }

    /// Waits until `parked` is cleared, a completion arrives, or `timeout` has passed.
    fn park(&self, timeout: Option<Duration>) {
        if self.bell.is_some() {
            let ended = ring::park(timeout);
            self.state().parked = false;
            ended.wake();
            return;
        }
        let mut state = self.state();
        if state.parked {
            state = match timeout {
                None => self.changed.wait(state),
                Some(timeout) => self.changed.wait_timeout(state, timeout),
            };
        }
        state.parked = false;
    }

    fn poll(&self, cell: &Arc<TaskCell>) {
        // Cleared before the poll, so that a wake during the poll queues the task again.
        cell.queued.store(false, Ordering::SeqCst);
        let mut slot = cell.future.lock();
        let Some(future) = slot.as_mut() else { return };
        let waker = Waker::from(Arc::clone(cell));
        let outcome = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
        if let Ok(Poll::Pending) = outcome {
            return;
        }
        let ended = slot.take();
        drop(slot);
        drop_caught(ended);
        self.state().tasks.remove(&cell.number);
    }

    fn drop_tasks(&self) {
        // Dropping a task may wake other tasks. While `stopping` is set, wake-ups are ignored.
        let (tasks, ready, timers) = {
            let mut state = self.state();
            (std::mem::take(&mut state.tasks), std::mem::take(&mut state.ready), std::mem::take(&mut state.timers))
        };
        for cell in tasks.into_values() {
            let future = cell.future.lock().take();
            drop_caught(future);
        }
        drop((ready, timers));
    }

    /// Sets a timer. Returns its key, for [`Worker::cancel`].
    fn set_timer(&self, deadline_ns: u64, waker: Waker) -> (u64, u64) {
        let mut state = self.state();
        let key = (deadline_ns, state.next_timer);
        state.next_timer += 1;
        state.timers.insert(key, waker);
        self.changed(state);
        key
    }

    fn cancel(&self, key: (u64, u64)) {
        let waker = self.state().timers.remove(&key);
        drop(waker);
    }
}

/// Drops a task's future, and catches a panic of a destructor.
fn drop_caught(future: Option<Task>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
}

/// One task. Its wakers point to this cell, and may outlive the future.
struct TaskCell {
    number: u64,
    worker: Arc<Worker>,
    /// Whether the task is in the worker's ready queue.
    queued: AtomicBool,
    /// `None` after the task has ended.
    future: Mutex<Option<Task>>,
}

impl Wake for TaskCell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut state = self.worker.state();
        if state.stopping {
            return;
        }
        state.ready.push_back(Arc::clone(self));
        self.worker.changed(state);
    }
}

/// The future of [`Scheduler::sleep_until`].
struct Sleep {
    clock: Arc<dyn Clock>,
    deadline_ns: u64,
    /// The worker that has the timer. Before the first poll: the worker for polls outside of any worker.
    home: Arc<Worker>,
    timer: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Each poll sets a new timer, because the waker may have changed.
        self.cancel();
        if self.clock.now_ns() >= self.deadline_ns {
            return Poll::Ready(());
        }
        if let Some(current) = CURRENT.with(|current| current.borrow().clone()) {
            self.home = current;
        }
        let timer = self.home.set_timer(self.deadline_ns, context.waker().clone());
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Sleep {
    fn cancel(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.home.cancel(timer);
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}

#[cfg(test)]
#[path = "tests/threads.rs"]
mod tests;
