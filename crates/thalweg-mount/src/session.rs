//! [`mount`]: from the mount of a volume to the end of it.

use crate::background::Background;
use crate::control::Control;
use crate::daemon::Daemon;
use crate::daemon_log::say;
use crate::options::MountOptions;
use crate::place;
use crate::pool::Pool;
use fuser::Session;
use signal_hook::iterator::Signals;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_fs::{OpenOptions, Volume};

/// Threads for syncs of objects.
const SYNC_THREADS: usize = 4;
/// Threads for everything else that waits for the device.
const DEVICE_THREADS: usize = 4;
/// Threads for what may wait for room on a full disk.
const ROOM_THREADS: usize = 2;
/// How long a mount waits for the process of a dead mount to release the volume.
const CORPSE_WAIT: Duration = Duration::from_secs(30);
/// A process that has the volume and answers tools for this long counts as one that serves a mount.
const SERVING_WAIT: Duration = Duration::from_secs(1);
/// How long a mount waits before it tries again to open a volume that another process has.
const RETRY: Duration = Duration::from_millis(10);

/// Mounts the volume in the folder `volume` on `directory`, calls `mounted` once the kernel's first request is
/// answered, and serves the volume until it is unmounted. Each of `signals` unmounts it. While the volume is in use, a
/// signal detaches it, and it is served to its last user.
///
/// A mount on `directory` whose process is gone is detached first. A process that is closing the volume is waited for.
///
/// # Errors
/// In words for a user: a path that is wrong, a volume that is open elsewhere, no FUSE, no permission.
pub fn mount(
    volume: &Path,
    directory: &Path,
    options: &MountOptions,
    signals: &[i32],
    database: impl Fn() -> OpenOptions,
    mounted: impl FnOnce(),
) -> io::Result<()> {
    let is_dead = place::detach_dead(directory)?;
    if is_dead {
        say(&format!("{} was a mount whose process is gone: detached", directory.display()));
    }
    let directory = directory.canonicalize().map_err(|error| named(directory, &error))?;
    let folder = volume.canonicalize().map_err(|error| named(volume, &error))?;
    place::check(&folder, &directory)?;
    check_device()?;
    if is_dead {
        wait_for_corpse(&folder)?;
    }
    let opened = Arc::new(open(&folder, database)?);
    abort_on_panic();
    let served =
        Signals::new(signals).and_then(|signals| serve(&folder, &directory, options, signals, &opened, mounted));
    // Closed whatever happened: what was acknowledged is in the log already, but a clean close spares the next mount
    // its search.
    let closed = opened.close().map_err(|error| io::Error::other(format!("the volume was not closed: {error}")));
    served.and(closed)
}

/// Opens the volume. umount(8) returns before the process that served the mount has closed the volume, so the open
/// waits for that process. It does not wait for a process that goes on answering tools.
fn open(folder: &Path, database: impl Fn() -> OpenOptions) -> io::Result<Volume> {
    let (start, mut answered) = (Instant::now(), None);
    loop {
        let error = match database().open(folder) {
            Ok(volume) => return Ok(volume),
            Err(error) => error,
        };
        answered = crate::control::wait_for_end(folder)?.and(answered.or_else(|| Some(Instant::now())));
        let is_serving = answered.is_some_and(|since| since.elapsed() > SERVING_WAIT);
        if error.errno() != libc::EBUSY || is_serving || start.elapsed() > CORPSE_WAIT {
            return Err(io::Error::other(error.to_string()));
        }
        std::thread::sleep(RETRY);
    }
}

fn serve(
    folder: &Path,
    directory: &Path,
    options: &MountOptions,
    mut signals: Signals,
    volume: &Arc<Volume>,
    mounted: impl FnOnce(),
) -> io::Result<()> {
    let pool = |name, threads| Pool::new(name, threads).map(Arc::new);
    let pools = [pool("sync", SYNC_THREADS)?, pool("device", DEVICE_THREADS)?, pool("room", ROOM_THREADS)?];
    let daemon = Daemon::new(Arc::clone(volume), options.wanted(), pools.clone());
    let shared = Arc::clone(&daemon.shared);
    let session = Session::new(daemon, directory, &options.config(folder)).map_err(|error| explained(&error))?;
    let _ = shared.notifier.set(session.notifier());
    shared.passthrough.probe(&session, &folder.join(thalweg_fs::OBJECTS));
    let control = Control::start(folder, Arc::clone(&shared))?;
    let background = Background::start(Arc::clone(&shared))?;
    let handle = signals.handle();
    let at = directory.to_path_buf();
    let waiter = std::thread::Builder::new().name("signals".to_owned()).spawn(move || unmount_at(&mut signals, &at))?;
    mounted();
    let served = session.run();
    handle.close();
    let _ = waiter.join();
    drop((control, background, pools));
    served
}

/// Unmounts at a signal. A mount in use is detached; a second signal ends the process, which loses nothing.
fn unmount_at(signals: &mut Signals, directory: &Path) {
    let mut is_asked = false;
    for _ in signals.forever() {
        if is_asked {
            std::process::exit(1);
        }
        is_asked = true;
        let done = match place::unmount(directory, false) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => place::unmount(directory, true),
            done => done,
        };
        if let Err(error) = done {
            say(&format!("{} is not unmounted: {error}; a second signal ends this process", directory.display()));
        }
    }
}

/// Lets a panic end the process. Acknowledged operations are in the log, and no inode that is half changed in memory
/// answers any more. Without this, a thread of fuser's that panics would just be missing from then on.
fn abort_on_panic() {
    let say_it = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |what| {
        say_it(what);
        std::process::abort();
    }));
}

/// Waits until the process of a dead mount has released the volume.
fn wait_for_corpse(folder: &Path) -> io::Result<()> {
    let start = Instant::now();
    while let Some(wait) = crate::control::wait_for_end(folder)? {
        if start.elapsed() > CORPSE_WAIT {
            return Err(io::Error::other(format!("another process still has {}", folder.display())));
        }
        wait()?;
    }
    Ok(())
}

fn check_device() -> io::Result<()> {
    match std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(io::Error::new(error.kind(), "there is no /dev/fuse: load the kernel module (`modprobe fuse`)"))
        }
        Err(error) => Err(io::Error::new(error.kind(), format!("/dev/fuse cannot be opened: {error}"))),
    }
}

fn explained(error: &io::Error) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => ": mounting needs root, or the program fusermount3",
        io::ErrorKind::NotFound => ": without root, mounting needs the program fusermount3",
        _ => "",
    };
    io::Error::new(error.kind(), format!("the kernel did not mount: {error}{advice}"))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
