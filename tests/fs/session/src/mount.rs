//! The life of a mount: handshake, loop threads, and the way out by `umount`, SIGTERM or SIGINT.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::thread;

use fuser::{Filesystem, Notifier, Session};
use nix::sys::signal::{SigSet, Signal};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::Options;

/// What a background process says to the process that started it.
const MOUNTED: &str = "mounted";

/// Mounts `filesystem` and serves it until it is unmounted. `name` becomes the subtype, `source` the device.
///
/// With `--background` a child process serves the mount. This process returns when the kernel has the answer to INIT.
/// `notifier` is filled before the first request: by it the file system tells the kernel to drop what it keeps.
///
/// # Errors
///
/// An option that is unknown, or a mount that fails.
pub fn serve<F: Filesystem>(
    filesystem: F,
    options: &Options,
    name: &str,
    source: &str,
    notifier: &OnceLock<Notifier>,
) -> io::Result<()> {
    // Also in the process that only starts another: its user reads the error here.
    let config = options.config(name, source)?;
    if options.background {
        return in_background();
    }
    // Before any thread: threads inherit the mask, so only the waiting thread gets the signals.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    // Mounts, and answers INIT: when it returns, the file system is there.
    let session = Session::new(filesystem, &options.directory, &config)?;
    notifier.get_or_init(|| session.notifier());
    let directory = options.directory.canonicalize()?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || unmount_at(signals, &directory))?;
    let mut out = io::stdout();
    // Nobody may be reading: that is no reason to end.
    let _ = writeln!(out, "{MOUNTED}").and_then(|()| out.flush());
    session.run()
}

/// Unmounts at a signal. A mount in use is detached, and lives until its last user goes. A second signal ends it.
fn unmount_at(signals: SigSet, directory: &Path) {
    let mut detached = false;
    while signals.wait().is_ok() {
        if detached {
            std::process::exit(1);
        }
        // fuser's own unmounter forgets the mount when it is busy, so that a second attempt does nothing.
        if unmount(directory, UnmountFlags::empty()) == Err(Errno::BUSY) {
            let _ = unmount(directory, UnmountFlags::DETACH);
        }
        detached = true;
    }
}

/// Starts this program again without `--background`, and returns when that process has mounted.
fn in_background() -> io::Result<()> {
    let program = std::env::current_exe()?;
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != OsStr::new("--background"));
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).spawn()?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    if line.trim_end() == MOUNTED {
        return Ok(());
    }
    // The child has said why on the standard error that it shares with this process.
    std::process::exit(child.wait()?.code().unwrap_or(1));
}

/// Says on standard error why `name` ends, and returns the status of a failed mount.
pub fn failed(name: &str, error: &io::Error) -> ExitCode {
    let _ = writeln!(io::stderr(), "{name}: {error}");
    ExitCode::from(32)
}
