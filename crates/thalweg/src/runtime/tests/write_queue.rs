//! Tests of [`WriteQueue`] on a simulated disk, with both sides polled by hand.

use super::*;
use crate::error::ErrorKind;
use crate::storage::simulated::{FaultPlan, SimulatedDisk};
use crate::storage::{ALIGNMENT, OpenMode, Storage};
use std::path::Path;
use std::task::{Context, Waker};

struct Side {
    disk: SimulatedDisk,
    metrics: Arc<Metrics>,
    pool: Arc<BufferPool>,
    queue: WriteQueue,
    flush: Pin<Box<dyn Future<Output = ()> + Send>>,
}

fn side(buffer_bytes: usize) -> Side {
    let disk = SimulatedDisk::new(3);
    let metrics = Arc::<Metrics>::default();
    let pool = BufferPool::new(buffer_bytes);
    let gate = Gate::new(8, Arc::clone(&metrics));
    let (queue, flush) = write_queue(Arc::clone(&pool), gate, Arc::clone(&metrics));
    Side { disk, metrics, pool, queue, flush: Box::pin(flush) }
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

impl Side {
    fn file(&self, name: &str) -> WrittenFile {
        self.queue.file(BackgroundFile::new(self.disk.create(Path::new(name)).unwrap()))
    }

    fn buffer(&self, byte: u8) -> IoBuffer {
        let mut buffer = self.pool.take();
        buffer.bytes_mut().fill(byte);
        buffer.set_len(buffer.capacity());
        buffer
    }

    /// Polls `future` and the flush coroutine until the first has ended.
    fn both<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        for _ in 0..10_000 {
            if let Poll::Ready(value) = poll(future.as_mut()) {
                return value;
            }
            assert!(poll(self.flush.as_mut()).is_pending());
        }
        panic!("nothing moves");
    }
}

#[test]
fn handing_over_does_not_wait_for_the_disk_and_finishing_does() {
    let mut side = side(ALIGNMENT);
    let file = side.file("/a");
    for i in 0..5 {
        let write = std::pin::pin!(file.write(i * ALIGNMENT as u64, side.buffer(i as u8)));
        assert!(poll(write).is_ready());
    }
    assert_eq!(side.disk.file_bytes(Path::new("/a")).unwrap(), Some(0));
    side.both(file.finish()).unwrap();
    let mut found = vec![9; 5 * ALIGNMENT];
    side.disk.open(Path::new("/a"), OpenMode::Read).unwrap().unwrap().read_exact_at(0, &mut found).unwrap();
    assert!(found.chunks(ALIGNMENT).enumerate().all(|(i, page)| page.iter().all(|&byte| byte == i as u8)));
}

#[test]
fn only_a_full_queue_makes_wait_and_that_is_counted() {
    let mut side = side(QUEUE_BYTES_MAX / 2);
    let file = side.file("/a");
    for i in 0..2 {
        assert!(poll(std::pin::pin!(file.write(i, side.buffer(1)))).is_ready());
    }
    assert_eq!(side.metrics.write_queue_waits.get(), 0);
    let third = side.buffer(1);
    assert!(poll(std::pin::pin!(file.write(2, third))).is_pending());
    assert_eq!(side.metrics.write_queue_waits.get(), 1);
    // A write that is dropped while it waits for room was not made.
    assert_eq!(side.both(file.finish()).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn the_first_error_is_told_and_later_writes_are_refused() {
    let mut side = side(ALIGNMENT);
    let file = side.file("/a");
    side.disk.set_faults(Some(FaultPlan::from_then_on(1)));
    side.both(async { file.write(0, file.queue.buffers().take()).await }).unwrap();
    assert_eq!(side.both(file.finish()).unwrap_err().kind(), ErrorKind::Io);
    side.disk.set_faults(None);
    let buffer = side.buffer(1);
    assert_eq!(side.both(file.write(0, buffer)).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn what_is_queued_for_an_abandoned_file_is_not_written() {
    let mut side = side(ALIGNMENT);
    let file = side.file("/a");
    assert!(poll(std::pin::pin!(file.write(0, side.buffer(1)))).is_ready());
    side.both(file.abandon());
    assert_eq!(side.disk.file_bytes(Path::new("/a")).unwrap(), Some(0));
}

#[test]
fn the_flush_coroutine_ends_with_the_last_producer_and_not_before_its_writes() {
    let side = side(ALIGNMENT);
    let file = side.file("/a");
    let Side { disk, pool, queue, mut flush, .. } = side;
    assert!(poll(std::pin::pin!(file.write(0, pool.take()))).is_ready());
    drop(queue);
    for _ in 0..10 {
        assert!(poll(flush.as_mut()).is_pending(), "the file is a producer");
    }
    drop(file);
    assert!((0..10).any(|_| poll(flush.as_mut()).is_ready()));
    drop(disk);
}

#[test]
fn a_lost_flush_coroutine_fails_what_is_queued_and_what_comes_later() {
    let Side { disk, pool, queue, flush, .. } = side(ALIGNMENT);
    let file = queue.file(BackgroundFile::new(disk.create(Path::new("/a")).unwrap()));
    assert!(poll(std::pin::pin!(file.write(0, pool.take()))).is_ready());
    drop(flush);
    let Poll::Ready(Err(error)) = poll(std::pin::pin!(file.finish())) else { panic!("it waits") };
    assert_eq!(error.kind(), ErrorKind::Closed);
    let other = queue.file(BackgroundFile::new(disk.create(Path::new("/b")).unwrap()));
    let Poll::Ready(Err(error)) = poll(std::pin::pin!(other.write(0, pool.take()))) else { panic!("it waits") };
    assert_eq!(error.kind(), ErrorKind::Closed);
}
