//! Errors of the engine: values that name what failed, where, and what to do about it.
//!
//! Every fallible call returns [`Result`]. An [`Error`] distinguishes bad input, damage, a newer format, a full disk,
//! and a poisoned or closed database; [`Error::kind`] gives the class to match on. Damage names file, offset, expected
//! and found.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of every fallible call of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the engine. It is cheap to clone, so that all callers that wait for one operation get its failure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The caller's input was refused; nothing was changed.
    InvalidInput(Arc<str>),
    /// The thing to create exists already: a keyspace of that name, or files at the place of a checkpoint. It has a
    /// sentence that names the thing; nothing was changed.
    AlreadyExists(Arc<str>),
    /// A file does not have the bytes that were written to it.
    Corruption(Arc<Corruption>),
    /// A newer version of this program made the file. The file is sound, and nothing was changed: open the database
    /// with that version. No [`DamagePolicy`](crate::DamagePolicy) skips such a file.
    NewerVersion {
        /// The file.
        path: Arc<Path>,
        /// The version of the file's format. It is `supported + 1` where only a part of the file shows that it is
        /// newer, such as an unknown kind of record.
        found: u32,
        /// The newest version of that format that this program reads.
        supported: u32,
    },
    /// The disk or quota is full. This call wrote nothing; it may be retried when there is space.
    NoSpace {
        /// The file that could not grow.
        path: Arc<Path>,
    },
    /// An open for reading needs more memory than it may take, because it keeps all records of the log that no table
    /// has. Open the database for writing once: that makes tables of them. Nothing was changed.
    NotEnoughMemory {
        /// The directory of the database.
        path: Arc<Path>,
        /// The bytes that it needs, approximately.
        needed_bytes: u64,
        /// The bytes that it may take: [`crate::Builder::memory_budget`], or the memory that the process may have.
        allowed_bytes: u64,
    },
    /// An earlier write to the log or manifest, or a sync, failed. Reads work; every write gets this error until the
    /// database is opened again.
    Poisoned {
        /// The first failure.
        cause: Arc<Error>,
    },
    /// The database was closed.
    Closed,
    /// The database is open elsewhere.
    Locked {
        /// The lock file.
        path: Arc<Path>,
        /// The holder of the lock, as far as that is known.
        holder: LockHolder,
    },
    /// There is no database at this path, and the open must not create one.
    NoDatabase {
        /// The directory of the database.
        path: Arc<Path>,
    },
    /// The keyspace does not exist or was dropped.
    NoKeyspace(Arc<str>),
    /// An invariant of the engine does not hold: a bug of the engine, not of its caller or of the disk. If it is found
    /// in the background, writes get it as the cause of [`Error::Poisoned`].
    Internal(Arc<str>),
    /// An operation of the operating system failed.
    Io {
        /// The operation: `"read"`, `"write"`, `"sync"`, …
        operation: &'static str,
        /// The file or directory.
        path: Arc<Path>,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
}

/// The holder of a database's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockHolder {
    /// This process, for writing or reading.
    ThisProcess,
    /// Another process, for writing: its id as that process sees it, which may differ in a container.
    Writer(u32),
    /// Other processes, for reading.
    Readers,
    /// Another process, for writing, whose id is not known.
    Unknown,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockHolder::ThisProcess => f.write_str("is open in this process already"),
            LockHolder::Writer(id) => write!(f, "is open for writing in process {id}"),
            LockHolder::Readers => f.write_str("is open for reading in another process"),
            LockHolder::Unknown => f.write_str("is open for writing in another process"),
        }
    }
}

/// The class of an [`Error`], for matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// See [`Error::InvalidInput`].
    InvalidInput,
    /// See [`Error::AlreadyExists`].
    AlreadyExists,
    /// See [`Error::Corruption`].
    Corruption,
    /// See [`Error::NewerVersion`].
    NewerVersion,
    /// See [`Error::NoSpace`].
    NoSpace,
    /// See [`Error::NotEnoughMemory`].
    NotEnoughMemory,
    /// See [`Error::Poisoned`].
    Poisoned,
    /// See [`Error::Closed`].
    Closed,
    /// See [`Error::Locked`].
    Locked,
    /// See [`Error::NoDatabase`].
    NoDatabase,
    /// See [`Error::NoKeyspace`].
    NoKeyspace,
    /// See [`Error::Internal`].
    Internal,
    /// See [`Error::Io`].
    Io,
}

/// Damage: a file does not have the bytes that were written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// The damaged file.
    pub path: PathBuf,
    /// The position in the file, in bytes from its start.
    pub offset: u64,
    /// The contents expected there, e.g. `"block checksum 0x1234abcd"`.
    pub expected: String,
    /// The contents found there.
    pub found: String,
}

impl Error {
    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::InvalidInput(_) => ErrorKind::InvalidInput,
            Error::AlreadyExists(_) => ErrorKind::AlreadyExists,
            Error::Corruption(_) => ErrorKind::Corruption,
            Error::NewerVersion { .. } => ErrorKind::NewerVersion,
            Error::NoSpace { .. } => ErrorKind::NoSpace,
            Error::NotEnoughMemory { .. } => ErrorKind::NotEnoughMemory,
            Error::Poisoned { .. } => ErrorKind::Poisoned,
            Error::Closed => ErrorKind::Closed,
            Error::Locked { .. } => ErrorKind::Locked,
            Error::NoDatabase { .. } => ErrorKind::NoDatabase,
            Error::NoKeyspace(_) => ErrorKind::NoKeyspace,
            Error::Internal(_) => ErrorKind::Internal,
            Error::Io { .. } => ErrorKind::Io,
        }
    }

    /// Bad input, with a sentence that says what is accepted.
    pub(crate) fn invalid_input(message: impl Into<String>) -> Self {
        Error::InvalidInput(Arc::from(message.into()))
    }

    /// A name that exists, with a sentence that names it and says what to do.
    pub(crate) fn already_exists(message: impl Into<String>) -> Self {
        Error::AlreadyExists(Arc::from(message.into()))
    }

    /// A broken invariant of the engine, in words.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Error::Internal(Arc::from(message.into()))
    }

    /// A file of version `found` of its format, where this program reads up to `supported`.
    pub(crate) fn newer_version(path: &Path, found: u32, supported: u32) -> Self {
        Error::NewerVersion { path: Arc::from(path), found, supported }
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

    /// An error of the operating system; a full disk or quota becomes [`Error::NoSpace`].
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Error::NoSpace { path: Arc::from(path) };
        }
        Error::Io { operation, path: Arc::from(path), source: Arc::new(source) }
    }

    /// Whether the device failed to read data.
    pub(crate) fn is_unreadable(&self) -> bool {
        // EIO.
        matches!(self, Error::Io { source, .. } if source.raw_os_error() == Some(5))
    }

    /// Whether there was no such file or directory.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the process or the system had no file descriptor left. The file was not opened, nothing else happened,
    /// and a later call may succeed.
    pub(crate) fn is_shortage(&self) -> bool {
        // EMFILE, ENFILE.
        let is_short = |source: &io::Error| matches!(source.raw_os_error(), Some(23 | 24));
        matches!(self, Error::Io { source, .. } if is_short(source))
    }

    /// The error that later writes get because of this one.
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
            Error::InvalidInput(message) | Error::AlreadyExists(message) => f.write_str(message),
            Error::NewerVersion { path, found, supported } => write!(
                f,
                "{} was made by a newer version of thalweg: its format is version {found}, and this program reads up \
                 to version {supported}; open the database with that newer version",
                path.display()
            ),
            Error::Internal(what) => {
                write!(f, "an invariant of the engine is broken: {what}; this is a bug of thalweg, please report it")
            }
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
            Error::NotEnoughMemory { path, needed_bytes, allowed_bytes } => write!(
                f,
                "to read {} takes about {needed_bytes} bytes of memory for what its log has and no table, and it may \
                 take {allowed_bytes}; open the database for writing once, which makes tables of it, or allow more \
                 (memory_budget)",
                path.display()
            ),
            Error::Poisoned { cause } => {
                write!(f, "writes are refused until the database is opened again, because: {cause}")
            }
            Error::Closed => f.write_str("the database is closed"),
            Error::Locked { path, holder } => write!(f, "the database {holder} ({} is locked)", path.display()),
            Error::NoDatabase { path } => write!(f, "there is no database in {}", path.display()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_version_says_what_to_do_and_is_no_damage() {
        let error = Error::newer_version(Path::new("/d/CURRENT"), 2, 1);
        assert_eq!(error.kind(), ErrorKind::NewerVersion);
        let text = error.to_string();
        assert!(text.starts_with("/d/CURRENT was made by a newer version of thalweg"), "{text}");
        assert!(text.contains("version 2") && text.contains("up to version 1"), "{text}");
        assert!(text.ends_with("open the database with that newer version") && !text.contains("damage"), "{text}");
    }

    #[test]
    fn a_broken_invariant_is_the_engines_fault() {
        let error = Error::internal("two and two make five").poisoned();
        assert_eq!(error.kind(), ErrorKind::Poisoned);
        assert!(matches!(&error, Error::Poisoned { cause } if cause.kind() == ErrorKind::Internal));
        assert!(error.to_string().contains("is broken: two and two make five; this is a bug of thalweg"), "{error}");
    }
}
