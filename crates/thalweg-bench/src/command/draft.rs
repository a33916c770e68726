//! [`Draft`]: a file that is opened before a long run and written at its end. A path that cannot be written is refused
//! before the run.
//!
//! Until `finish`, the draft lies beside its target under another name, and the earlier contents of the target stay
//! intact.

use crate::error::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The number of drafts left by other processes beside a target that [`Draft::open`] skips.
const DRAFTS_MAX: u32 = 100;

/// A file that is to be written.
pub struct Draft {
    target: PathBuf,
    /// The path of the draft until `finish`; `None`: the target is a pipe or a device, and is written directly.
    temporary: Option<PathBuf>,
    file: File,
}

impl Draft {
    /// Opens a draft of the file at `path`.
    ///
    /// # Errors
    /// `Usage` for a path that cannot be written; `Io` for a system that cannot, such as a full disk.
    pub fn open(path: &Path) -> Result<Draft> {
        Draft::try_open(path).map_err(|error| Error::of_path(format!("write {}", path.display()), error))
    }

    fn try_open(path: &Path) -> io::Result<Draft> {
        // A pipe in `/dev/fd` cannot be written under another name.
        if path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(Draft { target: path.to_owned(), temporary: None, file });
        }
        // A symbolic link is resolved, so that `finish` replaces its target and not the link.
        let target = if path.exists() { path.canonicalize()? } else { path.to_owned() };
        if target.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        if target.exists() {
            // A file that may not be written is not to be replaced either.
            OpenOptions::new().append(true).open(&target)?;
        }
        let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
        // A killed process may have left a draft, and this process may have the same id.
        for number in 0..=DRAFTS_MAX {
            let temporary = target.with_file_name(format!(".{name}.{}-{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < DRAFTS_MAX => {}
                opened => return Ok(Draft { target, temporary: Some(temporary), file: opened? }),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Writes `text` to the draft and renames it to its target.
    pub fn finish(mut self, text: &str) -> Result<()> {
        let mut written = self.file.write_all(text.as_bytes());
        if let (Ok(()), Some(temporary)) = (&written, &self.temporary) {
            written = std::fs::rename(temporary, &self.target);
        }
        written.map_err(|error| Error::io(format!("write {}", self.target.display()), error))
    }
}

/// Returns the canonical form of `path`, whose last component need not exist; `None`: the path cannot be resolved.
pub fn place(path: &Path) -> Option<PathBuf> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    path.canonicalize().ok().or_else(|| Some(parent.canonicalize().ok()?.join(path.file_name()?)))
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // After a successful `finish` there is no draft to remove.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let directory = std::env::temp_dir().join(format!("thalweg-bench-draft-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("run.json");
        std::fs::write(&path, "old").unwrap();
        assert_eq!(place(&directory.join("./run.json")), place(&path));
        assert_ne!(place(&directory.join("run.html")), place(&path));
        drop(Draft::open(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        Draft::open(&path).unwrap().finish("new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_path_that_cannot_be_written_is_refused_at_once() {
        let missing = std::env::temp_dir().join("thalweg-bench-no-such-directory").join("run.json");
        let refused = Draft::open(&missing).err().unwrap();
        assert!(matches!(refused, Error::Usage(_)), "the path is wrong, nothing failed");
        let refused = refused.to_string();
        assert!(refused.starts_with("cannot write ") && refused.contains("run.json"), "{refused}");
        assert!(Draft::open(&std::env::temp_dir()).is_err(), "a directory was taken for a file");
        Draft::open(Path::new("/dev/null")).unwrap().finish("gone").unwrap();
    }
}
