//! [`settle`]: flushes the memtable, and waits until no compaction is due.
//!
//! LevelDB cannot wait for compactions. So its tables are looked at until no level is due by LevelDB's own rule. A
//! compaction that only reads asked for is not waited for.

use super::native::Database;
use super::shape::Shape;
use std::time::{Duration, Instant};

/// How long a due compaction may leave the levels as they are before it is given up.
const STUCK: Duration = Duration::from_secs(300);

/// Writes the memtable as a table. A compaction of a range that holds nothing does that first, and then nothing.
pub fn flush(database: &Database) {
    let beyond = [0xff; 64];
    database.compact_range(&beyond, &beyond);
}

/// Writes the memtable as a table, and waits until no compaction is due.
pub fn settle(database: &Database) -> Result<(), String> {
    flush(database);
    let mut shape = shape_of(database)?;
    let mut changed = Instant::now();
    let mut pause = Duration::from_millis(2);
    while shape.compaction_due() {
        if changed.elapsed() > STUCK {
            return Err(format!("a compaction is due and nothing changed for {} s", STUCK.as_secs()));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(200));
        let now = shape_of(database)?;
        if now != shape {
            (shape, changed) = (now, Instant::now());
        }
    }
    Ok(())
}

fn shape_of(database: &Database) -> Result<Shape, String> {
    let tables = database.property("leveldb.sstables");
    tables.as_deref().and_then(Shape::read).ok_or_else(|| "it does not tell its tables".to_owned())
}
