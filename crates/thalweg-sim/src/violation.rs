//! Violations: a panic of the engine, of the scheduler or of a check, reported as one line.
//!
//! A lock that is taken twice, or a loop that never waits, stops the only thread, and no check can report this. So a
//! watchdog thread ends the process with exit code 1 when a check makes no step for `STUCK_S` seconds of real time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Seconds without a step after which a check is stuck.
const STUCK_S: u64 = 20;

/// The checks that run, by number: what they check, and their steps so far.
static RUNNING: Mutex<BTreeMap<u64, (String, Arc<AtomicU64>)>> = Mutex::new(BTreeMap::new());
static NEXT_CHECK: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static LABEL: RefCell<String> = const { RefCell::new(String::new()) };
    static STEPS: RefCell<Option<Arc<AtomicU64>>> = const { RefCell::new(None) };
}

/// Sets what this thread checks next, for the watchdog's report.
pub fn label(what: String) {
    LABEL.set(what);
}

/// Counts a step.
pub fn heartbeat() {
    STEPS.with_borrow(|steps| {
        if let Some(steps) = steps {
            steps.fetch_add(1, Ordering::Relaxed);
        }
    });
}

struct Watched(u64);

impl Watched {
    fn begin() -> Self {
        static DOG: Once = Once::new();
        DOG.call_once(|| drop(std::thread::spawn(watch)));
        let (number, steps) = (NEXT_CHECK.fetch_add(1, Ordering::Relaxed), Arc::new(AtomicU64::new(0)));
        STEPS.set(Some(Arc::clone(&steps)));
        let label = LABEL.with_borrow(String::clone);
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).insert(number, (label, steps));
        Watched(number)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

fn watch() {
    let mut seen: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|number, _| running.contains_key(number));
        for (number, (label, steps)) in &*running {
            let now = steps.load(Ordering::Relaxed);
            let (before, idle_s) = seen.entry(*number).or_insert((now, 0));
            *idle_s = if *before == now { *idle_s + 1 } else { 0 };
            *before = now;
            if *idle_s >= STUCK_S {
                println!("{label}: stuck: no step for {STUCK_S} s: a lock taken twice, or a loop that never waits");
                std::process::exit(1);
            }
        }
    }
}

/// Runs `run`. A panic in it becomes an error: its message and place, in one line.
pub fn catch<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !CATCHING.get() {
                return before(info);
            }
            let payload = info.payload();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let message = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message");
            let place = info.location().map(|place| format!(" [{}:{}]", place.file(), place.line()));
            let line = format!("{}{}", message.replace('\n', " "), place.unwrap_or_default());
            // A second panic while the first unwinds ends the process, so both are printed here.
            LAST.with_borrow_mut(|last| {
                if let Some(first) = last {
                    eprintln!("a panic while another passes: {line}; the first: {first}");
                } else {
                    *last = Some(line);
                }
            });
            if std::env::var_os("SIM_BACKTRACE").is_some() {
                before(info);
            }
        }));
    });
    LAST.set(None);
    let outer = CATCHING.replace(true);
    let outcome = {
        let _watched = Watched::begin();
        catch_unwind(AssertUnwindSafe(run))
    };
    CATCHING.set(outer);
    if outcome.is_err() {
        crate::slots::forget_all();
    }
    outcome.map_err(|_| LAST.take().unwrap_or_else(|| "a panic without a message".into()))
}
