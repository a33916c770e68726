//! Warming: brings memory into the state of a machine that has run for a while.
//!
//! In a guest whose free pages go back to the host, the first touch of a page costs several times as much as the second
//! (measured: 8 to 10 µs against 2). A control group that is not full gives pages away without reclaiming any. Both
//! make the first minutes of a run unlike the rest.

use super::{memory, sampler};
use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

const PAGE_BYTES: usize = 4096;
const MEMORY_BYTES_MAX: u64 = 2 << 30;
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes after which dirty pages are synced: dirty pages cannot be dropped, and would fill the group.
const SYNC_BYTES: u64 = 32 << 20;

/// The file whose pages keep a control group full. It is deleted on drop.
#[derive(Debug, Default)]
pub struct Warmth {
    file: Option<PathBuf>,
}

impl Drop for Warmth {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // If this fails, the removal of the directory removes it.
            let _ = fs::remove_file(file);
        }
    }
}

/// Brings memory into the state of a machine that has run for a while. Without a limit, touches memory: the smaller of
/// 2 GiB and a quarter of the available memory, in the machine and in the control group of this process. With a limit,
/// fills the control group with the clean page cache of `file`, which lies in the database's file system and is kept
/// until the value is dropped. Later pages then come from reclaim, as they do in a full machine.
///
/// # Errors
/// The file cannot be written; `/proc` cannot be read.
pub fn warm(file: &Path, limit: Option<u64>) -> Result<Warmth> {
    if let Some(bytes) = limit {
        let warmth = Warmth { file: Some(file.to_path_buf()) };
        fill(file, bytes)
            .map_err(|error| Error::io(format!("warm with {bytes} bytes in {}", file.display()), error))?;
        return Ok(warmth);
    }
    let (_, of_machine) = memory::of_machine()?;
    let available = sampler::left_in_group().map_or(of_machine, |left| left.min(of_machine));
    touch((available / 4).min(MEMORY_BYTES_MAX));
    Ok(Warmth::default())
}

/// Writes to each page of `bytes` bytes of memory, then frees them.
fn touch(bytes: u64) {
    let mut memory: Vec<u8> = Vec::new();
    // If there is less memory, there is nothing to warm, and this is no failure.
    if memory.try_reserve_exact(usize::try_from(bytes).unwrap_or(0)).is_err() {
        return;
    }
    for page in memory.spare_capacity_mut().chunks_mut(PAGE_BYTES) {
        page[0].write(1);
    }
    std::hint::black_box(&mut memory);
}

fn fill(path: &Path, bytes: u64) -> std::io::Result<()> {
    let chunk = vec![0x5a; CHUNK_BYTES];
    let mut file = File::create(path)?;
    let (mut written, mut synced) = (0, 0);
    while written < bytes {
        let size = usize::try_from(bytes - written).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        file.write_all(&chunk[..size])?;
        written += size as u64;
        if written - synced >= SYNC_BYTES || written == bytes {
            file.sync_data()?;
            synced = written;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_filled_with_a_file_that_goes_with_the_value() {
        let path = std::env::temp_dir().join(format!("thalweg-bench-warm-{}", std::process::id()));
        let warmth = warm(&path, Some((3 << 20) + 5)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), (3 << 20) + 5);
        drop(warmth);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let error = warm(Path::new("/proc/no such directory/warm"), Some(1)).unwrap_err().to_string();
        assert!(error.contains("/proc/no such directory/warm"), "{error}");
    }
}
