//! `/proc/self/io`: the kernel's counters for this process; and whether the device's counters agree.

use super::refused;
use crate::error::Result;
use crate::report::{ProcessIo, Usage};
use procfs::process::Process;

/// The counters since the process began.
pub fn counted() -> Result<ProcessIo> {
    let io = Process::myself().and_then(|process| process.io());
    let io = io.map_err(|error| refused("read /proc/self/io", error))?;
    Ok(ProcessIo {
        read_bytes: io.read_bytes,
        written_bytes: io.write_bytes,
        read_call_bytes: io.rchar,
        write_call_bytes: io.wchar,
        read_calls: io.syscr,
        write_calls: io.syscw,
    })
}

/// The counts since `earlier`.
pub fn since(now: &ProcessIo, earlier: &ProcessIo) -> ProcessIo {
    ProcessIo {
        read_bytes: now.read_bytes.saturating_sub(earlier.read_bytes),
        written_bytes: now.written_bytes.saturating_sub(earlier.written_bytes),
        read_call_bytes: now.read_call_bytes.saturating_sub(earlier.read_call_bytes),
        write_call_bytes: now.write_call_bytes.saturating_sub(earlier.write_call_bytes),
        read_calls: now.read_calls.saturating_sub(earlier.read_calls),
        write_calls: now.write_calls.saturating_sub(earlier.write_calls),
    }
}

/// The device's written bytes as a multiple of the process's; above it, other processes wrote to the device too.
const STRANGERS_SHARE: f64 = 1.1;
/// The bytes that a file system's journal and metadata may add to short runs.
const METADATA_BYTES: f64 = 16e6;

/// A note that other processes wrote to the device, if they did: then its figures are not the run's alone.
pub fn strangers_note(usage: &Usage) -> Option<String> {
    let (device, process) = (usage.io.device?.written_bytes as f64, usage.io.process.written_bytes as f64);
    (device > STRANGERS_SHARE * process + METADATA_BYTES)
        .then(|| "others wrote to the block device too: bytes written are not this engine's alone".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_call_is_counted() {
        let file = std::env::temp_dir().join(format!("thalweg-bench-io-{}", std::process::id()));
        let then = counted().unwrap();
        std::fs::write(&file, vec![1; 100_000]).unwrap();
        let io = since(&counted().unwrap(), &then);
        std::fs::remove_file(&file).unwrap();
        assert!(io.write_call_bytes >= 100_000 && io.write_calls >= 1, "{io:?}");
    }
}
