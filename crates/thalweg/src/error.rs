//! Errors of the engine: values that name what failed, where, and what to do about it.
//!
//! Every fallible call returns [`Result`]. An [`Error`] tells bad input from damage, a full disk, a poisoned
//! or closed database; [`Error::kind`] gives the class to match on. Damage names file, offset, expected and found.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of every fallible call of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. Cheap to clone, so that one failure can be told to everyone who waits for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The caller's input cannot be taken; nothing was changed.
    InvalidInput(Arc<str>),
    /// A file does not hold what was written to it.
    Corruption(Arc<Corruption>),
    /// The disk or quota is full. Nothing was written by this call; it may be tried again once there is room.
    NoSpace {
        /// The file that could not grow.
        path: Arc<Path>,
    },
    /// An earlier write to the log or manifest, or a sync, failed. Reads go on; every write gets this error until
    /// the database is opened again.
    Poisoned {
        /// The first failure.
        cause: Arc<Error>,
    },
    /// The database was closed.
    Closed,
    /// Another process (or another handle in this one) has the database open.
    Locked {
        /// The lock file.
        path: Arc<Path>,
    },
    /// There is no database at this path and the open was told not to create one.
    NoDatabase {
        /// The directory that was looked at.
        path: Arc<Path>,
    },
    /// The database was opened read-only.
    ReadOnly,
    /// The keyspace does not exist or was dropped.
    NoKeyspace(Arc<str>),
    /// An operation of the operating system failed.
    Io {
        /// What was attempted: `"read"`, `"write"`, `"sync"`, …
        operation: &'static str,
        /// The file or directory.
        path: Arc<Path>,
        /// The operating system's answer.
        source: Arc<io::Error>,
    },
}

/// The class of an [`Error`], for matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// See [`Error::InvalidInput`].
    InvalidInput,
    /// See [`Error::Corruption`].
    Corruption,
    /// See [`Error::NoSpace`].
    NoSpace,
    /// See [`Error::Poisoned`].
    Poisoned,
    /// See [`Error::Closed`].
    Closed,
    /// See [`Error::Locked`].
    Locked,
    /// See [`Error::NoDatabase`].
    NoDatabase,
    /// See [`Error::ReadOnly`].
    ReadOnly,
    /// See [`Error::NoKeyspace`].
    NoKeyspace,
    /// See [`Error::Io`].
    Io,
}

/// Damage: a file that does not hold what was written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// The damaged file.
    pub path: PathBuf,
    /// Where in the file, in bytes from its start.
    pub offset: u64,
    /// What should be there, e.g. `"block checksum 0x1234abcd"`.
    pub expected: String,
    /// What was there.
    pub found: String,
}

impl Error {
    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::InvalidInput(_) => ErrorKind::InvalidInput,
            Error::Corruption(_) => ErrorKind::Corruption,
            Error::NoSpace { .. } => ErrorKind::NoSpace,
            Error::Poisoned { .. } => ErrorKind::Poisoned,
            Error::Closed => ErrorKind::Closed,
            Error::Locked { .. } => ErrorKind::Locked,
            Error::NoDatabase { .. } => ErrorKind::NoDatabase,
            Error::ReadOnly => ErrorKind::ReadOnly,
            Error::NoKeyspace(_) => ErrorKind::NoKeyspace,
            Error::Io { .. } => ErrorKind::Io,
        }
    }

    /// Bad input, with a sentence that says what would be accepted.
    pub(crate) fn invalid_input(message: impl Into<String>) -> Self {
        Error::InvalidInput(Arc::from(message.into()))
    }

    /// Damage at `offset` of `path`.
    pub(crate) fn corruption(path: &Path, offset: u64, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Error::Corruption(Arc::new(Corruption {
            path: path.to_path_buf(),
            offset,
            expected: expected.into(),
            found: found.into(),
        }))
    }

    /// An answer of the operating system; a full disk or quota becomes [`Error::NoSpace`].
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Error::NoSpace { path: Arc::from(path) };
        }
        Error::Io { operation, path: Arc::from(path), source: Arc::new(source) }
    }

    /// This error as told to writes that come after it.
    pub(crate) fn poisoned(self) -> Self {
        match self {
            Error::Poisoned { .. } => self,
            cause => Error::Poisoned { cause: Arc::new(cause) },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidInput(message) => f.write_str(message),
            Error::Corruption(damage) => write!(
                f,
                "{} is damaged at offset {}: expected {}, found {}",
                damage.path.display(),
                damage.offset,
                damage.expected,
                damage.found
            ),
            Error::NoSpace { path } => {
                write!(f, "no space left on the disk while writing {}", path.display())
            }
            Error::Poisoned { cause } => {
                write!(f, "writes are refused until the database is opened again, because: {cause}")
            }
            Error::Closed => f.write_str("the database is closed"),
            Error::Locked { path } => {
                write!(f, "the database is in use by another process ({} is locked)", path.display())
            }
            Error::NoDatabase { path } => write!(f, "there is no database in {}", path.display()),
            Error::ReadOnly => f.write_str("the database was opened read-only"),
            Error::NoKeyspace(name) => write!(f, "there is no keyspace named {name:?}"),
            Error::Io { operation, path, source } => {
                write!(f, "cannot {operation} {}: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source.as_ref()),
            Error::Poisoned { cause } => Some(cause.as_ref()),
            _ => None,
        }
    }
}
