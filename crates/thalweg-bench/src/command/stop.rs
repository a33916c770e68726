//! [`Stop`]: whether the user ended the run, with Ctrl-C, a `kill`, or by closing the terminal.

use crate::error::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether a signal came. Further signals change nothing: the run is about to write its report and to remove its files.
pub struct Stop {
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Starts to listen for signals.
    pub fn on_signals() -> Result<Stop> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in [SIGHUP, SIGINT, SIGTERM] {
            // `nohup` ignores a hang-up; this process keeps ignoring it.
            if number == SIGHUP && is_ignored(number) {
                continue;
            }
            flag::register_usize(number, Arc::clone(&signal), number.unsigned_abs() as usize)
                .map_err(|error| Error::io("listen to signals", error))?;
        }
        Ok(Stop { signal })
    }

    /// The exit code of a process that a signal stopped; `None`: no signal came.
    pub fn code(&self) -> Option<u8> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(u8::try_from(128 + signal).unwrap_or(130)),
        }
    }
}

/// Whether this process was started with `signal` ignored. False if that is unknown.
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
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
