//! [`Place`]: a run's own directory, below one that the user named. The run touches nothing else there.
//!
//! A run removes its directory at the end, also when a signal ends it. The directory of a killed run is removed by the
//! next run in the same place. That run recognises the directory by its name, its owner and the file `running` in it. A
//! live run holds a lock (`flock`) on this file; the kernel releases the lock when the process ends, for whatever
//! reason. A directory that is to be kept has no such file.

use crate::error::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The prefix of the name of each directory; the process id follows.
const PREFIX: &str = "thalweg-bench-";
/// The name of the file that a live run holds locked.
const RUNNING: &str = "running";

/// The directory of one invocation; removed when dropped, unless it is kept.
pub struct Place {
    path: PathBuf,
    keep: bool,
    /// The locked file `running`; `None`: the directory is to be kept.
    _running: Option<File>,
}

impl Place {
    /// Creates the directory in `parent`, an existing directory; `None`: in the system's directory for temporary files.
    /// Removes the directories that killed runs have left in `parent`.
    ///
    /// # Errors
    /// `Usage` for a parent that does not exist or may not be written; `Io`.
    pub fn create(parent: Option<&Path>, keep: bool) -> Result<Place> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        // The worker may see other working directories than this process; a symbolic link would hide the file system.
        let parent = match parent.canonicalize() {
            Ok(found) if found.is_dir() => found,
            Ok(_) => return Err(Error::Usage(format!("{} is no directory; name one", parent.display()))),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::Usage(format!(
                    "there is no directory {}; make it, or name another",
                    parent.display()
                )));
            }
            Err(error) => return Err(Error::of_path(format!("look at {}", parent.display()), error)),
        };
        sweep(&parent);
        let process = std::process::id();
        for number in 0.. {
            let name = if number == 0 { process.to_string() } else { format!("{process}-{number}") };
            let path = parent.join(format!("{PREFIX}{name}"));
            match fs::create_dir(&path) {
                Ok(()) => return Place::mark(path, keep),
                // An earlier process with the same id kept this directory.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 1000 => {}
                Err(error) => return Err(Error::of_path(format!("make a directory in {}", parent.display()), error)),
            }
        }
        Err(Error::Said(format!("there is no name left for a directory in {}", parent.display())))
    }

    /// Marks the empty directory at `path` as one of a live run.
    fn mark(path: PathBuf, keep: bool) -> Result<Place> {
        let mut place = Place { path, keep, _running: None };
        if !keep {
            // The file is locked before it is renamed, so that no other process finds `running` unlocked.
            let (early, name) = (place.path.join(format!(".{RUNNING}")), place.path.join(RUNNING));
            let refused = |error: io::Error| Error::io(format!("make {}", name.display()), error);
            let file = File::create_new(&early).map_err(refused)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| refused(error.into()))?;
            fs::rename(&early, &name).map_err(refused)?;
            place._running = Some(file);
        }
        Ok(place)
    }

    /// The path of this directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates an empty directory for one round of one engine.
    pub fn room(&self, engine: &str, round: u32) -> Result<Room> {
        let path = self.path.join(format!("{engine}-{round}"));
        fs::create_dir(&path).map_err(|error| Error::io(format!("make {}", path.display()), error))?;
        Ok(Room { path, keep: self.keep })
    }
}

/// Removes the directories of killed runs in `parent`. A directory that cannot be removed stays for the next run.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX)) && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether `path` is a directory that an ended run of this user has not removed.
fn is_abandoned(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_own = |metadata: &fs::Metadata| metadata.uid() == own;
    let is_directory = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir() && is_own(&metadata));
    let marker = path.join(RUNNING);
    let is_marked = fs::symlink_metadata(&marker).is_ok_and(|metadata| metadata.is_file() && is_own(&metadata));
    // If the lock cannot be taken, a live run holds it.
    let free = |file: File| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    is_directory && is_marked && File::open(&marker).is_ok_and(free)
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep {
            // A directory that cannot be removed is left to the user.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The directory of one round of one engine; removed when dropped, unless it is kept.
pub struct Room {
    path: PathBuf,
    keep: bool,
}

impl Room {
    /// The path of this directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_removed_with_its_rooms_and_nothing_else() {
        let parent = std::env::temp_dir().join(format!("thalweg-bench-place-{}", std::process::id()));
        fs::create_dir_all(&parent).unwrap();
        fs::write(parent.join("letter"), "dear").unwrap();
        let kept = {
            let kept = Place::create(Some(&parent), true).unwrap();
            kept.room("thalweg", 1).unwrap();
            kept.path().to_owned()
        };
        assert!(kept.join("thalweg-1").is_dir());
        let place = Place::create(Some(&parent), false).unwrap();
        assert_ne!(place.path(), kept);
        let room = place.room("thalweg", 1).unwrap();
        fs::write(room.path().join("table"), "data").unwrap();
        assert!(place.room("thalweg", 1).is_err(), "a room that is in use was given away");
        drop(room);
        let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [RUNNING]);
        drop(place);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 2);
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn a_parent_that_is_not_there_is_not_made() {
        let parent = std::env::temp_dir().join(format!("thalweg-bench-no-place-{}", std::process::id()));
        assert!(matches!(Place::create(Some(&parent), false), Err(Error::Usage(_))));
        assert!(!parent.exists());
    }

    #[test]
    fn what_a_killed_run_left_goes_and_what_lives_or_is_kept_stays() {
        let parent = std::env::temp_dir().join(format!("thalweg-bench-sweep-{}", std::process::id()));
        let left = parent.join("thalweg-bench-4194305");
        let (unmarked, other) = (parent.join("thalweg-bench-7"), parent.join("mine"));
        for directory in [&left, &unmarked, &other] {
            fs::create_dir_all(directory.join("thalweg-1/database")).unwrap();
        }
        for marked in [&left, &other] {
            fs::write(marked.join(RUNNING), "").unwrap();
        }
        let living = Place::create(Some(&parent), false).unwrap();
        let kept = Place::create(Some(&parent), true).unwrap();
        let there = |path: &Path| path.exists();
        assert!(!there(&left), "its process is gone");
        assert!(there(&unmarked) && there(&other), "nothing says that they are a run's");
        let kept_path = kept.path().to_owned();
        drop(kept);
        drop(Place::create(Some(&parent), false).unwrap());
        assert!(there(living.path()) && there(&kept_path));
        drop(living);
        fs::remove_dir_all(&parent).unwrap();
    }
}
