//! Memory of this process, and of the machine.

use super::refused;
use crate::error::{Error, Result};
use crate::report::Memory;
use procfs::process::Process;
use procfs::{Current, Meminfo};
use std::fs;

/// The resident memory: its current size, and its peak since the last `reset_peak` or the start of the program.
pub fn usage() -> Result<Memory> {
    let status = Process::myself().and_then(|process| process.status());
    let status = status.map_err(|error| refused("read /proc/self/status", error))?;
    let bytes = |kib: Option<u64>| kib.unwrap_or(0) * 1024;
    Ok(Memory { rss_bytes: bytes(status.vmrss), peak_bytes: bytes(status.vmhwm), mapped_bytes: bytes(status.rssfile) })
}

/// Resets the peak to the memory that is resident now: "5" in proc(5), `/proc/…/clear_refs`.
pub fn reset_peak() -> Result<()> {
    let path = "/proc/self/clear_refs";
    fs::write(path, "5").map_err(|error| Error::io(format!("write {path}"), error))
}

/// Bytes of memory in the machine, and bytes that are available without swapping.
pub fn of_machine() -> Result<(u64, u64)> {
    let memory = Meminfo::current().map_err(|error| refused("read /proc/meminfo", error))?;
    Ok((memory.mem_total, memory.mem_available.unwrap_or(memory.mem_free)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_at_least_what_is_resident() {
        let memory = usage().unwrap();
        assert!(memory.rss_bytes > 0);
        assert!(memory.peak_bytes >= memory.rss_bytes / 2, "{memory:?}");
    }

    #[test]
    fn no_more_is_available_than_there_is() {
        let (all, available) = of_machine().unwrap();
        assert!(available > 0 && available <= all, "{available} of {all}");
    }
}
