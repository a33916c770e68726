//! [`Error`]: an errno, and what is known beyond it.

use std::fmt;

/// The result of an operation of a volume.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation of a volume failed: the number that a system call would give, and the cause where there is more to
/// say than that.
#[derive(Debug)]
pub struct Error {
    errno: i32,
    cause: Option<Box<Cause>>,
}

/// The cause, which an errno does not tell.
#[derive(Debug)]
enum Cause {
    /// A row that is not what it must be.
    Damaged {
        row: String,
        what: String,
    },
    Store(thalweg::Error),
    Foreign(String),
}

impl Error {
    /// An error that its number describes completely, such as `libc::ENOENT`.
    pub const fn posix(errno: i32) -> Self {
        Error { errno, cause: None }
    }

    /// A row of the volume is damaged: `EIO`.
    pub fn damaged(row: impl Into<String>, what: impl Into<String>) -> Self {
        let cause = Cause::Damaged { row: row.into(), what: what.into() };
        Error { errno: libc::EIO, cause: Some(Box::new(cause)) }
    }

    /// An error of a store that is not Thalweg: `EIO`.
    pub fn of_store(what: impl Into<String>) -> Self {
        Error { errno: libc::EIO, cause: Some(Box::new(Cause::Foreign(what.into()))) }
    }

    /// A fault that a user must be told about in words, with the number that fits.
    pub fn explained(errno: i32, what: impl Into<String>) -> Self {
        Error { errno, cause: Some(Box::new(Cause::Foreign(what.into()))) }
    }

    /// Joins several errors into one: the number of the first, and the text of each once.
    pub(crate) fn of_all(mut errors: Vec<Error>) -> Option<Error> {
        if errors.len() <= 1 {
            return errors.pop();
        }
        let errno = errors.first().map_or(libc::EIO, Error::errno);
        let mut texts: Vec<String> = errors.iter().map(Error::to_string).collect();
        texts.dedup();
        Some(Error::explained(errno, texts.join("; ")))
    }

    /// The number that a system call gives for it.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// Whether something is broken, and not just refused. Such an error is worth a line in a log.
    pub fn is_fault(&self) -> bool {
        self.cause.is_some() && self.errno == libc::EIO
    }
}

impl From<thalweg::Error> for Error {
    fn from(error: thalweg::Error) -> Self {
        let errno = match error.kind() {
            thalweg::ErrorKind::NoSpace => libc::ENOSPC,
            thalweg::ErrorKind::Poisoned => libc::EROFS,
            _ => libc::EIO,
        };
        Error { errno, cause: Some(Box::new(Cause::Store(error))) }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error { errno: error.raw_os_error().unwrap_or(libc::EIO), cause: None }
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(error: rustix::io::Errno) -> Self {
        Error::posix(error.raw_os_error())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause.as_deref() {
            None => write!(f, "{}", std::io::Error::from_raw_os_error(self.errno)),
            Some(Cause::Damaged { row, what }) => write!(f, "damaged row {row}: {what}"),
            Some(Cause::Store(error)) => write!(f, "{error}"),
            Some(Cause::Foreign(what)) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.cause.as_deref() {
            Some(Cause::Store(error)) => Some(error),
            _ => None,
        }
    }
}

/// Shorthand for the many places that refuse.
pub(crate) fn refuse<T>(errno: i32) -> Result<T> {
    Err(Error::posix(errno))
}
