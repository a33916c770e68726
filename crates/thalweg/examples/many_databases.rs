//! What idle databases cost: opens many in one process, puts a few records into each, waits, and prints for one of
//! them threads, descriptors, memory, processor time and bytes on disk.
//!
//! Databases with threads of their own, and with threads that all of them share:
//!
//!     cargo run --release -p thalweg --example many_databases -- 100 own [directory]
//!     cargo run --release -p thalweg --example many_databases -- 1000 shared [directory]
//!
//! What the databases have together is counted in: so the figures become smaller with their number.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thalweg::{Database, Runtime};

/// What this process has of something.
struct Usage {
    threads: u64,
    descriptors: u64,
    anonymous_kib: u64,
    file_kib: u64,
    shared_kib: u64,
    virtual_kib: u64,
    /// User and system time, in ticks of 10 ms.
    ticks: u64,
    /// How often a thread was put to sleep by its own wish.
    switches: u64,
}

impl Usage {
    fn now() -> std::io::Result<Usage> {
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        let stat = fs::read_to_string("/proc/self/stat")?;
        let after = stat.rsplit(')').next().unwrap_or_default();
        let ticks = after.split_whitespace().skip(11).take(2).filter_map(|text| text.parse::<u64>().ok()).sum();
        let mut switches = 0;
        for task in fs::read_dir("/proc/self/task")? {
            let status = fs::read_to_string(task?.path().join("status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            switches += line.and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(Usage {
            threads: field("Threads"),
            descriptors: fs::read_dir("/proc/self/fd")?.count() as u64 - 1,
            anonymous_kib: field("RssAnon"),
            file_kib: field("RssFile"),
            shared_kib: field("RssShmem"),
            virtual_kib: field("VmSize"),
            ticks,
            switches,
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().map_or(Ok(50), |count| count.parse())?;
    let shares = match arguments.next().as_deref() {
        Some("shared") => true,
        Some("own") | None => false,
        Some(other) => return Err(format!("own or shared, not {other}").into()),
    };
    let name = format!("thalweg-many-{}", std::process::id());
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from).join(name);
    // What the process needs once is not what the databases cost.
    drop(open(&directory, u64::MAX, None)?);
    fs::remove_dir_all(&directory)?;
    let before = Usage::now()?;
    let runtime = if shares { Some(Runtime::new(1)?) } else { None };
    let start = Instant::now();
    let databases: Vec<Database> =
        (0..count).map(|number| open(&directory, number, runtime.as_ref())).collect::<Result<_, _>>()?;
    println!("opened {count} in {:.1?}", start.elapsed());
    std::thread::sleep(Duration::from_secs(5));
    let idle = Usage::now()?;
    std::thread::sleep(Duration::from_secs(10));
    let after = Usage::now()?;
    let each = |before: u64, after: u64| after.saturating_sub(before) as f64 / count as f64;
    println!("each of {count} idle databases has");
    println!("  threads          {:10.2}", each(before.threads, after.threads));
    println!("  descriptors      {:10.2}", each(before.descriptors, after.descriptors));
    println!("  anonymous KiB    {:10.1}", each(before.anonymous_kib, after.anonymous_kib));
    println!("  file KiB         {:10.1}", each(before.file_kib, after.file_kib));
    println!("  shared KiB       {:10.1}", each(before.shared_kib, after.shared_kib));
    println!("  virtual KiB      {:10.1}", each(before.virtual_kib, after.virtual_kib));
    println!("  disk KiB         {:10.1}", disk_bytes(&directory)? as f64 / 1024.0 / count as f64);
    println!("  CPU ms in 10 s   {:10.2}", each(idle.ticks, after.ticks) * 10.0);
    println!("  wake-ups in 10 s {:10.2}", each(idle.switches, after.switches));
    if let Ok(seconds) = std::env::var("HOLD") {
        std::thread::sleep(Duration::from_secs(seconds.parse()?));
    }
    let start = Instant::now();
    drop(databases);
    println!("closed all in {:.1?}", start.elapsed());
    fs::remove_dir_all(&directory)?;
    Ok(())
}

fn open(directory: &Path, number: u64, runtime: Option<&Runtime>) -> thalweg::Result<Database> {
    let mut builder = Database::builder(directory.join(number.to_string()));
    if let Some(runtime) = runtime {
        builder = builder.runtime(runtime);
    }
    let database = builder.open()?;
    let keyspace = database.keyspace("default")?;
    for record in 0..10 {
        keyspace.insert(format!("key {record}"), "a few bytes")?;
    }
    Ok(database)
}

/// Space taken below `directory`.
fn disk_bytes(directory: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}
