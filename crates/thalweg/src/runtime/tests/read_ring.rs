//! Tests of [`ReadRings`], on files of this machine and on files that fail on purpose.

use super::*;
use crate::storage::{ALIGNMENT, BufferPool, LinuxStorage, OpenMode, Storage};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("thalweg-read-ring-{}-{name}", std::process::id()));
        LinuxStorage.create_directory(&path).unwrap();
        Directory(path)
    }

    /// A file of `pages` pages, each filled with its number.
    fn file(&self, name: &str, pages: usize) -> Arc<dyn File> {
        let file = LinuxStorage.create(&self.0.join(name)).unwrap();
        for page in 0..pages {
            file.write_all_at((page * ALIGNMENT) as u64, &[page as u8; ALIGNMENT]).unwrap();
        }
        file
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file with the descriptor of another file.
struct Disguised {
    file: Arc<dyn File>,
    shown: Option<std::fs::File>,
}

impl File for Disguised {
    fn path(&self) -> &Path {
        self.file.path()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.file.read_at(offset, buffer)
    }
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(offset, bytes)
    }
    fn sync(&self) -> Result<()> {
        self.file.sync()
    }
    fn bytes(&self) -> Result<u64> {
        self.file.bytes()
    }
    fn set_bytes(&self, bytes: u64) -> Result<()> {
        self.file.set_bytes(bytes)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.shown.as_ref().map(std::os::fd::AsFd::as_fd)
    }
}

fn rings() -> (Arc<ReadRings>, Arc<Gate>, Arc<Metrics>) {
    let metrics = Arc::<Metrics>::default();
    (ReadRings::new(Arc::clone(&metrics)), Gate::new(8, Arc::clone(&metrics)), metrics)
}

fn page(pool: &Arc<BufferPool>, file: &Arc<dyn File>, page: usize) -> ForegroundRead {
    let mut buffer = pool.take();
    buffer.set_len(ALIGNMENT);
    ForegroundRead { file: Arc::clone(file), offset: (page * ALIGNMENT) as u64, buffer }
}

fn overlapped(metrics: &Metrics) -> u64 {
    metrics.all_reads(|reads| &reads.overlapped_reads)
}

#[test]
fn many_reads_at_once_bring_each_its_own_bytes_and_the_ring_is_used_again() {
    let directory = Directory::new("many");
    let (file, pool) = (directory.file("file", 200), BufferPool::new(ALIGNMENT));
    let (rings, gate, metrics) = rings();
    for _ in 0..3 {
        let reads = (0..200).rev().map(|number| page(&pool, &file, number)).collect();
        for (read, number) in rings.read(&gate, reads).into_iter().zip((0..200).rev()) {
            assert_eq!(read.unwrap().filled(), [number as u8; ALIGNMENT]);
        }
    }
    if rings.are_to_be_had() {
        assert_eq!(overlapped(&metrics), 600);
        assert_eq!(rings.free.lock().len(), 1);
    }
    let writes: Vec<_> = std::iter::from_fn(|| gate.try_write()).collect();
    assert_eq!(writes.len(), 8, "no read is counted any more");
}

#[test]
fn a_read_at_the_end_of_a_file_is_short_and_the_others_are_whole() {
    let directory = Directory::new("short");
    let (file, pool) = (directory.file("file", 2), BufferPool::new(2 * ALIGNMENT));
    let (rings, gate, _) = rings();
    let mut reads: Vec<_> = [0, 1, 5].map(|number| page(&pool, &file, number)).into();
    reads[1].buffer.set_len(2 * ALIGNMENT);
    let ended = rings.read(&gate, reads);
    let lengths: Vec<_> = ended.into_iter().map(|read| read.unwrap().len()).collect();
    assert_eq!(lengths, [ALIGNMENT, ALIGNMENT, 0]);
}

#[test]
fn a_read_that_fails_names_its_file_and_leaves_the_others_whole() {
    let directory = Directory::new("failed");
    let (good, pool) = (directory.file("good", 3), BufferPool::new(ALIGNMENT));
    let file = directory.file("bad", 3);
    // Reads of a directory fail.
    let shown = Some(std::fs::File::open(&directory.0).unwrap());
    let bad: Arc<dyn File> = Arc::new(Disguised { file, shown });
    let (rings, gate, _) = rings();
    if !rings.are_to_be_had() {
        return;
    }
    let ended = rings.read(&gate, vec![page(&pool, &good, 1), page(&pool, &bad, 1), page(&pool, &good, 2)]);
    let [first, failed, last] = &ended[..] else { panic!("three reads") };
    assert_eq!(first.as_ref().unwrap().filled(), [1; ALIGNMENT]);
    assert_eq!(last.as_ref().unwrap().filled(), [2; ALIGNMENT]);
    let told = failed.as_ref().err().unwrap().to_string();
    assert!(told.starts_with("cannot read") && told.contains("bad"), "{told}");
}

#[test]
fn where_the_kernel_refuses_a_ring_reads_are_made_one_by_one_and_that_is_told() {
    let directory = Directory::new("refused");
    let (file, pool) = (directory.file("file", 3), BufferPool::new(ALIGNMENT));
    let metrics = Arc::<Metrics>::default();
    let rings = ReadRings::with(|_| Err(io::Error::from_raw_os_error(libc::EPERM)), Arc::clone(&metrics));
    let gate = Gate::new(8, Arc::clone(&metrics));
    let ended = rings.read(&gate, vec![page(&pool, &file, 2), page(&pool, &file, 0)]);
    let found: Vec<_> = ended.into_iter().map(|read| read.unwrap().filled()[0]).collect();
    assert_eq!(found, [2, 0]);
    assert!(!rings.are_to_be_had());
    assert_eq!(overlapped(&metrics), 0);
    assert!(metrics.read_ring_refused.get().unwrap().contains("not permitted"));
}

#[test]
fn a_file_that_the_kernel_does_not_know_is_read_one_by_one() {
    let directory = Directory::new("unknown");
    let pool = BufferPool::new(ALIGNMENT);
    let hidden: Arc<dyn File> = Arc::new(Disguised { file: directory.file("file", 3), shown: None });
    let (rings, gate, metrics) = rings();
    let ended = rings.read(&gate, vec![page(&pool, &hidden, 1), page(&pool, &hidden, 2)]);
    assert!(ended.iter().zip([1, 2]).all(|(read, number)| read.as_ref().unwrap().filled()[0] == number));
    assert_eq!(overlapped(&metrics), 0);
    assert!(metrics.read_ring_refused.get().is_none(), "nobody asked the kernel");
}

#[test]
fn direct_reads_overlap_too() {
    let directory = Directory::new("direct");
    let pool = BufferPool::new(ALIGNMENT);
    directory.file("file", 40).sync().unwrap();
    let Some(file) = LinuxStorage.open(&directory.0.join("file"), OpenMode::ReadMedium).unwrap() else { return };
    let (rings, gate, _) = rings();
    let ended = rings.read(&gate, (0..40).map(|number| page(&pool, &file, number)).collect());
    assert!(ended.iter().enumerate().all(|(at, read)| read.as_ref().unwrap().filled()[0] == at as u8));
}
