//! A recount meets an operation that has changed its rows, and not yet the number of inodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg::Slice;
use thalweg_fs::{
    Batch, Directories, Ino, Listing, MetaStore, NewInode, OpenOptions, Promise, ROOT, Result, RowReader, Rows, Space,
    Volume,
};
use thalweg_fs_sim::{CALLERS, MemoryDisk, VirtualClock, check_totals};

/// Rows of which a commit returns long after its change is there.
struct Slow<R> {
    rows: R,
    is_slow: Arc<AtomicBool>,
    has_changed: Arc<AtomicBool>,
}

impl<R: RowReader> RowReader for Slow<R> {
    fn entry(&self, directory: Ino, name: &[u8]) -> Result<Option<Slice>> {
        self.rows.entry(directory, name)
    }

    fn list(&self, directory: Ino, cursor: u64, wanted: usize) -> Listing<'_> {
        self.rows.list(directory, cursor, wanted)
    }

    fn directories(&self) -> Directories<'_> {
        self.rows.directories()
    }

    fn row(&self, space: Space, key: &[u8]) -> Result<Option<Slice>> {
        self.rows.row(space, key)
    }

    fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Rows<'_> {
        self.rows.rows(space, from, to)
    }
}

impl<R: MetaStore> MetaStore for Slow<R> {
    fn snapshot(&self) -> Result<Box<dyn RowReader + '_>> {
        self.rows.snapshot()
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        self.rows.commit(batch)?;
        if self.is_slow.load(Ordering::SeqCst) {
            self.has_changed.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn promise(&self) -> Result<Box<dyn Promise>> {
        self.rows.promise()
    }

    fn close(&self) -> Result<()> {
        self.rows.close()
    }
}

#[test]
fn a_recount_counts_an_operation_in_flight_once() -> Result<()> {
    let clock = Arc::new(VirtualClock::default());
    let disk = MemoryDisk::new(1, false, &clock);
    Volume::format_on(&disk.rows(), Default::default(), &*clock)?;
    let me = &CALLERS[0];
    let left = OpenOptions::new().open_on(Box::new(disk.rows()), Box::new(disk.objects()))?;
    left.create(me, ROOT, b"removed", NewInode::directory(0o755))?;
    left.create(me, ROOT, b"kept", NewInode::directory(0o755))?;
    drop(left);
    let (is_slow, has_changed) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let operations: [fn(&Volume) -> Result<()>; 2] = [
        |volume| volume.create(&CALLERS[0], ROOT, b"created", NewInode::file(0o644)).map(drop),
        |volume| volume.remove_directory(&CALLERS[0], ROOT, b"removed"),
    ];
    for operation in operations {
        is_slow.store(false, Ordering::SeqCst);
        has_changed.store(false, Ordering::SeqCst);
        let rows = Slow { rows: disk.rows(), is_slow: Arc::clone(&is_slow), has_changed: Arc::clone(&has_changed) };
        let volume = OpenOptions::new().open_on(Box::new(rows), Box::new(disk.objects()))?;
        is_slow.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let done = scope.spawn(|| operation(&volume));
            while !has_changed.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let counted = volume.recount(&|| true).map(|difference| assert!(difference.is_some()));
            done.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(counted)
        })?;
        if let Err(what) = check_totals(&volume) {
            panic!("{what}");
        }
    }
    Ok(())
}
