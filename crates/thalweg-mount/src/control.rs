//! The socket by which tools reach a volume while it is mounted: `VOLUME/control`.
//!
//! A tool connects and writes one line; the daemon answers with text and ends the connection. `stat`, `check`, `check
//! json` and `sync` are answered at once; `wait` when the daemon ends, with nothing. An answer begins with "ok" or
//! "error" on a line of its own.

use crate::daemon_log::say;
use crate::operations::Operations;
use crate::report;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_fs::Volume;

const SOCKET: &str = "control";

/// The socket of a daemon. It goes with this.
pub(crate) struct Control {
    path: PathBuf,
}

impl Control {
    /// Listens for tools, on a thread of its own.
    pub(crate) fn start(folder: &Path, volume: Arc<Volume>, operations: Arc<Operations>) -> io::Result<Self> {
        let path = folder.join(SOCKET);
        // The database is locked by this process, so a socket that is there is of a process that is gone.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let builder = std::thread::Builder::new().name("control".to_owned());
        // It ends with the process: it holds nothing but the volume, which is closed by then.
        builder.spawn(move || listen(&listener, &volume, &operations))?;
        Ok(Control { path })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn listen(listener: &UnixListener, volume: &Arc<Volume>, operations: &Arc<Operations>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { return };
        let (volume, operations) = (Arc::clone(volume), Arc::clone(operations));
        let served = std::thread::Builder::new().name("tool".to_owned()).spawn(move || {
            // A tool that is gone is no fault.
            let _ = serve(stream, &volume, &operations);
        });
        if let Err(error) = served {
            say(&format!("no thread for a tool: {error}"));
        }
    }
}

fn serve(mut stream: UnixStream, volume: &Volume, operations: &Operations) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    if line.trim_end() == "wait" {
        // The tool reads until this process ends.
        let _ = stream.read(&mut [0])?;
        return Ok(());
    }
    let mut text = String::new();
    let done = match line.trim_end() {
        "stat" => report::stat(volume, operations, &mut text),
        "check" => report::check(volume, &mut text),
        "check json" => report::check_json(volume, &mut text),
        "sync" => volume.sync(),
        other => Err(thalweg_fs::Error::explained(libc::EINVAL, format!("unknown request '{other}'"))),
    };
    match done {
        Ok(()) => write!(stream, "ok\n{text}"),
        Err(error) => write!(stream, "error\n{error}\n"),
    }
}

/// Asks the daemon of a mounted volume. `None`: there is no daemon.
///
/// # Errors
/// What the daemon says in place of an answer; those of the socket.
pub fn ask(volume: &Path, request: &str) -> io::Result<Option<String>> {
    let mut stream = match UnixStream::connect(volume.join(SOCKET)) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    writeln!(stream, "{request}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once('\n') {
        Some(("ok", text)) => Ok(Some(text.to_owned())),
        Some(("error", text)) => Err(io::Error::other(text.trim_end().to_owned())),
        _ => Err(io::Error::other("the daemon ended before it answered")),
    }
}

/// Connects to the daemon of a volume, to wait for its end: what is returned waits. `None`: there is
/// no daemon.
///
/// # Errors
/// Those of the socket.
pub fn wait_for_end(volume: &Path) -> io::Result<Option<impl FnOnce() -> io::Result<()> + use<>>> {
    let mut stream = match UnixStream::connect(volume.join(SOCKET)) {
        Ok(stream) => stream,
        Err(_) => return Ok(None),
    };
    writeln!(stream, "wait")?;
    Ok(Some(move || stream.read_to_end(&mut Vec::new()).map(drop)))
}
