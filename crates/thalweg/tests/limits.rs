//! A database under limits that the operating system sets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use thalweg::Database;

const ADDRESS_SPACE_KIB: u32 = 600 << 10;

/// Loads 100 MB and reads them, with default options.
fn load_and_read(directory: &str) {
    let database = Database::open(directory).unwrap();
    let keyspace = database.keyspace("k").unwrap();
    let key = |number: u32| number.wrapping_mul(0x9e37_79b1).to_be_bytes();
    for number in 0..100_000_u32 {
        keyspace.insert(key(number), number.to_le_bytes().repeat(250)).unwrap();
    }
    for number in 0..100_000_u32 {
        assert_eq!(keyspace.get(key(number)).unwrap().unwrap()[..4], number.to_le_bytes());
    }
    assert_eq!(keyspace.iter().count(), 100_000);
    database.close().unwrap();
}

#[test]
fn an_address_space_of_600_mb_is_enough() {
    if let Ok(directory) = std::env::var("THALWEG_TEST_LIMITED") {
        return load_and_read(&directory);
    }
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new("sh")
        .args(["-c", &format!("ulimit -v {ADDRESS_SPACE_KIB} && exec \"$@\"",), "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "an_address_space_of_600_mb_is_enough", "--nocapture"])
        .env("THALWEG_TEST_LIMITED", directory.path())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
