//! The daemon's log: its standard error, which `thalweg mount` redirects to `VOLUME/mount.log`.

use std::io::{self, Write};

/// Writes a line to the daemon's log.
pub(crate) fn say(what: &str) {
    // An error is ignored: perhaps nobody reads the log.
    let _ = writeln!(io::stderr(), "thalweg mount: {what}");
}
