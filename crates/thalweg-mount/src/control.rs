//! The socket by which tools reach a volume while it is mounted: `VOLUME/control`.
//!
//! A tool connects and writes one line; the daemon answers with text and ends the connection.
//!
//! | request | answer |
//! |---|---|
//! | `stat` | what the volume has, and what was asked of it |
//! | `check [json] [progress]` | findings and counts; with `progress`, lines "progress INODES OF ROWS" before it |
//! | `sync` | nothing, once everything is durable |
//! | `wait` | nothing, when the daemon ends |
//!
//! An answer begins with "ok" or "error" on a line of its own.

use crate::daemon::Shared;
use crate::daemon_log::say;
use crate::report;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_fs::CheckProgress;

const SOCKET: &str = "control";
/// The time between two reports of a check's progress to a tool.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// How long the socket is left alone after an error.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The socket of a daemon. The drop removes it.
pub(crate) struct Control {
    path: PathBuf,
}

impl Control {
    /// Listens for tools, on a thread of its own.
    pub(crate) fn start(folder: &Path, shared: Arc<Shared>) -> io::Result<Self> {
        let path = folder.join(SOCKET);
        // The database is locked by this process, so an existing socket is of a process that is gone.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = with_short_path(folder, |path| UnixListener::bind(path))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let builder = std::thread::Builder::new().name("control".to_owned());
        // The thread ends with the process: it holds nothing but the volume, which is closed by then.
        builder.spawn(move || listen(&listener, &shared))?;
        Ok(Control { path })
    }
}

/// Calls `act` with the path of the socket in `folder` by the number of a descriptor: the kernel takes 107 bytes of the
/// path of a socket, and that of a volume may have more.
fn with_short_path<T>(folder: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(folder)?;
    act(&PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd())).join(SOCKET))
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn listen(listener: &UnixListener, shared: &Arc<Shared>) {
    accept_all(listener.incoming(), ACCEPT_PAUSE, |stream| {
        let shared = Arc::clone(shared);
        let served = std::thread::Builder::new().name("tool".to_owned()).spawn(move || {
            // A tool that is gone is no fault.
            let _ = serve(stream, &shared);
        });
        if let Err(error) = served {
            say(&format!("no thread for a tool: {error}"));
        }
    });
}

/// Serves all tools that connect. Goes on after a pause when the process has no descriptor left, or when a tool has
/// gone before it was accepted. Ends with an error that says that there is no socket any more, and returns that error.
fn accept_all<S>(
    connections: impl Iterator<Item = io::Result<S>>,
    pause: Duration,
    mut serve: impl FnMut(S),
) -> Option<io::Error> {
    let mut said = None;
    for connection in connections {
        match connection {
            Ok(stream) => {
                said = None;
                serve(stream);
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBADF | libc::EINVAL | libc::ENOTSOCK)) => {
                say(&format!("tools reach this process no more: {error}"));
                return Some(error);
            }
            Err(error) => {
                // The same error comes after each pause while it lasts: it is logged once.
                if said != Some(error.raw_os_error()) {
                    said = Some(error.raw_os_error());
                    say(&format!("a tool was not accepted, and the next ones are waited for: {error}"));
                }
                std::thread::sleep(pause);
            }
        }
    }
    None
}

fn serve(mut stream: UnixStream, shared: &Shared) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    if words == ["wait"] {
        // The tool reads until this process ends.
        let _ = stream.read(&mut [0])?;
        return Ok(());
    }
    let mut text = String::new();
    let done = match words[..] {
        ["stat"] => report::stat(shared, &mut text),
        ["sync"] => shared.volume.sync(),
        ["check", ref options @ ..] if options.iter().all(|option| matches!(*option, "json" | "progress")) => {
            let mut teller = Teller { stream: &stream, is_asked: options.contains(&"progress"), told: None };
            report::check(&shared.volume, options.contains(&"json"), &mut |done| teller.tell(done), &mut text)
        }
        _ => {
            let what = format!("unknown request '{}'", line.trim_end().escape_debug());
            Err(thalweg_fs::Error::explained(libc::EINVAL, what))
        }
    };
    match done {
        Ok(()) => write!(stream, "ok\n{text}"),
        Err(error) => write!(stream, "error\n{error}\n"),
    }
}

/// Tells a tool how far its check is.
struct Teller<'s> {
    stream: &'s UnixStream,
    is_asked: bool,
    /// When it was told last.
    told: Option<Instant>,
}

impl Teller<'_> {
    fn tell(&mut self, done: CheckProgress) {
        if self.is_asked && self.told.is_none_or(|at| at.elapsed() >= PROGRESS_INTERVAL) {
            self.told = Some(Instant::now());
            // A tool that is gone is no fault.
            let CheckProgress { inodes, inodes_total, rows } = done;
            let _ = writeln!(self.stream, "progress {inodes} {inodes_total} {rows}");
        }
    }
}

/// Asks the daemon of a mounted volume. `None`: there is no daemon.
///
/// # Errors
/// What the daemon says in place of an answer; those of the socket.
pub fn ask(volume: &Path, request: &str) -> io::Result<Option<String>> {
    ask_with(volume, request, &mut |_| ())
}

/// As [`ask`], and calls `progress` while the daemon works, if the request asks for that.
///
/// # Errors
/// As for [`ask`].
pub fn ask_with(volume: &Path, request: &str, progress: &mut dyn FnMut(CheckProgress)) -> io::Result<Option<String>> {
    let mut stream = match with_short_path(volume, |path| UnixStream::connect(path)) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    writeln!(stream, "{request}")?;
    let mut answer = BufReader::new(stream);
    loop {
        let mut line = String::new();
        answer.read_line(&mut line)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["progress", ref numbers @ ..] => {
                let numbers: Vec<u64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
                if let [inodes, inodes_total, rows] = numbers[..] {
                    progress(CheckProgress { inodes, inodes_total, rows });
                }
            }
            ["ok"] => break,
            ["error"] => {
                let mut text = String::new();
                answer.read_to_string(&mut text)?;
                return Err(io::Error::other(text.trim_end().to_owned()));
            }
            _ => return Err(io::Error::other("the daemon ended before it answered")),
        }
    }
    let mut text = String::new();
    answer.read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Connects to the daemon of a volume. Returns a function that waits for the daemon's end. `None`: there is no daemon.
///
/// # Errors
/// Those of the socket.
pub fn wait_for_end(volume: &Path) -> io::Result<Option<impl FnOnce() -> io::Result<()> + use<>>> {
    let mut stream = match with_short_path(volume, |path| UnixStream::connect(path)) {
        Ok(stream) => stream,
        Err(_) => return Ok(None),
    };
    writeln!(stream, "wait")?;
    Ok(Some(move || match stream.read_to_end(&mut Vec::new()) {
        // The daemon ended before it read the request.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        read => read.map(drop),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use thalweg_fs::{Caller, NewInode, ROOT, Volume};

    #[test]
    fn a_daemon_that_ends_before_it_reads_the_request_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let accepted = wait_for_end(folder.path()).unwrap().unwrap();
        drop(socket.accept().unwrap());
        accepted().unwrap();
        let waiting = wait_for_end(folder.path()).unwrap().unwrap();
        drop(socket);
        waiting().unwrap();
        assert!(wait_for_end(folder.path()).unwrap().is_none());
    }

    #[test]
    fn a_tool_is_told_how_far_its_check_is_if_it_asks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume");
        Volume::format(&path, Default::default()).unwrap();
        let volume = Arc::new(thalweg_fs::OpenOptions::new().open(&path).unwrap());
        for number in 0..1100 {
            volume.create(&Caller::ROOT, ROOT, format!("{number}").as_bytes(), NewInode::file(0o644)).unwrap();
        }
        volume.save_totals().unwrap();
        let control = Control::start(&path, Arc::new(Shared::new(volume))).unwrap();
        let asked = |request| {
            let mut told = Vec::new();
            let answer = ask_with(&path, request, &mut |progress| told.push(progress)).unwrap().unwrap();
            (answer, told)
        };
        let (plain, told) = asked("check");
        assert!(plain.contains("files          1100"), "{plain}");
        assert_eq!(told, []);
        let (json, told) = asked("check json progress");
        assert!(json.contains("\"files\": 1100"), "{json}");
        // The root's row lies somewhere between those of its entries.
        assert!(
            matches!(told[..], [CheckProgress { inodes: 1023 | 1024, inodes_total: 1101, rows: 1024 }]),
            "{told:?}"
        );
        assert!(asked("stat").0.contains("reclaim bytes  0"));
        assert!(ask(&path, "check xml").unwrap_err().to_string().contains("unknown request 'check xml'"));
        drop(control);
        assert_eq!(ask(&path, "stat").unwrap(), None);
    }

    #[test]
    fn a_volume_with_a_long_path_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v".repeat(200));
        Volume::format(&path, Default::default()).unwrap();
        assert_eq!(ask(&path, "stat").unwrap(), None);
        let volume = Arc::new(thalweg_fs::OpenOptions::new().open(&path).unwrap());
        let control = Control::start(&path, Arc::new(Shared::new(volume))).unwrap();
        assert!(ask(&path, "stat").unwrap().unwrap().contains("reclaim bytes"));
        drop(control);
        assert!(!path.join(SOCKET).exists());
    }

    #[test]
    fn tools_are_served_after_errors_that_pass() {
        let failed = |errno| Err(io::Error::from_raw_os_error(errno));
        let passing = [libc::EMFILE, libc::EMFILE, libc::ENFILE, libc::ECONNABORTED, libc::EINTR, libc::ENOMEM];
        let mut connections: Vec<io::Result<u32>> = passing.map(failed).into_iter().collect();
        connections.extend([Ok(1), failed(libc::EMFILE), Ok(2), failed(libc::EBADF), Ok(3)]);
        let (mut served, start, pause) = (Vec::new(), Instant::now(), Duration::from_millis(2));
        let end = accept_all(connections.into_iter(), pause, |tool| served.push(tool));
        assert_eq!((served, end.and_then(|error| error.raw_os_error())), (vec![1, 2], Some(libc::EBADF)));
        assert!(start.elapsed() >= pause * 7, "a process without descriptors would spin");
    }
}
