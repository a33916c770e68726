//! A sync of the volume while the background has taken an object off the list of those to be synced, and syncs it
//! still: the sync must not return before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use thalweg_fs::{Limits, NewInode, OpenOptions, ROOT, Result, Volume};
use thalweg_fs_sim::{CALLERS, End, HookedObjects, MemoryDisk, ObjectCall, VirtualClock};

/// How long the device takes for an object. A sync that does not wait returns in less than a thousandth of it.
const DEVICE_TIME: Duration = Duration::from_millis(200);
const BYTES: [u8; 300] = [7; 300];

#[test]
fn a_sync_waits_for_an_object_that_the_background_syncs() -> Result<()> {
    let clock = Arc::new(VirtualClock::default());
    let disk = MemoryDisk::new(1, false, &clock);
    Volume::format_on(&disk.rows(), Default::default(), &*clock)?;
    let (begun, ended) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
    let counts = (Arc::clone(&begun), Arc::clone(&ended));
    let hook = move |call| {
        match call {
            ObjectCall::Sync => {
                counts.0.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(DEVICE_TIME);
            }
            ObjectCall::Synced => _ = counts.1.fetch_add(1, Ordering::SeqCst),
            ObjectCall::Truncate => {}
        }
        Ok(())
    };
    let objects = HookedObjects { objects: disk.objects(), hook };
    let limits = Limits { rows_bytes_max: 100, rewritten_bytes_max: 100, ..Limits::default() };
    let volume = OpenOptions::new().limits(limits).open_on(Box::new(disk.rows()), Box::new(objects))?;
    let file = volume.create(&CALLERS[0], ROOT, b"file", NewInode::file(0o644))?.ino;
    // No row can be durable yet, so the promotion does not sync.
    volume.write(&CALLERS[0], file, 0, &BYTES)?;
    assert_eq!(begun.load(Ordering::SeqCst), 0);
    std::thread::scope(|scope| {
        let worked = scope.spawn(|| volume.work());
        while begun.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        volume.sync()?;
        assert_eq!(ended.load(Ordering::SeqCst), 1, "the sync returned before the object was synced");
        worked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(drop)
    })?;
    drop(volume);
    disk.end(End::PowerCut);
    let volume = OpenOptions::new().limits(limits).open_on(Box::new(disk.rows()), Box::new(disk.objects()))?;
    let found = volume.lookup(&CALLERS[0], ROOT, b"file")?;
    assert_eq!(volume.read(found.ino, 0, BYTES.len())?, BYTES);
    Ok(())
}
