//! Fills the disk of a database until it refuses writes, removes half of the records, and continues to write.
//!
//! These must hold: a refusal is `NoSpace` and poisons nothing; every removal succeeds; the space is free again without
//! a reopen; nothing that was written is lost, and nothing that was removed comes back.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg::{Compression, Database, Error, ErrorKind, Keyspace, Readable};

/// Time within which freed space must be writable.
const ROOM_WITHIN: Duration = Duration::from_secs(120);

const VALUE_BYTES: usize = 200;

fn key(number: u64) -> [u8; 16] {
    // Scattered: each removal is in another table.
    let mut key = [0; 16];
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns bytes that no codec can compress.
fn value(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_add(1).wrapping_mul(0x2545_f491_4f6c_dd1d);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..VALUE_BYTES / 8).flat_map(|_| next()).collect()
}

/// Opens the database in `path`, with default options except the codec.
fn open(path: &Path) -> Result<(Database, Keyspace), Error> {
    let database = Database::builder(path).compression(Compression::None).open()?;
    let keyspace = database.keyspace("default")?;
    Ok((database, keyspace))
}

/// Writes records 0, 1, … to a new database until one is refused. Returns their number. `die`: the process aborts then.
///
/// # Errors
/// A refusal for another reason than a lack of space.
pub fn fill(path: &Path, die: bool) -> Result<u64, String> {
    let (database, keyspace) = open(path).map_err(|error| format!("the first open: {error}"))?;
    let mut number = 0;
    loop {
        match keyspace.insert(key(number), value(number)) {
            Ok(()) => number += 1,
            Err(error) if error.kind() == ErrorKind::NoSpace => break,
            Err(error) => return Err(format!("record {number}: {error}")),
        }
    }
    if die {
        let _ = writeln!(std::io::stdout(), "full {number}");
        std::process::abort();
    }
    database.close().map_err(|error| format!("a close on the full disk: {error}"))?;
    Ok(number)
}

/// Continues with a database that [`fill`] filled with `filled` records: removes every second one, and writes half as
/// many new ones as it removed. Does this twice, and verifies everything before and after a reopen.
///
/// # Errors
/// The requirement that does not hold.
pub fn remove_and_go_on(path: &Path, filled: u64) -> Result<(), String> {
    let (database, keyspace) = open(path).map_err(|error| format!("an open on the full disk: {error}"))?;
    expect(&keyspace, 0..filled, |_| true)?;
    for number in (0..filled).step_by(2) {
        keyspace.remove(key(number)).map_err(|error| format!("the removal of record {number}: {error}"))?;
    }
    let since = Instant::now();
    let end = filled + filled / 4;
    for number in filled..end {
        while let Err(error) = keyspace.insert(key(number), value(number)) {
            if error.kind() != ErrorKind::NoSpace {
                return Err(format!("record {number}: {error}"));
            }
            if since.elapsed() > ROOM_WITHIN {
                return Err(format!("record {number}: no room {} s after the removals", ROOM_WITHIN.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let is_there = |number: u64| number >= filled || number % 2 == 1;
    expect(&keyspace, 0..end, is_there)?;
    database.close().map_err(|error| format!("a close: {error}"))?;
    let (database, keyspace) = open(path).map_err(|error| format!("a reopen: {error}"))?;
    expect(&keyspace, 0..end, is_there)?;
    database.close().map_err(|error| format!("the last close: {error}"))
}

fn expect(
    keyspace: &Keyspace,
    mut numbers: std::ops::Range<u64>,
    is_there: impl Fn(u64) -> bool,
) -> Result<(), String> {
    let wrong = numbers.find_map(|number| match Readable::get(keyspace, key(number)) {
        Ok(found) if found.as_deref() == is_there(number).then(|| value(number)).as_deref() => None,
        Ok(found) => Some(format!("record {number} has {:?} bytes", found.map(|found| found.len()))),
        Err(error) => Some(format!("record {number}: {error}")),
    });
    wrong.map_or(Ok(()), Err)
}
