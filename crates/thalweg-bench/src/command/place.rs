//! [`Place`]: a directory of a run's own below one that the user named; nothing else there is touched.

use crate::error::{Error, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The directory of one invocation; removed when dropped, unless it is kept.
pub struct Place {
    path: PathBuf,
    keep: bool,
}

impl Place {
    /// Makes it in `parent`, an existing directory; `None`: the system's for temporary files.
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
            Err(error) => return Err(Error::io(format!("look at {}", parent.display()), error)),
        };
        let process = std::process::id();
        for number in 0.. {
            let name = if number == 0 { process.to_string() } else { format!("{process}-{number}") };
            let path = parent.join(format!("thalweg-bench-{name}"));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Place { path, keep }),
                // Left by an earlier process with this number, whose databases were kept.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 1000 => {}
                Err(error) => return Err(Error::io(format!("make a directory in {}", parent.display()), error)),
            }
        }
        Err(Error::Said(format!("there is no name left for a directory in {}", parent.display())))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An empty directory for one round of one engine.
    pub fn room(&self, engine: &str, round: u32) -> Result<Room> {
        let path = self.path.join(format!("{engine}-{round}"));
        std::fs::create_dir(&path).map_err(|error| Error::io(format!("make {}", path.display()), error))?;
        Ok(Room { path, keep: self.keep })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed is left to the user, who cannot be told any better than by finding it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// The directory of one round of one engine; removed when dropped, unless it is kept.
pub struct Room {
    path: PathBuf,
    keep: bool,
}

impl Room {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_removed_with_its_rooms_and_nothing_else() {
        let parent = std::env::temp_dir().join(format!("thalweg-bench-place-{}", std::process::id()));
        std::fs::create_dir_all(&parent).unwrap();
        std::fs::write(parent.join("letter"), "dear").unwrap();
        let kept = {
            let kept = Place::create(Some(&parent), true).unwrap();
            kept.room("thalweg", 1).unwrap();
            kept.path().to_owned()
        };
        assert!(kept.join("thalweg-1").is_dir());
        let place = Place::create(Some(&parent), false).unwrap();
        assert_ne!(place.path(), kept);
        let room = place.room("thalweg", 1).unwrap();
        std::fs::write(room.path().join("table"), "data").unwrap();
        assert!(place.room("thalweg", 1).is_err(), "a room that is in use was given away");
        drop(room);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        drop(place);
        assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 2);
        std::fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn a_parent_that_is_not_there_is_not_made() {
        let parent = std::env::temp_dir().join(format!("thalweg-bench-no-place-{}", std::process::id()));
        assert!(matches!(Place::create(Some(&parent), false), Err(Error::Usage(_))));
        assert!(!parent.exists());
    }
}
