//! Measurements of several sensors over time: keys that sort by sensor and then by time, read by prefix and by range,
//! oldest or newest first.
//!
//! A key is the sensor's name, a zero byte, and the time as a big-endian number: the order of the bytes is the order of
//! the numbers, so that one sensor's measurements lie side by side in the order of time.
//!
//! ```text
//! cargo run -p thalweg --example time_series
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use thalweg::{Database, Entry, Keyspace};

const SENSORS: [&str; 3] = ["basel", "basel-west", "mainz"];
const START_S: u64 = 1_750_000_000;
const INTERVAL_S: u64 = 900;
const MEASUREMENTS: u64 = 10 * 96;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Result<(), Box<dyn Error>> {
    let db = Database::open(path)?;
    let levels = db.keyspace("water levels")?;
    record(&db, &levels)?;

    for sensor in SENSORS {
        println!("{sensor}: {} measurements", levels.prefix(prefix(sensor)).try_count()?);
    }

    println!("basel, the newest three:");
    for entry in levels.prefix(prefix("basel")).rev().take(3) {
        let (time_s, level_mm) = measurement(&entry?)?;
        println!("  at {time_s} s: {level_mm} mm");
    }

    let (from_s, to_s) = (START_S + 2 * 86_400, START_S + 3 * 86_400);
    let mut day = Vec::new();
    for entry in levels.range(key("mainz", from_s)..key("mainz", to_s)) {
        day.push(measurement(&entry?)?.1);
    }
    let mean_mm = day.iter().sum::<u64>() / day.len().max(1) as u64;
    println!("mainz, the third day: {} measurements, {mean_mm} mm in the mean", day.len());

    // What is old goes: the range is read as of one moment, so removing what it gives does not disturb it.
    let mut batch = db.batch();
    let mut removed = 0;
    for entry in levels.range(key("basel", 0)..key("basel", START_S + 9 * 86_400)) {
        batch.remove(&levels, entry?.0)?;
        removed += 1;
    }
    batch.commit()?;
    let left = levels.prefix(prefix("basel")).try_count()?;
    println!("basel: {removed} measurements older than the last day removed, {left} left");
    drop(levels);
    db.close()?;
    Ok(())
}

/// One batch an interval: either all sensors' measurements of that time are there, or none.
fn record(db: &Database, levels: &Keyspace) -> thalweg::Result<()> {
    for number in 0..MEASUREMENTS {
        let mut batch = db.batch();
        for (place, sensor) in (1_u64..).zip(SENSORS) {
            let level_mm = 2_000 * place + (number * 37 * place) % 500;
            batch.insert(levels, key(sensor, START_S + number * INTERVAL_S), level_mm.to_be_bytes())?;
        }
        batch.commit()?;
    }
    Ok(())
}

/// What the keys of one sensor begin with. The zero byte keeps `basel` apart from `basel-west`.
fn prefix(sensor: &str) -> Vec<u8> {
    [sensor.as_bytes(), &[0]].concat()
}

fn key(sensor: &str, time_s: u64) -> Vec<u8> {
    [prefix(sensor).as_slice(), &time_s.to_be_bytes()].concat()
}

/// Time and level of an entry.
fn measurement((key, value): &Entry) -> Result<(u64, u64), Box<dyn Error>> {
    let time = key.last_chunk().ok_or("a key without a time")?;
    Ok((u64::from_be_bytes(*time), u64::from_be_bytes(value.as_ref().try_into()?)))
}
