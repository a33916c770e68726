//! [`Failure`]: one line on standard error that says what went wrong and what to do, and an exit code.
//!
//! Exit codes: 1 for a missing key, keyspace or database; 2 for wrong usage; 3 for every other failure, and for faults
//! that `check` finds.

use crate::escape::escape;
use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use thalweg::Error;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// An error of the engine.
    Engine(Error),
    /// A sentence about something that failed; exit code 3.
    Said(String),
    /// A sentence about a missing key, keyspace or database; exit code 1.
    NotThere(String),
    /// A sentence about wrong usage; exit code 2.
    Usage(String),
    /// The reader of the output is gone: nothing is printed.
    OutputClosed,
    /// The exit code of a failure that is already reported.
    Exit(u8),
}

/// The exit code for a missing key, keyspace or database.
pub const NOT_THERE: u8 = 1;
/// The exit code for wrong usage.
pub const MISUSE: u8 = 2;
/// The exit code of every other failure.
pub const FAILED: u8 = 3;

impl Failure {
    /// Returns the failure of an operation of the command on a file.
    pub fn io(operation: &str, name: &str, error: &io::Error) -> Failure {
        let text = format!("cannot {operation} {name}: {error}");
        Failure::Said(advised(&text, io_advice(Path::new(name), error).as_deref()))
    }

    /// Prints the failure on standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        let text = self.to_string();
        if !text.is_empty() {
            say(&text);
        }
        ExitCode::from(match self {
            Failure::Engine(error) => code_of(error),
            Failure::Said(_) => FAILED,
            Failure::NotThere(_) => NOT_THERE,
            Failure::Usage(_) => MISUSE,
            Failure::OutputClosed => 141,
            Failure::Exit(code) => *code,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Engine(error) => f.write_str(&advised(&error.to_string(), advice(error).as_deref())),
            Failure::Said(text) | Failure::NotThere(text) | Failure::Usage(text) => f.write_str(text),
            Failure::OutputClosed | Failure::Exit(_) => Ok(()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

/// Converts an error of the output, the only plain `io::Error` that commands pass on with `?`.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::io("write", "the output", &error),
        }
    }
}

/// Prints a line on standard error. An error there is ignored.
pub fn say(text: &str) {
    let line = escape(text.as_bytes());
    let _ = writeln!(io::stderr(), "thalweg: {}", line.replace("\\\\", "\\"));
}

/// Colours for a terminal, empty strings for anything else.
pub struct Paint {
    pub strong: &'static str,
    pub bad: &'static str,
    pub good: &'static str,
    pub end: &'static str,
}

impl Paint {
    /// Returns colours if standard output is a terminal and `NO_COLOR` is not set.
    pub fn for_output() -> Paint {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if io::stdout().is_terminal() && !unwanted {
            Paint { strong: "\x1b[1m", bad: "\x1b[31m", good: "\x1b[32m", end: "\x1b[0m" }
        } else {
            Paint::NONE
        }
    }

    /// No colours.
    pub const NONE: Paint = Paint { strong: "", bad: "", good: "", end: "" };
}

fn advised(text: &str, advice: Option<&str>) -> String {
    advice.map_or_else(|| text.to_owned(), |advice| format!("{text}; {advice}"))
}

fn code_of(error: &Error) -> u8 {
    match error {
        Error::NoDatabase { .. } | Error::NoKeyspace(_) => NOT_THERE,
        Error::InvalidInput(_) => MISUSE,
        _ => FAILED,
    }
}

fn advice(error: &Error) -> Option<Cow<'static, str>> {
    Some(Cow::Borrowed(match error {
        Error::Corruption(damage) if is_log_or_manifest(&damage.path) => {
            "`thalweg check DB` lists the damage; `--damage point-in-time` opens with what was written before it, \
             where the end of log or manifest is all that is lost; else restore the file, or a checkpoint"
        }
        Error::Corruption(damage) if damage.path.ends_with("OWNER") => {
            "put the directory of the fast tier back, or name its new path: `--fast-tier DIR`"
        }
        Error::Corruption(_) => {
            "`thalweg check DB` lists the damage; restore the file from a copy, or the database from a checkpoint"
        }
        Error::NoSpace { .. } => "make room on the disk and run the command again",
        Error::Poisoned { cause } => return advice(cause).or(Some("mend that, then run the command again".into())),
        Error::Locked { .. } => "wait until it ends, or end it; `thalweg stat DB` answers beside it",
        Error::NoDatabase { .. } => "check the path, or create one with `thalweg import DB FILE`",
        Error::NoKeyspace(_) => "`thalweg keyspaces DB` lists those there are",
        Error::Io { path, source, .. } => return io_advice(path, source),
        _ => return None,
    }))
}

fn is_log_or_manifest(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.ends_with(".log") || name.starts_with("manifest-") || name == "log"
}

// Error numbers of the system without a stable `io::ErrorKind`.
const EIO: i32 = 5;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ELOOP: i32 = 40;

/// Returns advice on an error of the system at `path`. `None`: the error itself says enough.
pub fn io_advice(path: &Path, error: &io::Error) -> Option<Cow<'static, str>> {
    let by_number = match error.raw_os_error() {
        Some(EIO) => Some("the system's log (`dmesg`) says what the disk answered"),
        Some(EMFILE) => Some("this process may open too few files: raise `ulimit -n`"),
        Some(ENFILE) => Some("all processes together have too many files open: raise `sysctl fs.file-max`"),
        Some(ELOOP) => Some("symbolic links lead in a circle: `namei PATH` shows them"),
        _ => None,
    };
    if by_number.is_some() {
        return by_number.map(Cow::Borrowed);
    }
    Some(Cow::Borrowed(match error.kind() {
        io::ErrorKind::NotFound => return Some(dangling(path).map_or("check the path".into(), Cow::Owned)),
        io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => "check the path",
        io::ErrorKind::IsADirectory => "name a file in it",
        io::ErrorKind::PermissionDenied => "`ls -l` shows whose it is and what you may do with it",
        io::ErrorKind::ReadOnlyFilesystem => "the file system is mounted read-only",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room and run the command again",
        _ => return None,
    }))
}

/// Describes a symbolic link whose target is missing. `None`: `path` is no such link.
pub fn dangling(path: &Path) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    let is_missing = fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    is_missing.then(|| format!("it is a symbolic link to {}, which is not there", target.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_error_of_the_engine_comes_with_advice() {
        let error = Error::NoDatabase { path: Arc::from(Path::new("/tmp/x")) };
        let text = Failure::from(error).to_string();
        assert!(text.contains("no database in /tmp/x; check the path, or create one with `thalweg import"), "{text}");
        let locked = Error::Locked { path: Arc::from(Path::new("/tmp/x/LOCK")), holder: thalweg::LockHolder::Readers };
        assert!(Failure::from(locked).to_string().contains("wait until it ends"));
    }

    #[test]
    fn no_advice_drops_what_a_newer_program_wrote() {
        for name in ["CURRENT", "manifest-00000001", "log/00000000.log", "tables/0000000001.table"] {
            let path = Arc::from(Path::new("/tmp/x").join(name));
            let text = Failure::from(Error::NewerVersion { path, found: 2, supported: 1 }).to_string();
            assert!(text.ends_with("open the database with that newer version"), "{text}");
            assert!(!text.contains("damage"), "{text}");
        }
    }

    #[test]
    fn a_closed_pipe_is_silent() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(failure, Failure::OutputClosed));
        assert_eq!(failure.to_string(), "");
    }

    #[test]
    fn not_there_misuse_and_failure_are_told_apart() {
        let path: Arc<Path> = Arc::from(Path::new("/tmp/x"));
        assert_eq!(code_of(&Error::NoDatabase { path: Arc::clone(&path) }), 1);
        assert_eq!(code_of(&Error::NoKeyspace("k".into())), 1);
        assert_eq!(code_of(&Error::InvalidInput("a key has at least one byte".into())), 2);
        assert_eq!(code_of(&Error::NoSpace { path }), 3);
    }

    #[test]
    fn advice_fits_the_error() {
        let told = |number| io_advice(Path::new("/tmp/x"), &io::Error::from_raw_os_error(number));
        assert!(told(EIO).unwrap().contains("dmesg"));
        assert!(told(EMFILE).unwrap().contains("ulimit -n"));
        assert!(told(ELOOP).unwrap().contains("circle"));
        // EINVAL has no advice.
        assert_eq!(told(22), None);
    }

    #[test]
    fn a_failure_of_the_system_names_what_and_advises() {
        let text = Failure::io("read", "x.tsv", &io::Error::from(io::ErrorKind::NotFound)).to_string();
        assert!(text.starts_with("cannot read x.tsv: ") && text.ends_with("; check the path"), "{text}");
    }
}
