//! [`Probe`]: readings of every counter at the start of a run, and what was used since.

use super::cpu::Reading;
use super::describe::device_of;
use super::device::{self, Device};
use super::{io, memory};
use crate::engine::{Counters, Engine};
use crate::error::Result;
use crate::report::{DeviceIo, Io, ProcessIo, Usage};
use std::collections::BTreeMap;
use std::path::Path;

/// Readings at the start of a run.
pub struct Probe {
    device: Option<Device>,
    note: Option<String>,
    process_io: ProcessIo,
    device_io: Option<DeviceIo>,
    counters: Counters,
    cpu: Reading,
}

impl Probe {
    /// Reads every counter, and resets the process's peak of resident memory.
    ///
    /// # Errors
    /// The failure to read `/proc`.
    pub fn start(directory: &Path, engine: &dyn Engine) -> Result<Probe> {
        let device = device_of(directory);
        let reset = memory::reset_peak();
        let note = reset.err().map(|error| format!("the peak of memory counts from the process's start: {error}"));
        Ok(Probe {
            note,
            process_io: io::counted()?,
            device_io: device.as_ref().and_then(Device::counted),
            device,
            counters: engine.counters(),
            // Read last, so that reading the other counters costs the run nothing.
            cpu: Reading::now()?,
        })
    }

    /// A note of one sentence on a figure that could not be measured properly.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The usage since the start. May be called more than once.
    ///
    /// # Errors
    /// The failure to read `/proc`.
    pub fn usage(&self, engine: &dyn Engine) -> Result<Usage> {
        // Read first, so that reading the other counters costs the run nothing.
        let cpu = Reading::now()?;
        let device_io = self.device.as_ref().and_then(Device::counted);
        Ok(Usage {
            seconds: cpu.seconds_since(&self.cpu),
            cpu: cpu.since(&self.cpu, procfs::ticks_per_second()),
            memory: memory::usage()?,
            io: Io {
                process: io::since(&io::counted()?, &self.process_io),
                device: device_io.zip(self.device_io).map(|(now, then)| device::since(&now, &then)),
            },
            counters: engine.counters().since(&self.counters),
            // The gauges of one moment are no peaks: the caller fills in the peaks of its own readings.
            peaks: BTreeMap::new(),
            gauges: engine.gauges(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Null;

    #[test]
    fn the_second_usage_covers_the_first() {
        let probe = Probe::start(&std::env::temp_dir(), &Null).unwrap();
        let first = probe.usage(&Null).unwrap();
        let second = probe.usage(&Null).unwrap();
        assert!(second.seconds > first.seconds);
        assert!(second.io.process.read_calls > first.io.process.read_calls);
        assert!(first.memory.rss_bytes > 0);
    }
}
