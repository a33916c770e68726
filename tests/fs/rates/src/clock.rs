//! Times a phase, and counts the processor time of this process and of the server.

use std::fs;
use std::io;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::phase::{Load, Phase};

/// What a phase took.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Rate {
    pub(crate) phase: String,
    pub(crate) threads: usize,
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    /// Processor time of this process, in seconds. In a file system of the kernel it is the file system's too.
    pub(crate) client_cpu_seconds: f64,
    /// Processor time of the process that serves the file system.
    pub(crate) server_cpu_seconds: Option<f64>,
}

impl Rate {
    pub(crate) fn per_second(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// Microseconds of processor time an operation takes: the client's, the server's.
    pub(crate) fn cpu_us(&self) -> (f64, Option<f64>) {
        let each = |seconds: f64| seconds * 1e6 / self.operations as f64;
        (each(self.client_cpu_seconds), self.server_cpu_seconds.map(each))
    }
}

/// Runs a phase.
pub(crate) fn measure(load: &Load, phase: Phase, server: Option<u32>) -> io::Result<Rate> {
    load.prepare(phase)?;
    let client_before = cpu_seconds("self")?;
    let server_before = server.map(|pid| cpu_seconds(&pid.to_string())).transpose()?;
    let begin = Instant::now();
    let operations = load.run(phase)?;
    let seconds = begin.elapsed().as_secs_f64();
    let server_after = server.map(|pid| cpu_seconds(&pid.to_string())).transpose()?;
    Ok(Rate {
        phase: phase.name(),
        threads: load.threads,
        operations,
        seconds,
        client_cpu_seconds: cpu_seconds("self")? - client_before,
        server_cpu_seconds: server_after.zip(server_before).map(|(after, before)| after - before),
    })
}

/// The processor time of a process, in steps of a tick. Includes its threads that have ended.
fn cpu_seconds(pid: &str) -> io::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the command's name, which may contain anything: user time is the 12th field, system time the 13th.
    let (_, fields) = text.rsplit_once(')').ok_or_else(|| io::Error::other("a process without a name"))?;
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
