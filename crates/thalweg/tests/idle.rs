//! What an idle database costs its process: threads, descriptors, memory, how often they wake up. The only test of its
//! process, since it looks at all of it. `examples/many_databases.rs` measures the same for as many as one likes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::time::Duration;
use thalweg::{Database, Runtime};

const COUNT: u64 = 50;

/// What this process has of something.
#[derive(Clone, Copy, Debug)]
struct Usage {
    /// Those with a name of ours: the kernel's own threads for a ring come and go.
    threads: u64,
    descriptors: u64,
    anonymous_kib: u64,
    /// How often our threads have gone to sleep.
    sleeps: u64,
    /// User and system time, in ticks of 10 ms.
    ticks: u64,
}

impl Usage {
    fn now() -> Usage {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        let paths = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().join("status"));
        let is_ours = |status: &String| status.starts_with("Name:\tthalweg-");
        let tasks: Vec<String> = paths.filter_map(|path| fs::read_to_string(path).ok()).filter(is_ours).collect();
        let sleeps = |task: &String| -> u64 {
            let line = task.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
            line.trim().parse().unwrap()
        };
        Usage {
            threads: tasks.len() as u64,
            sleeps: tasks.iter().map(sleeps).sum(),
            descriptors: fs::read_dir("/proc/self/fd").unwrap().count() as u64,
            anonymous_kib: anonymous.trim().trim_end_matches(" kB").parse().unwrap(),
            ticks: after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum(),
        }
    }
}

/// Opens [`COUNT`] databases and gives what they have together, and what they do while they are idle; of threads all
/// that there are, for a new one has its name only once it runs.
fn usage_of_many(runtime: Option<&Runtime>) -> Usage {
    let directory = tempfile::tempdir().unwrap();
    let before = Usage::now();
    let open = |number: u64| {
        let builder = Database::builder(directory.path().join(number.to_string()));
        let builder = runtime.map_or(builder.clone().compaction_workers(1), |runtime| builder.runtime(runtime));
        let database = builder.open().unwrap();
        let keyspace = database.keyspace("default").unwrap();
        (0..10).for_each(|key: u8| keyspace.insert([key], "a few bytes").unwrap());
        database
    };
    let databases: Vec<Database> = (0..COUNT).map(open).collect();
    // Intervals of syncs and settle rounds pass.
    std::thread::sleep(Duration::from_secs(4));
    let idle = Usage::now();
    std::thread::sleep(Duration::from_secs(3));
    let after = Usage::now();
    drop(databases);
    Usage {
        threads: idle.threads,
        descriptors: idle.descriptors - before.descriptors,
        anonymous_kib: idle.anonymous_kib.saturating_sub(before.anonymous_kib),
        sleeps: after.sleeps - idle.sleeps,
        ticks: after.ticks - idle.ticks,
    }
}

/// A settle round of each falls into the time: four sleeps a database. A single thread that polls ten times a second
/// sleeps 30 times, and one that spins has 300 ticks.
fn assert_idle(usage: &Usage) {
    assert!(usage.sleeps <= 4 * COUNT + 25, "idle databases wake up: {usage:?}");
    assert!(usage.ticks <= 50, "idle databases tick: {usage:?}");
}

#[test]
fn an_idle_database_is_small() {
    let runtime = Runtime::new(1).unwrap();
    let shared = usage_of_many(Some(&runtime));
    assert_eq!(shared.threads, 4, "{shared:?}");
    assert!(shared.descriptors <= 8 * COUNT, "{shared:?}");
    assert!(shared.anonymous_kib <= 128 * COUNT, "{shared:?}");
    assert_idle(&shared);
    drop(runtime);
    let own = usage_of_many(None);
    assert_eq!(own.threads, 3 * COUNT, "{own:?}");
    assert!(own.descriptors <= 14 * COUNT, "{own:?}");
    assert!(own.anonymous_kib <= 256 * COUNT, "{own:?}");
    assert_idle(&own);
    assert_eq!(Usage::now().threads, 0, "closed databases leave no thread behind");
    what_flushes_kept_goes_back();
    what_merges_freed_goes_back();
}

/// Memory of memtables and buffers, after a load of several memtables and a while of quiet.
fn what_flushes_kept_goes_back() {
    let directory = tempfile::tempdir().unwrap();
    let before = Usage::now();
    let database = Database::open(directory.path()).unwrap();
    let keyspace = database.keyspace("default").unwrap();
    for number in 0..100_000_u64 {
        keyspace.insert(number.to_be_bytes(), [7; 1000]).unwrap();
    }
    database.flush().unwrap();
    let loaded = Usage::now();
    std::thread::sleep(Duration::from_secs(10));
    let quiet = Usage::now();
    let kept_kib = |usage: Usage| usage.anonymous_kib.saturating_sub(before.anonymous_kib);
    assert!(kept_kib(quiet) <= 8 << 10, "{} KiB after the load, {} later", kept_kib(loaded), kept_kib(quiet));
}

/// Memory that a merge of many packs has freed, and that the allocator keeps for the thread of the merge.
fn what_merges_freed_goes_back() {
    const DIRECTORIES: u64 = 100_000;
    let directory = tempfile::tempdir().unwrap();
    let before = Usage::now();
    let builder = Database::builder(directory.path()).memtable_bytes(4 << 20).table_bytes(4 << 20);
    let database = builder.open().unwrap();
    let files = database.directory_keyspace("files").unwrap();
    for number in 0..1_500_000_u64 {
        // Multiplied by an odd number, so that consecutive entries are of different directories.
        let entry = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        files.insert(entry % DIRECTORIES, entry.to_be_bytes(), [7; 100]).unwrap();
    }
    database.flush().unwrap();
    database.tidy().unwrap();
    let loaded = Usage::now();
    std::thread::sleep(Duration::from_secs(10));
    let quiet = Usage::now();
    let kept_kib = |usage: Usage| usage.anonymous_kib.saturating_sub(before.anonymous_kib);
    assert!(kept_kib(quiet) <= 20 << 10, "{} KiB after the load, {} later", kept_kib(loaded), kept_kib(quiet));
}
