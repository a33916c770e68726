//! A sync of the log that ends while a promotion copies: what it made durable must not go with the promotion.

use std::sync::Arc;
use thalweg_fs::{Limits, MetaStore, NewInode, OpenOptions, ROOT, Result, Volume};
use thalweg_fs_sim::{CALLERS, End, HookedObjects, MemoryDisk, ObjectCall, VirtualClock};

const FIRST: [u8; 90] = [7; 90];

fn promote_and_cut(seed: u64) -> Result<Vec<u8>> {
    let clock = Arc::new(VirtualClock::default());
    let disk = MemoryDisk::new(seed, false, &clock);
    Volume::format_on(&disk.rows(), Default::default(), &*clock)?;
    let options =
        || OpenOptions::new().limits(Limits { rows_bytes_max: 100, rewritten_bytes_max: 100, ..Limits::default() });
    // The log is synced, for somebody else, whenever an object gets its size.
    let rows = disk.rows();
    let hook = move |call| if call == ObjectCall::Truncate { rows.promise()?.wait() } else { Ok(()) };
    let objects = HookedObjects { objects: disk.objects(), hook };
    let volume = options().open_on(Box::new(disk.rows()), Box::new(objects))?;
    let me = &CALLERS[0];
    let file = volume.create(me, ROOT, b"file", NewInode::file(0o644))?.ino;
    volume.write(me, file, 0, &FIRST)?;
    volume.append(me, file, &[8; 20])?;
    drop(volume);
    disk.end(End::PowerCut);
    let volume = options().open_on(Box::new(disk.rows()), Box::new(disk.objects()))?;
    let file = volume.lookup(me, ROOT, b"file")?;
    volume.read(file.ino, 0, FIRST.len())
}

#[test]
fn rows_that_become_durable_during_their_promotion_are_not_lost() {
    for seed in 1..=100 {
        match promote_and_cut(seed) {
            Ok(bytes) => assert_eq!(bytes, FIRST, "seed {seed}"),
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
}
