//! [`Error`]: why a benchmark could not be run or read.

use std::fmt;
use std::io;

/// Why a benchmark could not be run, or its results not be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An engine refused an operation.
    Engine {
        /// Which engine.
        engine: String,
        /// The operation: `open`, `put`, `get` …
        operation: &'static str,
        /// The engine's message.
        message: String,
    },
    /// A file, a process or a control group failed.
    Io {
        /// The attempt that failed, with the path: `write results.json`.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The command's arguments do not make sense: exit code 2.
    Usage(String),
    /// Any other error, as a sentence.
    Said(String),
    /// The command exits with this code and has already printed the reason. 130 and 143: stopped by a signal.
    Exit(u8),
}

/// The result of a fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The exit code of a command that failed and has printed why.
pub const FAILED: u8 = 3;

impl Error {
    /// An engine's refusal.
    pub fn engine(engine: &str, operation: &'static str, message: impl fmt::Display) -> Error {
        Error::Engine { engine: engine.to_owned(), operation, message: message.to_string() }
    }

    /// The system's refusal; `what` is the attempt with the path: `write results.json`.
    pub fn io(what: impl Into<String>, source: io::Error) -> Error {
        Error::Io { what: what.into(), source }
    }

    /// The failure of a path that the user gave: `Usage` if another path would do, otherwise `Io`.
    pub fn of_path(what: String, error: io::Error) -> Error {
        use io::ErrorKind::{
            InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
        };
        let named = [InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem];
        if named.contains(&error.kind()) {
            return Error::Usage(format!("cannot {what}: {error}"));
        }
        Error::io(what, error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Engine { engine, operation, message } => write!(f, "{engine} cannot {operation}: {message}"),
            Error::Io { what, source } => write!(f, "cannot {what}: {source}"),
            Error::Usage(text) | Error::Said(text) => f.write_str(text),
            Error::Exit(code) => write!(f, "it ended with exit code {code}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
