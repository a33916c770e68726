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
    /// Listens to signals from here on.
    pub fn on_signals() -> Result<Stop> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in [SIGHUP, SIGINT, SIGTERM] {
            flag::register_usize(number, Arc::clone(&signal), number.unsigned_abs() as usize)
                .map_err(|error| Error::io("listen to signals", error))?;
        }
        Ok(Stop { signal })
    }

    /// The exit code of a process that stopped for the signal; `None`: none came.
    pub fn code(&self) -> Option<u8> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(u8::try_from(128 + signal).unwrap_or(130)),
        }
    }
}
