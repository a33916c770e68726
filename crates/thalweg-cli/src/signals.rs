//! Signals that stop a long command. The command ends in order and reports its progress.

use crate::report::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of the signal that asked to stop; 0 before.
pub type Stop = Arc<AtomicUsize>;

/// Installs the handlers. The first signal asks to stop; the second ends the process at once. A hang-up that `nohup`
/// ignores stays ignored.
pub fn stop_on_signals() -> Result<Stop, Failure> {
    let stop = Arc::new(AtomicUsize::new(0));
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal == SIGHUP && is_ignored(signal) {
            continue;
        }
        // The order matters: the second signal must find the flag that the first one set.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))
            .and_then(|_| flag::register(signal, Arc::clone(&asked)))
            .and_then(|_| flag::register_usize(signal, Arc::clone(&stop), signal.unsigned_abs() as usize))
            .map_err(|error| Failure::io("listen to", "signals", &error))?;
    }
    Ok(stop)
}

/// Returns the exit code of a command that a signal stopped. Its report is already printed.
pub fn stopped_by(stop: &Stop) -> Failure {
    Failure::Exit(u8::try_from(128 + stop.load(Ordering::Relaxed)).unwrap_or(130))
}

/// Returns whether this process was started with the signal ignored. If that is unknown, it was not.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_in(&status).is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

fn ignored_in(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        assert_eq!(ignored_in("Name:\tx\nSigIgn:\t0000000000001001\n"), Some(0x1001));
        assert_eq!(ignored_in("Name:\tx\n"), None);
    }
}
