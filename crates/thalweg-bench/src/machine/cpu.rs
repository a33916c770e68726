//! Processor time: of this process, of kernel threads, and of everything else.
//!
//! The process's own total is exact (`CLOCK_PROCESS_CPUTIME_ID`). Its division into user and system time, and the times
//! of all other processes, come in ticks of 10 ms. Kernel threads are visible only from the initial PID namespace: in a
//! container their time counts as foreign.

use super::refused;
use crate::error::{Error, Result};
use crate::report::Cpu;
use procfs::{CurrentSI, KernelStats};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// `PF_KTHREAD` of `include/linux/sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The clocks and tick counters at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    at: Instant,
    /// The time of this process, in nanoseconds: before and after the reading of the counters. The time of the reading
    /// itself is not the run's.
    own_ns: (u64, u64),
    /// The user time of this process, in ticks.
    user: u64,
    system: u64,
    /// The time of the parent process, in ticks: it draws the progress bar. With its start time, as the parent may
    /// change.
    parent: Option<(Thread, u64)>,
    /// The time of each kernel thread, in ticks.
    kernel: BTreeMap<Thread, u64>,
    /// The time of all processors, in ticks: user, nice and system time, and time stolen by the host.
    busy: u64,
    stolen: u64,
    processors: usize,
}

/// A process's number and its start time in ticks: the kernel reuses numbers.
type Thread = (u64, u64);

/// Processor time of this process so far.
fn own_ns() -> u64 {
    let clock = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(clock.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(clock.tv_nsec).unwrap_or(0)
}

/// The fields of `/proc/…/stat` that are of interest here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    flags: u64,
    user: u64,
    system: u64,
    started: u64,
}

impl Reading {
    /// Reads all clocks and counters.
    pub fn now() -> Result<Reading> {
        let before_ns = own_ns();
        let kernel = kernel_threads()?;
        let own = stat_of("self")?;
        let kernel_stats = KernelStats::current().map_err(|error| refused("read /proc/stat", error))?;
        let total = &kernel_stats.total;
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs().into());
        // The parent may have ended, or belong to a namespace that cannot be seen.
        let parent = parent.and_then(|pid: u64| {
            let stat = stat_of(&pid.to_string()).ok()?;
            Some(((pid, stat.started), stat.user + stat.system))
        });
        Ok(Reading {
            at: Instant::now(),
            own_ns: (before_ns, own_ns()),
            user: own.user,
            system: own.system,
            parent,
            kernel,
            busy: total.user + total.nice + total.system,
            stolen: total.steal.unwrap_or(0),
            processors: kernel_stats.cpu_time.len().max(1),
        })
    }

    /// Seconds from `earlier` to this one.
    pub fn seconds_since(&self, earlier: &Reading) -> f64 {
        (self.at - earlier.at).as_secs_f64()
    }

    /// The processor time used since `earlier`.
    pub fn since(&self, earlier: &Reading, ticks_per_second: u64) -> Cpu {
        let tick_seconds = 1.0 / ticks_per_second as f64;
        let own_seconds = self.own_ns.0.saturating_sub(earlier.own_ns.1) as f64 / 1e9;
        let user = self.user.saturating_sub(earlier.user) as f64;
        let system = self.system.saturating_sub(earlier.system) as f64;
        // Less than a tick counts as user time.
        let user_share = if user + system > 0.0 { user / (user + system) } else { 1.0 };
        let kernel: u64 = self.kernel.iter().map(|(thread, n)| grown(*n, earlier.kernel.get(thread).copied())).sum();
        let parent = match (&self.parent, &earlier.parent) {
            (Some((now, ticks)), Some((then, before))) if now == then => ticks.saturating_sub(*before),
            _ => 0,
        };
        let stolen = self.stolen.saturating_sub(earlier.stolen) as f64;
        let busy = self.busy.saturating_sub(earlier.busy) as f64;
        let known = own_seconds / tick_seconds + (kernel + parent) as f64;
        let foreign = (busy - known).max(0.0) + stolen;
        let all = self.seconds_since(earlier) / tick_seconds * self.processors as f64;
        // Ticks are coarse: in a short step they may add up to more than the elapsed time.
        let percent = |ticks: f64| if all > 0.0 { (ticks / all * 100.0).min(100.0) } else { 0.0 };
        Cpu {
            user_seconds: own_seconds * user_share,
            system_seconds: own_seconds * (1.0 - user_share),
            kernel_threads_seconds: kernel as f64 * tick_seconds,
            foreign_percent: percent(foreign),
            steal_percent: percent(stolen),
        }
    }
}

/// The growth of a counter; a new counter began at 0.
fn grown(now: u64, then: Option<u64>) -> u64 {
    now.saturating_sub(then.unwrap_or(0))
}

/// Reads the ticks of every visible kernel thread.
fn kernel_threads() -> Result<BTreeMap<Thread, u64>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").map_err(|error| Error::io("read /proc", error))? {
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok()) else { continue };
        // The thread may have ended since it was listed.
        let Ok(stat) = stat_of(&pid.to_string()) else { continue };
        if stat.flags & KERNEL_THREAD != 0 {
            found.insert((pid, stat.started), stat.user + stat.system);
        }
    }
    Ok(found)
}

fn stat_of(process: &str) -> Result<Stat> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).map_err(|error| Error::io(format!("read {path}"), error))?;
    parse(&text).ok_or_else(|| Error::Said(format!("cannot understand {path}: {text:?}")))
}

/// `pid (name) state …`: the name may hold anything, so the fields are counted from its last parenthesis on.
fn parse(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // proc(5) counts from 1 and the state is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat { flags: field(9)?, user: field(14)?, system: field(15)?, started: field(22)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn reading(at: Instant, own_ns: u64, busy: u64, stolen: u64) -> Reading {
        let parent = Some(((1, 1), 0));
        let (user, system) = (own_ns / 20_000_000, own_ns / 20_000_000);
        Reading {
            at,
            own_ns: (own_ns, own_ns),
            user,
            system,
            parent,
            kernel: BTreeMap::new(),
            busy,
            stolen,
            processors: 2,
        }
    }

    #[test]
    fn a_name_may_hold_parentheses_and_spaces() {
        let text = "7 (a) b (c) S 1 2 3 4 5 2097216 0 0 0 0 11 12 0 0 20 0 1 0 99 0 0";
        assert_eq!(parse(text), Some(Stat { flags: 2_097_216, user: 11, system: 12, started: 99 }));
        assert_eq!(parse("7 (a"), None);
        assert_eq!(parse("7 (a) S 1 2"), None);
    }

    #[test]
    fn foreign_is_what_neither_we_nor_the_kernel_nor_the_parent_used() {
        let start = Instant::now();
        let then = reading(start, 0, 1000, 10);
        // 10 s on two processors: 2000 ticks; 900 busy, of which 500 are ours, 50 kernel threads', 30 the parent's.
        let mut now = reading(start + Duration::from_secs(10), 5_000_000_000, 1900, 30);
        now.kernel.insert((2, 0), 50);
        now.parent = Some(((1, 1), 30));
        let cpu = now.since(&then, 100);
        assert!((cpu.user_seconds - 2.5).abs() < 1e-9, "{cpu:?}");
        assert!((cpu.system_seconds - 2.5).abs() < 1e-9, "{cpu:?}");
        assert!((cpu.kernel_threads_seconds - 0.5).abs() < 1e-9, "{cpu:?}");
        assert!((cpu.steal_percent - 1.0).abs() < 1e-9, "{cpu:?}");
        assert!((cpu.foreign_percent - 17.0).abs() < 1e-9, "{cpu:?}");
    }

    #[test]
    fn foreign_is_never_negative() {
        let start = Instant::now();
        let now = reading(start + Duration::from_secs(1), 2_000_000_000, 5, 0);
        assert_eq!(now.since(&reading(start, 0, 0, 0), 100).foreign_percent, 0.0);
    }

    #[test]
    fn time_spent_here_is_our_own() {
        let then = Reading::now().unwrap();
        let end = Instant::now() + Duration::from_millis(60);
        while Instant::now() < end {
            std::hint::black_box(parse("7 (a) S 1 2"));
        }
        let cpu = Reading::now().unwrap().since(&then, 100);
        assert!(cpu.user_seconds + cpu.system_seconds > 0.005, "{cpu:?}");
    }
}
