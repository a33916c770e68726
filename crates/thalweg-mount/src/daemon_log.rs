//! The daemon's log: its standard error, which `thalweg mount` leads to `VOLUME/mount.log`.

use std::io::{self, Write};

/// Says something in the daemon's log.
pub(crate) fn say(what: &str) {
    // Nobody may be reading.
    let _ = writeln!(io::stderr(), "thalweg mount: {what}");
}
