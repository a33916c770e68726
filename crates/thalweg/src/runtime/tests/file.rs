//! Tests of [`BackgroundFile`]: on workers with a ring and without, on Linux and on a simulated disk.

use super::*;
use crate::clock::SystemClock;
use crate::error::ErrorKind;
use crate::metrics::Metrics;
use crate::runtime::threads::ThreadScheduler;
use crate::runtime::{Lane, Scheduler};
use crate::storage::simulated::{FaultPlan, SimulatedDisk, Strictness};
use crate::storage::{BufferPool, LinuxStorage, OpenMode, Storage};
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Waker};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

/// Runs a coroutine on a worker, with a ring where the kernel gives one.
fn on_a_worker<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let scheduler = ThreadScheduler::new(Arc::new(SystemClock::default()), 1).unwrap();
    let (sender, receiver) = channel();
    scheduler.spawn(Lane::Compaction, Box::pin(async move { sender.send(work.await).unwrap() }));
    receiver.recv_timeout(LIMIT).unwrap()
}

fn gate() -> Arc<Gate> {
    Gate::new(8, Arc::<Metrics>::default())
}

fn numbered(pool: &Arc<BufferPool>) -> IoBuffer {
    let mut buffer = pool.take();
    buffer.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251) as u8);
    buffer.set_len(buffer.capacity());
    buffer
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("thalweg-background-{}-{name}", std::process::id()));
    LinuxStorage.create_directory(&path).unwrap();
    path
}

/// Writes a file with an unaligned length and reads it back.
async fn there_and_back(storage: Arc<dyn Storage>, path: PathBuf) {
    let pool = BufferPool::new(8 * ALIGNMENT);
    let file = BackgroundFile::new(storage.create_direct(&path).unwrap());
    file.reserve(64 * ALIGNMENT as u64).await.unwrap();
    file.write(&gate(), 0, numbered(&pool)).await.unwrap();
    file.write(&gate(), 8 * ALIGNMENT as u64, numbered(&pool)).await.unwrap();
    let len = 9 * ALIGNMENT + 100;
    file.set_bytes(len as u64).await.unwrap();
    file.sync().await.unwrap();
    let read = BackgroundFile::new(storage.open(&path, OpenMode::ReadMedium).unwrap().unwrap());
    let (gate, mut found) = (gate(), Vec::new());
    for offset in [0, 8 * ALIGNMENT as u64, 16 * ALIGNMENT as u64] {
        let mut buffer = pool.take();
        buffer.set_len(buffer.capacity());
        found.extend_from_slice(read.read(&gate, offset, buffer).await.unwrap().filled());
    }
    let expected: Vec<u8> = (0..len).map(|at| (at % (8 * ALIGNMENT) % 251) as u8).collect();
    assert!(found == expected, "{} bytes", found.len());
}

#[test]
fn what_is_written_is_read_up_to_an_odd_end() {
    let root = directory("odd-end");
    on_a_worker(there_and_back(Arc::new(LinuxStorage), root.join("a")));
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn what_is_written_through_the_page_cache_with_its_write_back_begun_is_read_there() {
    let root = directory("cached");
    let path = root.join("a");
    let found = on_a_worker(async move {
        let pool = BufferPool::new(8 * ALIGNMENT);
        let file = BackgroundFile::new(LinuxStorage.create(&path).unwrap());
        file.reserve(16 * ALIGNMENT as u64).await.unwrap();
        file.write(&gate(), 0, numbered(&pool)).await.unwrap();
        file.write(&gate(), 8 * ALIGNMENT as u64, numbered(&pool)).await.unwrap();
        file.set_bytes(9 * ALIGNMENT as u64 + 7).await.unwrap();
        file.sync().await.unwrap();
        let mut found = Vec::new();
        for offset in [0, 8 * ALIGNMENT as u64] {
            let mut buffer = pool.take();
            buffer.set_len(buffer.capacity());
            found.extend_from_slice(file.read(&gate(), offset, buffer).await.unwrap().filled());
        }
        found
    });
    let expected: Vec<u8> = (0..9 * ALIGNMENT + 7).map(|at| (at % (8 * ALIGNMENT) % 251) as u8).collect();
    assert!(found == expected, "{} bytes", found.len());
    std::fs::remove_dir_all(root).unwrap();
}

/// Reads `file` ahead as a merge does: begins a read, and does not poll it for a while. Returns how many writes a gate
/// of depth 2 then admits.
async fn writes_beside_a_read_that_has_ended(file: BackgroundFile) -> usize {
    let (gate, pool) = (Gate::new(2, Arc::<Metrics>::default()), BufferPool::new(ALIGNMENT));
    let begin = || {
        let mut buffer = pool.take();
        buffer.set_len(ALIGNMENT);
        Box::pin(file.read(&gate, 0, buffer))
    };
    let (mut first, mut second) = (begin(), begin());
    std::future::poll_fn(|context| {
        assert!(first.as_mut().poll(context).is_pending() && second.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    let mut admitted = 0;
    for _ in 0..1000 {
        yield_now().await;
        std::thread::sleep(Duration::from_millis(1));
        admitted = std::iter::from_fn(|| gate.try_write()).collect::<Vec<_>>().len();
        if admitted == 2 {
            break;
        }
    }
    first.await.unwrap();
    second.await.unwrap();
    admitted
}

#[test]
fn a_read_that_has_ended_takes_no_room_at_the_gate_although_nobody_has_looked_yet() {
    let root = directory("ended-read");
    let file = LinuxStorage.create_direct(&root.join("a")).unwrap();
    if !file.is_direct() {
        return; // Without a ring the read is a call, which has ended by then.
    }
    let admitted = on_a_worker(async move {
        let file = BackgroundFile::new(file);
        file.write(&gate(), 0, numbered(&BufferPool::new(ALIGNMENT))).await.unwrap();
        writes_beside_a_read_that_has_ended(file).await
    });
    assert_eq!(admitted, 2);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn what_is_written_is_read_without_a_ring_and_with_short_reads() {
    let disk = SimulatedDisk::new(5);
    disk.set_short_reads(500);
    on_a_worker(there_and_back(Arc::new(disk), PathBuf::from("/a")));
}

#[test]
fn what_is_written_is_read_directly_where_there_is_no_ring() {
    let root = directory("no-ring");
    let mut work = Box::pin(there_and_back(Arc::new(LinuxStorage), root.join("a")));
    // This thread is not a worker.
    while work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
    drop(work);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_write_that_fails_names_its_file() {
    let root = directory("failing");
    LinuxStorage.create(&root.join("a")).unwrap();
    let medium = LinuxStorage.open(&root.join("a"), OpenMode::ReadMedium).unwrap();
    let file = BackgroundFile::new(medium.unwrap());
    let error = on_a_worker(async move {
        let pool = BufferPool::new(ALIGNMENT);
        file.write(&gate(), 0, numbered(&pool)).await.unwrap_err()
    });
    let name = root.join("a").display().to_string();
    assert!(error.kind() == ErrorKind::Io && error.to_string().contains(&name), "{error}");
    let disk = SimulatedDisk::new(5);
    let file = BackgroundFile::new(disk.create(Path::new("/a")).unwrap());
    disk.set_faults(Some(FaultPlan::from_then_on(1)));
    let failed = on_a_worker(async move { (file.sync().await.is_err(), file.reserve(9).await.is_err()) });
    assert_eq!(failed, (true, true));
    std::fs::remove_dir_all(root).unwrap();
}

/// A mapping that counts its syncs.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Mapping for Counted {
    fn write(&self, _: u64, _: &[u8]) {}
    fn populate(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }
    fn release(&self, _: u64, _: u64) {}
    fn sync_range(&self, _: u64, _: u64) -> Result<()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn a_sync_of_a_range_holds_up_no_worker_that_has_a_ring() {
    let directory = directory("range");
    let metrics = Arc::<Metrics>::default();
    let clock = Arc::new(SystemClock::default());
    let storage = crate::storage::metered(Arc::new(LinuxStorage), clock.clone(), Arc::clone(&metrics), Duration::ZERO);
    let file = storage.create(&directory.join("00000001.log")).unwrap();
    file.write_all_at(0, &[7; 3 * ALIGNMENT]).unwrap();
    let mapping = Arc::new(Counted::default());
    let synced = || {
        let (file, mapping) = (BackgroundFile::new(Arc::clone(&file)), Arc::clone(&mapping));
        async move {
            file.sync_range_at_once(&*mapping, 10, 2 * ALIGNMENT as u32 + 5).await.unwrap();
            // An empty range too: for the ring it would mean the whole file.
            file.sync_range_at_once(&*mapping, 0, 0).await.unwrap();
        }
    };
    on_a_worker(synced());
    let refused = ThreadScheduler::new(clock, 1).unwrap().ring_refused().is_some();
    assert_eq!(mapping.0.load(Ordering::SeqCst), if refused { 2 } else { 1 });
    assert_eq!(metrics.log_syncs.count.get(), u64::from(!refused), "the ring's is counted; the mapping counts its own");
    // Outside of a worker there is no ring.
    let mut unringed = std::pin::pin!(synced());
    while unringed.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
    assert_eq!(mapping.0.load(Ordering::SeqCst), if refused { 4 } else { 3 });
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_delayed_sync_of_a_ring_takes_longer_and_holds_up_nobody() {
    const DELAY: Duration = Duration::from_millis(60);
    const FILES: u32 = 8;
    let clock = Arc::new(SystemClock::default());
    let scheduler = ThreadScheduler::new(clock.clone(), 1).unwrap();
    if scheduler.ring_refused().is_some() {
        return;
    }
    let (root, metrics) = (directory("delayed"), Arc::<Metrics>::default());
    let storage = crate::storage::metered(Arc::new(LinuxStorage), clock, Arc::clone(&metrics), DELAY);
    let (sender, receiver) = channel();
    let start = std::time::Instant::now();
    for number in 0..FILES {
        let file = BackgroundFile::new(storage.create(&root.join(format!("{number}.table"))).unwrap());
        let sender = sender.clone();
        // All on one worker: if it slept, it would take the sum of the delays.
        let work = async move { sender.send(file.sync().await.map(|()| start.elapsed()).unwrap()).unwrap() };
        scheduler.spawn(Lane::Compaction, Box::pin(work));
    }
    let elapsed: Vec<Duration> = (0..FILES).map(|_| receiver.recv_timeout(LIMIT).unwrap()).collect();
    assert!(elapsed.iter().all(|elapsed| *elapsed >= DELAY), "{elapsed:?}");
    assert!(elapsed.iter().all(|elapsed| *elapsed < DELAY * FILES), "one after the other: {elapsed:?}");
    assert_eq!(metrics.table_syncs.count.get(), u64::from(FILES), "a delay is no sync of its own");
    assert!(metrics.table_syncs.total_ns.get() >= (DELAY * FILES).as_nanos() as u64, "it is part of the time");
    scheduler.shutdown();
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn shutting_down_in_flight_leaves_whole_writes() {
    let root = directory("shutdown");
    let pool = BufferPool::new(64 * ALIGNMENT);
    let scheduler = ThreadScheduler::new(Arc::new(SystemClock::default()), 1).unwrap();
    for number in 0..20 {
        let file = BackgroundFile::new(LinuxStorage.create_direct(&root.join(number.to_string())).unwrap());
        let buffer = numbered(&pool);
        scheduler.spawn(
            Lane::Compaction,
            Box::pin(async move {
                file.write(&gate(), 0, buffer).await.unwrap();
                file.sync().await.unwrap();
            }),
        );
    }
    scheduler.shutdown();
    for number in 0..20 {
        let len = std::fs::metadata(root.join(number.to_string())).unwrap().len();
        assert!(len == 0 || len == 64 * ALIGNMENT as u64, "{len} bytes of {number}");
    }
    std::fs::remove_dir_all(root).unwrap();
}

/// On Linux the sync goes to the ring, where there is one; a simulated disk makes the call.
#[test]
fn names_of_a_directory_are_durable_after_its_sync_and_errors_name_it() {
    let root = directory("names");
    let path = root.clone();
    let metrics = Arc::<Metrics>::default();
    let counted = Arc::clone(&metrics);
    on_a_worker(async move {
        let storage =
            crate::storage::metered(Arc::new(LinuxStorage), Arc::new(SystemClock::default()), counted, Duration::ZERO);
        let directory = BackgroundDirectory::open(&storage, &path).unwrap();
        storage.create(&path.join("a")).unwrap();
        directory.sync().await.unwrap();
        assert!(BackgroundDirectory::open(&storage, &path.join("missing")).is_err());
    });
    assert_eq!(metrics.directory_syncs.count.get(), 1);
    std::fs::remove_dir_all(root).unwrap();

    let disk = SimulatedDisk::new(5);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let root = PathBuf::from("/db");
    storage.create_directory(&root).unwrap();
    storage.sync_directory(Path::new("/")).unwrap();
    storage.create(&root.join("a")).unwrap();
    on_a_worker(async move { BackgroundDirectory::open(&storage, &root).unwrap().sync().await.unwrap() });
    assert_eq!(disk.crash(Strictness::LoseUnsynced).files().len(), 1);
}

#[test]
fn pieces_end_at_multiples_of_their_size_and_leave_the_last_one() {
    const MIB: u64 = PIECE_BYTES as u64;
    let of = |from, to| pieces(from, to).collect::<Vec<_>>();
    assert_eq!(of(0, 0), []);
    assert_eq!(of(0, MIB), [], "one is the last");
    assert_eq!(of(0, MIB + 1), [(0, PIECE_BYTES)]);
    assert_eq!(of(5, 2 * MIB + 7), [(5, PIECE_BYTES - 5), (MIB, PIECE_BYTES)]);
    assert_eq!(of(MIB - 1, MIB), []);
    assert_eq!(of(MIB - 1, 2 * MIB), [(MIB - 1, 1)]);
    assert_eq!(of(9, 3), []);
}

/// A file that counts how often its descriptor is asked for.
struct Asked(Arc<dyn File>, AtomicUsize);

impl File for Asked {
    fn inner(&self) -> Option<&dyn File> {
        Some(&*self.0)
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, buffer)
    }
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_all_at(offset, bytes)
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
    fn bytes(&self) -> Result<u64> {
        self.0.bytes()
    }
    fn set_bytes(&self, bytes: u64) -> Result<()> {
        self.0.set_bytes(bytes)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.descriptor()
    }
}

#[test]
fn what_is_written_out_or_synced_is_given_to_the_device_in_pieces() {
    if ThreadScheduler::new(Arc::new(SystemClock::default()), 1).unwrap().ring_refused().is_some() {
        return;
    }
    let directory = directory("pieces");
    let asked = |is_direct| {
        let path = directory.join(if is_direct { "direct" } else { "cached" });
        let file = if is_direct { LinuxStorage.create_direct(&path) } else { LinuxStorage.create(&path) };
        let file = Arc::new(Asked(file.unwrap(), AtomicUsize::new(0)));
        file.set_bytes(3 * u64::from(PIECE_BYTES) + 1).unwrap();
        let counted = Arc::clone(&file);
        on_a_worker(async move {
            let file = BackgroundFile::new(Arc::clone(&counted) as Arc<dyn File>);
            let mut asked = vec![];
            let mut ask = || asked.push(counted.1.swap(0, Ordering::SeqCst));
            file.write_out().await.unwrap();
            ask();
            file.sync().await.unwrap();
            ask();
            file.sync_range_at_once(&Counted::default(), PIECE_BYTES, 3 * PIECE_BYTES).await.unwrap();
            ask();
            asked
        })
    };
    // One look whether there is one; the pieces; the rest.
    assert_eq!(asked(false), [5, 5, 3]);
    let storage_is_direct = LinuxStorage.create_direct(&directory.join("probe")).unwrap().is_direct();
    if storage_is_direct {
        assert_eq!(asked(true), [1, 1, 1]);
    }
    std::fs::remove_dir_all(directory).unwrap();
}
