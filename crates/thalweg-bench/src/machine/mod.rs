//! The cost of a run to the machine: CPU, memory, I/O; and a description of the machine.
//!
//! - `cpu`, `memory`, `io`, `device`: one kind of counter each
//! - `probe`: readings of all of them, and their differences
//! - `faults`: page faults of a thread
//! - `space`: bytes of a directory
//! - `sampler`: memory and I/O over time
//! - `group`: a memory control group for a worker
//! - `warm`: brings memory into the state of a machine that has run for a while
//! - `describe`: the machine's name, memory and file system
//! - `limits`: the limits of this machine that no engine can beat

mod cpu;
mod describe;
mod device;
mod faults;
mod group;
mod io;
mod limits;
mod memory;
mod probe;
mod sampler;
mod space;
mod warm;

pub use describe::{describe, read_ahead_note};
pub use faults::of_this_thread as faults_of_this_thread;
pub use group::Group;
pub use io::strangers_note;
pub use limits::{Limits, Measure, Times};
pub use memory::usage as memory_usage;
pub use probe::Probe;
pub use sampler::Sampler;
pub use space::allocated;
pub use warm::{Warmth, warm};

/// The share of all processors' time, in percent, above which other processes disturb a run too much for its latencies
/// to count. Above it P99 moved by factors on a two-processor machine while CPU per operation stayed within 10 %.
pub const FOREIGN_PERCENT_MAX: f64 = 5.0;

/// Converts a failure to read `/proc` to this crate's error.
fn refused(what: &str, error: procfs::ProcError) -> crate::Error {
    match error {
        procfs::ProcError::Io(source, _) => crate::Error::io(what, source),
        other => crate::Error::Said(format!("cannot {what}: {other}")),
    }
}
