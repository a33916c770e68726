//! [`TestDirectory`]: a directory for one test.

use std::fs;
use std::path::PathBuf;

/// A directory that one test has alone; its drop removes it.
pub(in crate::storage) struct TestDirectory(pub(in crate::storage) PathBuf);

impl TestDirectory {
    pub(in crate::storage) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("thalweg-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        TestDirectory(path)
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
