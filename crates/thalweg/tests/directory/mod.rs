//! A directory for one test.

use std::path::PathBuf;

/// A path under the system's directory for temporary files, removed at the end.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("thalweg-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
