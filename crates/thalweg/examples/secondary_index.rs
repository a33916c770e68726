//! A secondary index: users by number, and found by their town.
//!
//! The index is a keyspace of its own. A key is the town, a zero byte and the user's number; its value is empty. A
//! batch changes user and index together, so that no crash leaves one without the other.
//!
//! ```text
//! cargo run -p thalweg --example secondary_index
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use thalweg::{Database, Keyspace, WriteBatch};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

struct Users {
    db: Database,
    by_number: Keyspace,
    by_town: Keyspace,
}

fn run(path: &Path) -> Outcome<()> {
    let db = Database::open(path)?;
    let users = Users { by_number: db.keyspace("users")?, by_town: db.keyspace("users by town")?, db };
    for (number, town) in [(1, "Basel"), (2, "Mainz"), (3, "Basel"), (4, "Baselland")] {
        users.put(number, town)?;
    }
    assert_eq!(users.in_town("Basel")?, [1, 3]);

    // Who moves leaves the old town's entry and gets one in the new town.
    users.put(3, "Mainz")?;
    assert_eq!((users.in_town("Basel")?, users.in_town("Mainz")?), (vec![1], vec![2, 3]));
    assert!(users.remove(2)? && !users.remove(2)?);
    assert_eq!(users.in_town("Mainz")?, [3]);
    println!("in Basel: {:?}, in Mainz: {:?}", users.in_town("Basel")?, users.in_town("Mainz")?);
    Ok(users.db.close()?)
}

impl Users {
    /// One thread at a time: the town before is read, and must not change until the batch is in.
    fn put(&self, number: u64, town: &str) -> Outcome<()> {
        let mut batch = self.db.batch();
        self.leave_town(&mut batch, number)?;
        batch.insert(&self.by_number, number.to_be_bytes(), town)?;
        batch.insert(&self.by_town, entry(town, number), "")?;
        Ok(batch.commit()?)
    }

    fn remove(&self, number: u64) -> Outcome<bool> {
        let mut batch = self.db.batch();
        let was_there = self.leave_town(&mut batch, number)?;
        batch.remove(&self.by_number, number.to_be_bytes())?;
        batch.commit()?;
        Ok(was_there)
    }

    fn leave_town(&self, batch: &mut WriteBatch, number: u64) -> Outcome<bool> {
        let Some(town) = self.by_number.get(number.to_be_bytes())? else { return Ok(false) };
        batch.remove(&self.by_town, entry(std::str::from_utf8(&town)?, number))?;
        Ok(true)
    }

    fn in_town(&self, town: &str) -> Outcome<Vec<u64>> {
        let prefix = [town.as_bytes(), b"\0"].concat();
        let mut numbers = Vec::new();
        for key in self.by_town.prefix(&prefix).keys() {
            let number = key?.get(prefix.len()..).and_then(|bytes| bytes.try_into().ok()).ok_or("a short key")?;
            numbers.push(u64::from_be_bytes(number));
        }
        Ok(numbers)
    }
}

fn entry(town: &str, number: u64) -> Vec<u8> {
    [town.as_bytes(), b"\0", &number.to_be_bytes()].concat()
}
