//! Tests of [`ReadQueue`], on files of this machine.

use super::*;
use crate::storage::{ALIGNMENT, BufferPool, File, LinuxStorage, Storage};
use std::io;
use std::path::PathBuf;

struct Pages {
    directory: PathBuf,
    file: Arc<dyn File>,
    buffers: Arc<BufferPool>,
    gate: Arc<Gate>,
    metrics: Arc<Metrics>,
}

impl Pages {
    /// A file of 200 pages, each filled with its number.
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("thalweg-read-queue-{}-{name}", std::process::id()));
        LinuxStorage.create_directory(&directory).unwrap();
        let file = LinuxStorage.create(&directory.join("file")).unwrap();
        for page in 0..200 {
            file.write_all_at((page * ALIGNMENT) as u64, &[page as u8; ALIGNMENT]).unwrap();
        }
        let metrics = Arc::<Metrics>::default();
        let (buffers, gate) = (BufferPool::new(ALIGNMENT), Gate::new(8, Arc::clone(&metrics)));
        Pages { directory, file, buffers, gate, metrics }
    }

    fn read(&self, page: usize) -> ForegroundRead {
        let mut buffer = self.buffers.take();
        buffer.set_len(ALIGNMENT);
        ForegroundRead { file: Arc::clone(&self.file), offset: (page * ALIGNMENT) as u64, buffer }
    }

    /// Whether no read is counted at the device.
    fn is_idle(&self) -> bool {
        std::iter::from_fn(|| self.gate.try_write()).collect::<Vec<_>>().len() == 8
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Keeps `depth` reads in flight until all pages are read.
fn read_all(pages: &Pages, mut queue: ReadQueue, depth: usize) {
    let (mut pushed, mut ended) = (0, 0);
    while ended < 200 {
        while pushed < 200 && pushed - ended < depth {
            queue.push(pushed, pages.read(pushed));
            pushed += 1;
        }
        let (number, read) = queue.wait().unwrap();
        assert_eq!(read.unwrap().filled(), [number as u8; ALIGNMENT]);
        ended += 1;
    }
    assert!(queue.wait().is_none() && queue.ended().is_none());
    assert!(pages.is_idle());
}

#[test]
fn each_read_brings_its_own_bytes_at_any_depth() {
    let pages = Pages::new("depths");
    for depth in [1, 2, 7, 64, 300] {
        read_all(&pages, ReadQueue::new(&ReadRings::new(Arc::clone(&pages.metrics)), depth, &pages.gate), depth);
    }
}

#[test]
fn without_a_ring_reads_are_made_when_they_are_waited_for() {
    let pages = Pages::new("refused");
    let rings = ReadRings::with(|_| Err(io::Error::from_raw_os_error(libc::EPERM)), Arc::clone(&pages.metrics));
    let mut queue = ReadQueue::new(&rings, 4, &pages.gate);
    assert!(!queue.has_ring());
    queue.push(9, pages.read(9));
    assert!(queue.ended().is_none());
    drop(queue);
    read_all(&pages, ReadQueue::new(&rings, 4, &pages.gate), 4);
    assert_eq!(pages.metrics.all_reads(|reads| &reads.overlapped_reads), 0);
}

#[test]
fn a_dropped_queue_waits_for_its_reads() {
    let pages = Pages::new("dropped");
    let rings = ReadRings::new(Arc::clone(&pages.metrics));
    for round in 0..100 {
        let mut queue = ReadQueue::new(&rings, 64, &pages.gate);
        for number in 0..round % 60 {
            queue.push(number, pages.read(number));
        }
        drop(queue);
        assert!(pages.is_idle());
    }
}

#[test]
fn a_queue_whose_ring_is_lost_makes_its_reads_again() {
    let pages = Pages::new("lost");
    let mut queue = ReadQueue::new(&ReadRings::new(Arc::clone(&pages.metrics)), 64, &pages.gate);
    for number in 0..20 {
        queue.push(number, pages.read(number));
    }
    queue.give_up();
    assert!(pages.is_idle());
    for number in 0..20 {
        let (at, read) = queue.wait().unwrap();
        assert_eq!((at, read.unwrap().filled()[0]), (number, number as u8));
    }
}
