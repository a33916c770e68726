//! [`ThreadTeam`]: the threads of a phase, from their common start to their end.
//!
//! Each thread opens its session, makes its client, and then waits for the start, so that no thread works while others
//! are still getting ready. Foreground threads are numbered `0..threads`, background threads from there on. The thread
//! that called [`run`] sleeps, reports progress ten times a second, and stops the background clients when the
//! foreground has ended.
//!
//! An error or a panic of one thread stops all threads; the caller resumes the panic. A thread signals that it is
//! ready, and that it has ended, by dropping a sender. A panic drops the sender too, so no thread waits for one that
//! has ended.
//!
//! Lock: `failure` is a leaf.

use super::clock::{SECOND_NS, now_ns};
use super::phase::{Phase, Progress};
use super::recorder::{Count, Log, Recorder};
use super::series::{Collected, Series};
use crate::engine::Session;
use crate::error::{Error, Result};
use crate::machine::faults_of_this_thread;
use crate::report::Second;
use crate::workload::Client;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{Builder, ScopedJoinHandle, scope};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(100);
/// Ticks over which the current rate is computed.
const RATE_TICKS: usize = 10;

/// The state that all threads of a phase share.
struct ThreadTeam<'a> {
    phase: &'a Phase<'a>,
    stop: AtomicBool,
    start_ns: OnceLock<u64>,
    series: Series,
    counts: Box<[Count]>,
    failure: Mutex<Option<Error>>,
}

/// One thread of a team, ready to work.
pub(super) struct Post<'c> {
    /// Its client.
    pub(super) client: Box<dyn Client + 'c>,
    /// The session of the client.
    pub(super) session: Box<dyn Session + 'c>,
    /// Its recorder.
    pub(super) recorder: Recorder<'c>,
    /// When all threads start.
    pub(super) start_ns: u64,
    /// Set when all threads must stop.
    pub(super) stop: &'c AtomicBool,
}

impl Post<'_> {
    /// Whether all threads must stop.
    #[inline]
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The work of a thread.
pub(super) type Work<'w> = dyn Fn(&mut Post<'_>) -> Result<()> + Sync + 'w;

/// The logs of a team.
pub(super) struct Logs {
    /// When all threads started.
    pub(super) start_ns: u64,
    /// The logs of the foreground threads.
    pub(super) foreground: Vec<Log>,
    /// The logs of the background clients.
    pub(super) background: Vec<Log>,
    /// Each second of the foreground.
    pub(super) series: Vec<Second>,
    /// Each 100 ms of the foreground, if the phase was short.
    pub(super) intervals: Vec<Second>,
}

/// Stops all threads on drop, also those that wait for the start.
struct Halt<'c, 'a>(&'c ThreadTeam<'a>);

impl Drop for Halt<'_, '_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
        // Does nothing if the threads have already started.
        let _ = self.0.start_ns.set(0);
    }
}

/// Stops all threads if the thread that holds it panics.
struct Alarm<'c>(&'c AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs the phase: `foreground` on each foreground thread, `background` on each thread of a background client. All
/// start `lead_ns` after the last thread is ready.
///
/// # Errors
/// The first error of a thread.
///
/// # Panics
/// With the panic of a thread.
pub(super) fn run(phase: &Phase<'_>, lead_ns: u64, foreground: &Work<'_>, background: &Work<'_>) -> Result<Logs> {
    let team = ThreadTeam::new(phase);
    let joined = scope(|scope| {
        let halt = Halt(&team);
        let (ready, all_ready) = channel();
        let (alive, none_alive) = channel();
        let mut threads = Vec::new();
        for thread in 0..phase.threads + phase.workload.background() {
            let (team, ready) = (&team, ready.clone());
            let alive = (thread < phase.threads).then(|| alive.clone());
            let work = if alive.is_some() { foreground } else { background };
            let spawned = Builder::new().spawn_scoped(scope, move || team.run_thread(thread, ready, alive, work));
            threads.push(spawned.map_err(|error| Error::io("start a thread", error))?);
        }
        drop((ready, alive));
        // No thread sends: this ends when the last sender is dropped.
        while all_ready.recv().is_ok() {}
        let start_ns = now_ns() + lead_ns;
        assert!(team.start_ns.set(start_ns).is_ok(), "one start");
        let mut watch = Watch { phase, start_ns, collected: Collected::default(), history: VecDeque::new() };
        watch.until(&none_alive, &team);
        drop(halt);
        join(threads).map(|logs| (watch, logs))
    });
    if let Some(error) = team.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let (mut watch, mut logs) = joined?;
    watch.collected.collect(&team.series);
    (phase.progress)(watch.progress(logs[..phase.threads].iter().map(|log| log.operations).sum(), true));
    let background = logs.split_off(phase.threads);
    let Collected { seconds: series, intervals, too_long, .. } = watch.collected;
    let intervals = if too_long { Vec::new() } else { intervals };
    Ok(Logs { start_ns: watch.start_ns, foreground: logs, background, series, intervals })
}

/// Waits for all threads, and returns their logs.
fn join(threads: Vec<ScopedJoinHandle<'_, Log>>) -> Result<Vec<Log>> {
    // All threads are joined before a panic is resumed, so that no panic is lost behind another.
    let joined: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    Ok(joined.into_iter().map(|log| log.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect())
}

impl<'a> ThreadTeam<'a> {
    fn new(phase: &'a Phase<'a>) -> ThreadTeam<'a> {
        ThreadTeam {
            phase,
            stop: AtomicBool::new(false),
            start_ns: OnceLock::new(),
            series: Series::new(phase.threads),
            counts: (0..phase.threads).map(|_| Count::default()).collect(),
            failure: Mutex::new(None),
        }
    }

    /// Runs one thread. Drops `ready` when the thread is ready, and `alive` when it has ended.
    fn run_thread(&self, thread: usize, ready: Sender<()>, alive: Option<Sender<()>>, work: &Work<'_>) -> Log {
        let _alarm = Alarm(&self.stop);
        let foreground = alive.is_some();
        let client = self.phase.workload.client(thread, self.phase.threads, self.phase.seed);
        let session = match self.phase.engine.session() {
            Ok(session) => session,
            Err(error) => return self.fail(error),
        };
        drop(ready);
        let start_ns = *self.start_ns.wait();
        let recorder = match foreground {
            true => Recorder::foreground(thread, start_ns, &self.series, &self.counts[thread]),
            false => Recorder::background(),
        };
        let mut post = Post { client, session, recorder, start_ns, stop: &self.stop };
        let faults = faults_of_this_thread();
        match work(&mut post) {
            Ok(()) => Log { faults: faults_of_this_thread().saturating_sub(faults), ..post.recorder.end() },
            Err(error) => self.fail(error),
        }
    }

    /// Records the error, and stops all threads.
    fn fail(&self, error: Error) -> Log {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
        Log::default()
    }
}

/// The progress of the team, as the caller's thread sees it.
struct Watch<'a> {
    phase: &'a Phase<'a>,
    start_ns: u64,
    collected: Collected,
    /// Seconds and operations at the last ticks.
    history: VecDeque<(f64, u64)>,
}

impl Watch<'_> {
    /// Reports progress until every foreground thread has dropped its sender.
    fn until(&mut self, none_alive: &Receiver<()>, team: &ThreadTeam<'_>) {
        while none_alive.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            self.collected.collect(&team.series);
            let operations = team.counts.iter().map(|count| count.0.load(Ordering::Relaxed)).sum();
            let progress = self.progress(operations, false);
            (self.phase.progress)(progress);
        }
    }

    fn progress(&mut self, operations: u64, ended: bool) -> Progress {
        let seconds = now_ns().saturating_sub(self.start_ns) as f64 / SECOND_NS as f64;
        let (since, before) = self.history.front().copied().unwrap_or_default();
        self.history.push_back((seconds, operations));
        if self.history.len() > RATE_TICKS {
            self.history.pop_front();
        }
        let limit = &self.phase.limit;
        let share = limit.operations.map_or(0.0, |all| operations as f64 / all as f64);
        let share = share.max(limit.seconds.map_or(0.0, |all| seconds / all)).min(1.0);
        Progress {
            seconds,
            operations,
            rate: if seconds > since { operations.saturating_sub(before) as f64 / (seconds - since) } else { 0.0 },
            p99_ns: self.collected.seconds.last().map_or(0, |second| second.p99_ns),
            share: if ended { 1.0 } else { share },
        }
    }
}
