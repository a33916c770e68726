//! Options for a use: a small database in a program, and a large one that is written fast.
//!
//! Options are not stored: each open may choose others. `validate` refuses wrong ones without touching a file, and
//! `described` gives all of them for a log.
//!
//! ```text
//! cargo run -p thalweg --example tuning
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::time::Duration;
use thalweg::{Builder, CompactionPolicy, Compression, Database, Durability};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

/// Little memory, and a short window in which a power cut may take writes.
fn small(path: &Path) -> Builder {
    Database::builder(path)
        .memtable_bytes(1 << 20)
        .block_cache_bytes(4 << 20)
        .log_segment_bytes(1 << 20)
        .log_sync_interval(Some(Duration::from_millis(20)))
}

/// Memory for many writes, more threads, and levels 0 and 1 without compression.
fn fast(path: &Path) -> Builder {
    Database::builder(path)
        .memtable_bytes(64 << 20)
        .block_cache_bytes(512 << 20)
        .compaction_workers(2)
        .io_depth(32)
        .compression_per_level(vec![Compression::None, Compression::None, Compression::Lz4])
}

fn run(path: &Path) -> Outcome<()> {
    fill(small(path).open()?)?;
    fill(fast(path).open()?)?;
    // The data stay as they are when another policy takes over the levels.
    fill(small(path).compaction_policy(CompactionPolicy::VLSM).open()?)?;

    let wrong = small(path).log_segment_bytes(1_000).validate().err().ok_or("a segment is a multiple of 32 KiB")?;
    println!("refused: {wrong}");
    for (option, value) in fast(path).durability(Durability::Sync).described() {
        println!("{option} = {value}");
    }
    Ok(())
}

fn fill(db: Database) -> Outcome<()> {
    let numbers = db.keyspace("numbers")?;
    for number in 0..20_000_u32 {
        numbers.insert(number.to_be_bytes(), [7; 100])?;
    }
    db.flush()?;
    db.wait_for_compactions()?;
    assert_eq!(numbers.iter().try_count()?, 20_000);
    println!("{}", db.draw_levels());
    Ok(db.close()?)
}
