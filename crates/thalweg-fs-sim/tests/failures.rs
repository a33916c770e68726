//! An error of the disk at each call of a promotion and of a sync: what was durable stays, and what a sync calls
//! durable is.

use std::sync::Arc;
use thalweg_fs::{Limits, NewInode, OpenOptions, ROOT, Result, Volume};
use thalweg_fs_sim::{CALLERS, End, MemoryDisk, VirtualClock};

const FIRST: [u8; 90] = [7; 90];
/// More calls than either makes.
const CALLS: u64 = 12;

fn opened(disk: &MemoryDisk) -> Result<Volume> {
    let options =
        OpenOptions::new().limits(Limits { rows_bytes_max: 100, rewritten_bytes_max: 100, ..Limits::default() });
    options.open_on(Box::new(disk.rows()), Box::new(disk.objects()))
}

/// A file with 90 bytes in rows, durable.
fn made(seed: u64) -> Result<(MemoryDisk, Volume, u64)> {
    let clock = Arc::new(VirtualClock::default());
    let disk = MemoryDisk::new(seed, false, &clock);
    Volume::format_on(&disk.rows(), Default::default(), &*clock)?;
    let volume = opened(&disk)?;
    let file = volume.create(&CALLERS[0], ROOT, b"file", NewInode::file(0o644))?.ino;
    volume.write(&CALLERS[0], file, 0, &FIRST)?;
    volume.sync()?;
    Ok((disk, volume, file))
}

fn found(disk: &MemoryDisk) -> Result<Vec<u8>> {
    let volume = opened(disk)?;
    let file = volume.lookup(&CALLERS[0], ROOT, b"file")?;
    volume.read(file.ino, 0, 1000)
}

#[test]
fn a_promotion_that_fails_at_any_call_keeps_what_was_durable() -> Result<()> {
    let mut failed = 0;
    for (seed, call) in (1..=20).flat_map(|seed| (1..=CALLS).map(move |call| (seed, call))) {
        for how in [End::Kill, End::PowerCut] {
            let (disk, volume, file) = made(seed)?;
            disk.fail_in(call);
            failed += u32::from(volume.append(&CALLERS[0], file, &[8; 20]).is_err());
            drop(volume);
            disk.end(how);
            let found = found(&disk)?;
            assert_eq!(found.get(..90), Some(&FIRST[..]), "seed {seed}, call {call}, {how:?}");
        }
    }
    assert!(failed > 100, "only {failed} promotions failed");
    Ok(())
}

#[test]
fn a_sync_that_succeeds_after_one_that_failed_is_no_lie() -> Result<()> {
    let mut failed = 0;
    for (seed, call) in (1..=20).flat_map(|seed| (1..=CALLS).map(move |call| (seed, call))) {
        let (disk, volume, file) = made(seed)?;
        volume.append(&CALLERS[0], file, &[8; 20])?;
        volume.sync()?;
        volume.append(&CALLERS[0], file, &[9; 20])?;
        disk.fail_in(call);
        let first = if call % 2 == 0 { volume.work().map(drop) } else { volume.sync_file(file) };
        failed += u32::from(first.is_err());
        let second = if seed % 2 == 0 { volume.sync_file(file) } else { volume.sync() };
        drop(volume);
        disk.end(End::PowerCut);
        let found = found(&disk)?;
        if second.is_ok() {
            let expected = [&FIRST[..], &[8; 20], &[9; 20]].concat();
            assert_eq!(found, expected, "seed {seed}, call {call}: a sync said that it is durable");
        }
    }
    assert!(failed > 10, "only {failed} syncs failed");
    Ok(())
}
