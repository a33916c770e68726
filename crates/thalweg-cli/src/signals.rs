//! Signals that stop a long command. The command ends in order and reports its progress.

use crate::report::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use thalweg_bench::command::is_ignored;

/// How often a waiting command checks whether it must stop.
pub const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The number of the signal that asked to stop; 0 before.
pub type Stop = Arc<AtomicUsize>;

/// Installs the handlers. The first signal asks to stop; the second ends the process at once.
pub fn stop_on_signals() -> Result<Stop, Failure> {
    let stop = Arc::new(AtomicUsize::new(0));
    let asked = Arc::new(AtomicBool::new(false));
    for signal in obeyed_signals() {
        // The order matters: the second signal must find the flag that the first one set.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))
            .and_then(|_| flag::register(signal, Arc::clone(&asked)))
            .and_then(|_| flag::register_usize(signal, Arc::clone(&stop), signal.unsigned_abs() as usize))
            .map_err(|error| Failure::io("listen to", "signals", &error))?;
    }
    Ok(stop)
}

/// The signals that ask a command to stop. A hang-up that `nohup` ignores stays ignored.
pub fn obeyed_signals() -> Vec<i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| signal != SIGHUP || !is_ignored(signal)).collect()
}

/// Runs `work` on a thread of its own and returns its result; `None`: a signal asks to stop, and the thread continues.
///
/// # Panics
/// If `work` panics.
pub fn unless_stopped<T: Send + 'static>(stop: &Stop, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, done) = channel();
    let worker = thread::spawn(move || {
        // After a signal there is no receiver for the result.
        let _ = sender.send(work());
    });
    loop {
        match done.recv_timeout(SIGNAL_CHECK_INTERVAL) {
            Ok(done) => return Some(done),
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) != 0 => return None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Ok(()) => unreachable!("it ends only after it has sent its result"),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }
}

/// Returns the exit code of a command that a signal stopped. Its report is already printed.
pub fn stopped_by(stop: &Stop) -> Failure {
    Failure::Exit(u8::try_from(128 + stop.load(Ordering::Relaxed)).unwrap_or(130))
}
