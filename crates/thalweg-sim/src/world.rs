//! [`World`]: one thread that runs everything of a simulation, one step at a time, in a seeded order.
//!
//! Background coroutines are futures, polled here. Simulated clients are stackful coroutines (`clients.rs`), resumed by
//! [`World::run_clients`]. A step picks one of all that are ready. Time is virtual: it advances a little with each
//! step, jumps to the next timer when nothing else can run, and sometimes earlier. Nothing to run and no timer is a
//! deadlock; too many steps are a livelock. Both panic with a report, because they are bugs of the engine.
//!
//! Locks: `state` is held for a few instructions; no future, waker, hook or client runs or is dropped under it.

use crate::pace::Pace;
use crate::rng::Rng;
use crate::runnable::{Runnable, Running};
use crate::timers::Timers;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use thalweg::simulation::simulated::SimulatedDisk;
use thalweg::simulation::{Event, Lane, Point, Task, Ticket};

/// A function that runs between two steps, with the number of the step: write-back, phases of a full disk, power cuts.
pub type Hook = Box<dyn FnMut(u64) + Send>;

/// Everything that runs in one simulation.
pub struct World {
    state: Mutex<State>,
    now_ns: AtomicU64,
    hook: Mutex<Option<Hook>>,
    /// Like `hook`, but it gets the time instead of the step, and runs only while clients run.
    watch: Mutex<Option<Hook>>,
    /// The time that syncs take, and the parked clients.
    pace: Mutex<Pace>,
    trace: bool,
    /// For wakers, which outlive a step.
    myself: Weak<World>,
}

struct State {
    rng: Rng,
    /// Chooses the waiter of a wake-up that wakes only one. A separate sequence, so that waits draw nothing from `rng`.
    wake_rng: Rng,
    running: Running,
    steps: u64,
    task_operations: u64,
    /// The step at which the world reports a livelock.
    steps_max: u64,
    /// A checksum of the history, to prove that a seed replays.
    digest: u64,
    next_task: u64,
    tasks: BTreeMap<u64, TaskSlot>,
    ready: Vec<Runnable>,
    timers: Timers,
    /// The current operation of each client, for reports.
    clients: BTreeMap<usize, String>,
    /// A client yields at one point in this many.
    point_one_in: u64,
}

struct TaskSlot {
    instance: u64,
    lane: Lane,
    /// `None` while the future is polled.
    future: Option<Task>,
    token: Arc<Token>,
}

/// The longest nap of a reader between two views. Flushes and edits of dropped keyspaces can happen meanwhile.
const READER_NAP_NS_MAX: u64 = 100_000_000;

/// The target of a waker.
pub(crate) struct Token {
    world: Weak<World>,
    who: Runnable,
    queued: AtomicBool,
}

impl Wake for Token {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(world) = self.world.upgrade()
            && !self.queued.swap(true, Ordering::Relaxed)
        {
            world.state().ready.push(self.who);
        }
    }
}

/// The number of steps after which a [`World`] reports a livelock.
pub const PATIENCE_STEPS: u64 = 2_000_000;

impl World {
    /// A world without tasks and clients.
    pub fn new(seed: u64, trace: bool) -> Arc<Self> {
        let mut rng = Rng::new(seed);
        let point_one_in = *rng.choose(&[2, 4, 16, 64]);
        let state = State {
            wake_rng: rng.aside(1),
            rng,
            running: Running::Main,
            steps: 0,
            task_operations: 0,
            steps_max: PATIENCE_STEPS,
            digest: 0xcbf2_9ce4_8422_2325,
            next_task: 0,
            tasks: BTreeMap::new(),
            ready: Vec::new(),
            timers: Timers::default(),
            clients: BTreeMap::new(),
            point_one_in,
        };
        Arc::new_cyclic(|myself| World {
            state: Mutex::new(state),
            now_ns: AtomicU64::new(1_000_000_000),
            hook: Mutex::new(None),
            watch: Mutex::new(None),
            pace: Mutex::default(),
            trace,
            myself: Weak::clone(myself),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The timing, locked.
    pub(crate) fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Virtual nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// The operations of the disk that coroutines have made.
    pub fn task_operations(&self) -> u64 {
        self.state().task_operations
    }

    /// A checksum of the history so far.
    pub fn digest(&self) -> u64 {
        self.state().digest
    }

    /// Adds an event to the digest.
    pub fn note(&self, what: u64) {
        self.state().note(what);
    }

    /// Restarts the count of steps to a livelock, and sets the hook.
    pub fn begin_phase(&self, hook: Option<Hook>) {
        let mut state = self.state();
        state.steps_max = state.steps + PATIENCE_STEPS;
        drop(state);
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = hook;
    }

    /// Sets or removes the watch.
    pub(crate) fn watch(&self, watch: Option<Hook>) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
    }

    /// Whether the history is printed.
    pub fn is_traced(&self) -> bool {
        self.trace
    }

    /// Prints a line of the history, with `--trace`.
    pub fn say(&self, line: impl FnOnce() -> String) {
        if self.trace {
            let (running, steps) = {
                let state = self.state();
                (state.running, state.steps)
            };
            eprintln!("{:>12} ns  step {steps:>6}  {running:?}: {}", self.now_ns(), line());
        }
    }

    pub(crate) fn token(&self, who: Runnable, queued: bool) -> Arc<Token> {
        Arc::new(Token { world: Weak::clone(&self.myself), who, queued: AtomicBool::new(queued) })
    }

    pub(crate) fn spawn(&self, instance: u64, lane: Lane, task: Task) {
        let mut state = self.state();
        let number = state.next_task;
        state.next_task += 1;
        let token = self.token(Runnable::Task(number), true);
        state.tasks.insert(number, TaskSlot { instance, lane, future: Some(task), token });
        state.ready.push(Runnable::Task(number));
    }

    /// Drops the tasks of one database. Returns how many there were.
    pub(crate) fn drop_tasks(&self, instance: u64) -> usize {
        let mut state = self.state();
        if let Running::Task(number) = state.running {
            panic!("background coroutine {number} shuts its own scheduler down");
        }
        let gone: Vec<u64> =
            state.tasks.iter().filter(|(_, slot)| slot.instance == instance).map(|(&number, _)| number).collect();
        let slots: Vec<TaskSlot> = gone.iter().filter_map(|number| state.tasks.remove(number)).collect();
        state.ready.retain(|who| !matches!(who, Runnable::Task(number) if gone.contains(number)));
        drop(state);
        slots.len()
    }

    /// The number of tasks of all databases that have not ended.
    pub fn tasks(&self) -> usize {
        self.state().tasks.len()
    }

    /// The databases of these tasks.
    pub(crate) fn databases(&self) -> std::collections::BTreeSet<u64> {
        self.state().tasks.values().map(|slot| slot.instance).collect()
    }

    pub(crate) fn set_timer(&self, deadline_ns: u64, waker: Waker) -> (u64, u64) {
        self.state().timers.set(deadline_ns, waker)
    }

    pub(crate) fn cancel_timer(&self, key: (u64, u64)) {
        let waker = self.state().timers.cancel(key);
        drop(waker);
    }

    pub(crate) fn random_u64(&self) -> u64 {
        self.state().rng.next_u64()
    }

    /// As `Scheduler::wait`.
    pub(crate) fn wait(&self, event: &Event, ticket: Ticket, deadline_ns: Option<u64>) {
        let running = self.state().running;
        match running {
            Running::Task(number) => panic!("background coroutine {number} made a foreground wait"),
            Running::Client(slot) => self.wait_in_client(slot, event, ticket, deadline_ns),
            Running::Main => self.wait_on_main(event, ticket, deadline_ns),
        }
    }

    fn wait_on_main(&self, event: &Event, ticket: Ticket, deadline_ns: Option<u64>) {
        let timer = deadline_ns.map(|deadline| self.set_timer(deadline, Waker::noop().clone()));
        while !event.passed(ticket) && deadline_ns.is_none_or(|deadline| self.now_ns() < deadline) {
            self.step("the harness waits in a foreground call");
        }
        timer.into_iter().for_each(|key| self.cancel_timer(key));
    }

    fn wait_in_client(&self, slot: usize, event: &Event, ticket: Ticket, deadline_ns: Option<u64>) {
        let token = self.token(Runnable::Client(slot), false);
        let waker = Waker::from(Arc::clone(&token));
        // The rank decides which waiter is woken by a wake-up for one; the others stay asleep, as threads do.
        let rank = self.state().wake_rng.next_u64();
        let mut listen = std::pin::pin!(event.listen_as_thread(ticket, rank));
        let mut timer = None;
        loop {
            if listen.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                break;
            }
            if let Some(deadline) = deadline_ns {
                if self.now_ns() >= deadline {
                    break;
                }
                timer.get_or_insert_with(|| self.set_timer(deadline, waker.clone()));
            }
            crate::slots::suspend(slot);
            token.queued.store(false, Ordering::Relaxed);
        }
        // A second wake-up of this wait must not resume the client in its next wait.
        token.queued.store(true, Ordering::Relaxed);
        timer.into_iter().for_each(|key| self.cancel_timer(key));
        self.state().ready.retain(|who| *who != Runnable::Client(slot));
    }

    /// As `Scheduler::point`.
    pub(crate) fn point(&self, point: Point) {
        if self.park_at(point) {
            return;
        }
        let mut state = self.state();
        let one_in = state.point_one_in;
        if matches!(state.running, Running::Task(_)) || !state.rng.one_in(one_in) {
            return;
        }
        state.note(point as u64);
        let naps = matches!(state.running, Running::Client(_)) && point == Point::Viewed && state.rng.one_in(2);
        let ns = if naps { state.rng.below(READER_NAP_NS_MAX) } else { 0 };
        drop(state);
        if naps { self.sleep(ns) } else { self.pause() }
    }

    /// Lets others run: from a client until it is picked again, from the main stack for one step.
    pub fn pause(&self) {
        let mut state = self.state();
        match state.running {
            Running::Task(_) => {}
            Running::Client(slot) => {
                state.ready.push(Runnable::Client(slot));
                drop(state);
                crate::slots::suspend(slot);
            }
            Running::Main => {
                let nothing_to_do = state.ready.is_empty();
                drop(state);
                if !nothing_to_do {
                    self.step("the harness is at a point");
                }
            }
        }
    }

    /// Runs one step of a task, on the main stack.
    pub(crate) fn step(&self, why: &str) {
        match self.choose(why) {
            Some(Runnable::Task(number)) => self.poll_task(number),
            Some(Runnable::Client(slot)) => self.resume_client(slot),
            None => {}
        }
    }

    /// The client or coroutine that runs at present.
    pub(crate) fn running(&self) -> Running {
        self.state().running
    }

    /// The database and the lane of a coroutine.
    pub(crate) fn worker_of(&self, task: u64) -> Option<(u64, Lane)> {
        self.state().tasks.get(&task).map(|slot| (slot.instance, slot.lane))
    }

    /// Whether there are clients. Parked ones count only if `with_parked`.
    pub(crate) fn has_clients(&self, with_parked: bool) -> bool {
        let parked = self.pace().parked();
        self.state().clients.keys().any(|slot| with_parked || !parked.contains(slot))
    }

    /// Runs background steps until no task is ready without an advance of time, `steps_max` at most.
    pub fn settle(&self, steps_max: u64) {
        for _ in 0..steps_max {
            if self.state().ready.is_empty() {
                break;
            }
            self.step("the harness lets the background run");
        }
    }

    /// Picks the next task or client to run; `None` if only time advanced.
    pub(crate) fn choose(&self, why: &str) -> Option<Runnable> {
        crate::violation::heartbeat();
        let step = self.state().steps;
        if let Some(hook) = self.hook.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            hook(step);
        }
        if let Some(watch) = self.watch.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            watch(self.now_ns());
        }
        let mut state = self.state();
        state.steps += 1;
        if state.steps > state.steps_max {
            let report = state.report();
            drop(state);
            panic!("livelock: no end after {PATIENCE_STEPS} steps while {why}; {report}");
        }
        let advance = 1 + state.rng.below(20_000);
        let now_ns = self.now_ns.fetch_add(advance, Ordering::Relaxed) + advance;
        let (is_timed, busy) = self.pace().busy(now_ns);
        let free = state.free(&busy);
        let early = state.timers.len() > 0 && state.rng.one_in(128) && !is_timed;
        let jump = early || free.is_empty();
        let due = state.timers.take_due(now_ns, jump);
        if due.is_empty() {
            if free.is_empty() {
                let report = state.report();
                drop(state);
                panic!("deadlock: nothing can run while {why}; {report}");
            }
            let index = state.rng.index(free.len());
            let who = state.ready.remove(free[index]);
            state.note(match who {
                Runnable::Task(number) => number << 8,
                Runnable::Client(slot) => slot as u64 + 1,
            });
            return Some(who);
        }
        drop(state);
        for ((deadline_ns, _), waker) in due {
            self.now_ns.fetch_max(deadline_ns, Ordering::Relaxed);
            waker.wake();
        }
        None
    }

    pub(crate) fn poll_task(&self, number: u64) {
        let mut state = self.state();
        // A token may be woken after its task has ended.
        let Some(slot) = state.tasks.get_mut(&number) else { return };
        let (lane, token) = (slot.lane, Arc::clone(&slot.token));
        let mut future =
            slot.future.take().unwrap_or_else(|| panic!("{lane:?} coroutine {number} is polled in itself"));
        token.queued.store(false, Ordering::Relaxed);
        let before = std::mem::replace(&mut state.running, Running::Task(number));
        drop(state);
        let waker = Waker::from(token);
        let operations = SimulatedDisk::operations_of_this_thread();
        let outcome = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.state();
        if !matches!(before, Running::Task(_)) {
            state.task_operations += SimulatedDisk::operations_of_this_thread() - operations;
        }
        state.running = before;
        let ended = match (outcome, state.tasks.get_mut(&number)) {
            (Poll::Pending, Some(slot)) => {
                slot.future = Some(future);
                None
            }
            _ => Some((state.tasks.remove(&number), future)),
        };
        drop(state);
        drop(ended);
    }

    /// Notes that a client begins or stops to run.
    pub(crate) fn set_running_client(&self, slot: Option<usize>) {
        self.state().running = slot.map_or(Running::Main, Running::Client);
    }

    pub(crate) fn add_client(&self, slot: usize) {
        let mut state = self.state();
        state.clients.insert(slot, "starts".into());
        state.ready.push(Runnable::Client(slot));
    }

    pub(crate) fn remove_client(&self, slot: usize) {
        self.state().clients.remove(&slot);
    }

    /// Sets the current operation of the running client, for reports of deadlocks and for the trace.
    pub fn doing(&self, what: impl FnOnce() -> String) {
        let mut state = self.state();
        if let Running::Client(slot) = state.running {
            let what = what();
            state.clients.insert(slot, what.clone());
            drop(state);
            self.say(|| what);
        }
    }

    /// Drops everything that is left, so that a finished seed keeps no memory.
    pub fn clear(&self) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut state = self.state();
        let left = (std::mem::take(&mut state.tasks), std::mem::take(&mut state.timers));
        state.ready.clear();
        drop(state);
        drop(left);
    }
}

impl State {
    fn note(&mut self, what: u64) {
        for byte in what.to_le_bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The indices of the ready tasks and clients whose worker is not blocked.
    fn free(&self, busy: &[(u64, Lane)]) -> Vec<usize> {
        let is_free = |who: &Runnable| match who {
            Runnable::Client(_) => true,
            Runnable::Task(number) => {
                let slot = self.tasks.get(number);
                slot.is_none_or(|slot| !busy.contains(&(slot.instance, slot.lane)))
            }
        };
        (0..self.ready.len()).filter(|index| busy.is_empty() || is_free(&self.ready[*index])).collect()
    }

    fn report(&self) -> String {
        let mut report = String::new();
        for (slot, doing) in &self.clients {
            let _ = write!(report, "client {slot} waits in: {doing}; ");
        }
        for (number, slot) in &self.tasks {
            let _ = write!(report, "coroutine {number} ({:?}, database {}) waits; ", slot.lane, slot.instance);
        }
        let _ = write!(report, "{} timers, {} ready", self.timers.len(), self.ready.len());
        report
    }
}
