//! Tests of [`Ring`], on files of this machine. Where the kernel refuses a ring they test nothing.

use super::*;
use crate::clock::SystemClock;
use crate::error::Result as EngineResult;
use crate::storage::{ALIGNMENT, BufferPool, LinuxStorage, Storage};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Wake;

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("thalweg-ring-{}-{name}", std::process::id()));
        LinuxStorage.create_directory(&path).unwrap();
        Directory(path)
    }
    fn file(&self, name: &str) -> Arc<dyn File> {
        LinuxStorage.create_direct(&self.0.join(name)).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn ring() -> Option<Ring> {
    Ring::new(Arc::new(SystemClock::default())).ok()
}

fn request(file: &Arc<dyn File>, operation: Operation, offset: u64, buffer: Option<IoBuffer>) -> Request {
    Request { file: Arc::clone(file), operation, offset, buffer, from: 0, admitted: None }
}

fn filled(pool: &Arc<BufferPool>, byte: u8) -> Option<IoBuffer> {
    let mut buffer = pool.take();
    buffer.bytes_mut().fill(byte);
    buffer.set_len(buffer.capacity());
    Some(buffer)
}

fn poll(in_flight: &mut InFlight) -> Poll<Done> {
    Pin::new(in_flight).poll(&mut Context::from_waker(Waker::noop()))
}

/// Parks until the request has completed.
fn wait(ring: &mut Ring, mut in_flight: InFlight) -> Done {
    loop {
        if let Poll::Ready(done) = poll(&mut in_flight) {
            return done;
        }
        wake(ring.park(None));
    }
}

fn submit(ring: &mut Ring, request: Request) -> InFlight {
    ring.submit(request).map_err(|_| "a file that the kernel does not know").unwrap()
}

#[test]
fn a_delay_ends_after_its_time_and_others_before_it() {
    let (Some(mut ring), directory) = (ring(), Directory::new("delay")) else { return };
    let file = directory.file("a");
    let time = Duration::from_millis(50);
    let mut delay = submit(&mut ring, request(&file, Operation::Delay(time), 0, None));
    let sync = submit(&mut ring, request(&file, Operation::Sync, 0, None));
    wait(&mut ring, sync).result.unwrap();
    assert!(poll(&mut delay).is_pending(), "a sync waited for a delay");
    let done = wait(&mut ring, delay);
    assert!(done.ns >= time.as_nanos() as u64, "{} ns", done.ns);
    assert_eq!(done.result.unwrap_err().raw_os_error(), Some(rustix::io::Errno::TIME.raw_os_error()));
}

#[test]
fn more_operations_than_the_queue_holds_all_end_with_their_own_bytes() {
    let (Some(mut ring), directory) = (ring(), Directory::new("many")) else { return };
    let pool = BufferPool::new(ALIGNMENT);
    let file = directory.file("a");
    let count = 5 * u64::from(ENTRIES);
    let reserve = submit(&mut ring, request(&file, Operation::Reserve(count * ALIGNMENT as u64), 0, None));
    wait(&mut ring, reserve).result.unwrap();
    let writes: Vec<_> = (0..count)
        .map(|i| {
            let write = request(&file, Operation::Write, i * ALIGNMENT as u64, filled(&pool, i as u8));
            submit(&mut ring, write)
        })
        .collect();
    assert_eq!(ring.in_flight() as u64, count);
    for write in writes {
        assert_eq!(wait(&mut ring, write).result.unwrap(), ALIGNMENT);
    }
    let reads: Vec<_> = (0..count)
        .map(|i| submit(&mut ring, request(&file, Operation::Read, i * ALIGNMENT as u64, filled(&pool, 77))))
        .collect();
    for (i, read) in reads.into_iter().enumerate() {
        let mut done = wait(&mut ring, read);
        assert_eq!(done.result.unwrap(), ALIGNMENT);
        assert!(done.request.buffer.as_mut().unwrap().bytes_mut().iter().all(|&byte| byte == i as u8), "read {i}");
    }
    let sync = submit(&mut ring, request(&file, Operation::Sync, 0, None));
    let done = wait(&mut ring, sync);
    assert!(done.result.is_ok() && done.ns > 0);
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn errors_come_back_with_the_request() {
    let (Some(mut ring), directory) = (ring(), Directory::new("errors")) else { return };
    directory.file("a");
    let only_reads = LinuxStorage.open(&directory.0.join("a"), crate::storage::OpenMode::Read).unwrap().unwrap();
    let pool = BufferPool::new(ALIGNMENT);
    let write = submit(&mut ring, request(&only_reads, Operation::Write, 0, filled(&pool, 1)));
    let done = wait(&mut ring, write);
    assert_eq!(done.result.unwrap_err().raw_os_error(), Some(9), "EBADF");
    assert!(done.request.buffer.is_some());
}

/// A file that reports its drop.
struct DropReported(Arc<dyn File>, Arc<AtomicBool>);

impl Drop for DropReported {
    fn drop(&mut self) {
        self.1.store(true, Ordering::SeqCst);
    }
}

impl File for DropReported {
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> EngineResult<usize> {
        self.0.read_at(offset, buffer)
    }
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> EngineResult<()> {
        self.0.write_all_at(offset, bytes)
    }
    fn sync(&self) -> EngineResult<()> {
        self.0.sync()
    }
    fn bytes(&self) -> EngineResult<u64> {
        self.0.bytes()
    }
    fn set_bytes(&self, bytes: u64) -> EngineResult<()> {
        self.0.set_bytes(bytes)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }
}

#[test]
fn a_future_dropped_in_flight_leaves_buffer_and_file_to_the_kernel() {
    let (Some(mut ring), directory) = (ring(), Directory::new("dropped")) else { return };
    let pool = BufferPool::new(ALIGNMENT);
    let closed = Arc::new(AtomicBool::new(false));
    let file: Arc<dyn File> = Arc::new(DropReported(directory.file("a"), Arc::clone(&closed)));
    let mut buffer = filled(&pool, 7);
    let place = buffer.as_mut().map(|buffer| buffer.bytes_mut().as_ptr());
    drop(submit(&mut ring, request(&file, Operation::Write, 0, buffer)));
    drop(file);
    assert!(!closed.load(Ordering::SeqCst), "the kernel has not written it yet");
    assert_ne!(Some(pool.take().bytes_mut().as_ptr()), place);
    while ring.in_flight() > 0 {
        wake(ring.park(None));
    }
    assert!(closed.load(Ordering::SeqCst));
    assert_eq!(std::fs::read(directory.0.join("a")).unwrap(), [7; ALIGNMENT]);
}

#[test]
fn dropping_the_ring_waits_for_what_is_in_flight() {
    let (Some(mut ring), directory) = (ring(), Directory::new("shutdown")) else { return };
    let pool = BufferPool::new(64 * ALIGNMENT);
    let file = directory.file("a");
    let wakes = Arc::new(CountWakes(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&wakes));
    let mut writes: Vec<_> = (0..20)
        .map(|i| {
            let write = request(&file, Operation::Write, i * 64 * ALIGNMENT as u64, filled(&pool, 5));
            submit(&mut ring, write)
        })
        .collect();
    for write in &mut writes {
        assert!(Pin::new(write).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    // One half is submitted before the drop, the other half by the drop.
    wake(ring.submit_and_reap());
    drop(ring);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 20);
    for mut write in writes {
        let Poll::Ready(done) = poll(&mut write) else { panic!("not waited for") };
        assert_eq!(done.result.unwrap(), 64 * ALIGNMENT);
    }
}

#[test]
fn the_bell_ends_a_park_also_when_it_was_rung_before() {
    let Some(mut ring) = ring() else { return };
    let bell = Arc::clone(ring.bell());
    bell.ring();
    wake(ring.park(None));
    let ringing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        bell.ring();
    });
    // The bell is rung once, so a park after that would wait for ever.
    loop {
        wake(ring.park(Some(Duration::from_millis(5))));
        if !ring.bell_armed {
            break;
        }
    }
    ringing.join().unwrap();
}

#[test]
fn a_park_ends_at_its_deadline() {
    let Some(mut ring) = ring() else { return };
    let clock = SystemClock::default();
    wake(ring.park(Some(Duration::from_millis(30))));
    assert!(clock.now_ns() >= 30_000_000);
}

#[test]
fn a_file_without_a_descriptor_comes_back() {
    let Some(mut ring) = ring() else { return };
    let disk = crate::storage::simulated::SimulatedDisk::new(1);
    let file = disk.create(Path::new("/a")).unwrap();
    assert!(ring.submit(request(&file, Operation::Sync, 0, None)).is_err());
    assert_eq!(ring.in_flight(), 0);
}
