//! What went wrong, as one line on standard error that also says what to do, and an exit code.

use crate::escape::escape;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use thalweg::Error;

/// Why a command did not end well.
#[derive(Debug)]
pub enum Failure {
    /// The engine's answer.
    Engine(Error),
    /// A sentence; exit code 1.
    Said(String),
    /// A sentence about how the command was called; exit code 2.
    Usage(String),
    /// Whoever read the output went away: nothing is said.
    OutputClosed,
    /// Everything is said already; the exit code.
    Exit(u8),
}

impl Failure {
    /// A failure of the file system met by the command itself.
    pub fn io(operation: &str, name: &str, error: &io::Error) -> Failure {
        Failure::Said(format!("cannot {operation} {name}: {error}; {}", io_advice(error)))
    }

    /// Says it, on standard error, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        let text = self.to_string();
        if !text.is_empty() {
            say(&text);
        }
        ExitCode::from(match self {
            Failure::Engine(_) | Failure::Said(_) => 1,
            Failure::Usage(_) => 2,
            Failure::OutputClosed => 141,
            Failure::Exit(code) => *code,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Engine(error) => match advice(error) {
                Some(advice) => write!(f, "{error}; {advice}"),
                None => write!(f, "{error}"),
            },
            Failure::Said(text) | Failure::Usage(text) => f.write_str(text),
            Failure::OutputClosed | Failure::Exit(_) => Ok(()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

/// An error of writing the output: the only plain `io::Error` that commands pass on with `?`.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::io("write", "the output", &error),
        }
    }
}

/// One line on standard error. That it cannot be written is no reason to fail.
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
    /// As standard output and `NO_COLOR` want it.
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

fn advice(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Corruption(damage) if is_log_or_manifest(&damage.path) => {
            "`thalweg check DB` lists the damage; `--damage point-in-time` opens with what was written before it, \
             where the end of log or manifest is all that is lost; else restore the file, or a checkpoint"
        }
        Error::Corruption(_) => {
            "`thalweg check DB` lists the damage; restore the file from a copy, or the database from a checkpoint"
        }
        Error::NoSpace { .. } => "make room on the disk and run the command again",
        Error::Poisoned { .. } => "mend the disk, then run the command again",
        Error::Locked { .. } => "close the other process, or wait until it ends",
        Error::NoDatabase { .. } => "check the path, or create one with `thalweg import DB FILE`",
        Error::NoKeyspace(_) => "`thalweg keyspaces DB` lists those there are",
        Error::Io { source, .. } => io_advice(source),
        _ => return None,
    })
}

fn is_log_or_manifest(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.ends_with(".log") || name.starts_with("manifest-") || name == "log"
}

/// What may help.
pub fn io_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => "check the path",
        io::ErrorKind::IsADirectory => "name a file in it",
        io::ErrorKind::PermissionDenied => "`ls -l` shows whose it is and what you may do with it",
        io::ErrorKind::ReadOnlyFilesystem => "the file system is mounted read-only",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room and run the command again",
        _ => "the system's log (`dmesg`) may say more",
    }
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
        let locked = Error::Locked { path: Arc::from(Path::new("/tmp/x/LOCK")) };
        assert!(Failure::from(locked).to_string().contains("close the other process"));
    }

    #[test]
    fn a_closed_pipe_is_silent() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(failure, Failure::OutputClosed));
        assert_eq!(failure.to_string(), "");
    }

    #[test]
    fn a_failure_of_the_system_names_what_and_advises() {
        let text = Failure::io("read", "x.tsv", &io::Error::from(io::ErrorKind::NotFound)).to_string();
        assert!(text.starts_with("cannot read x.tsv: ") && text.ends_with("; check the path"), "{text}");
    }
}
