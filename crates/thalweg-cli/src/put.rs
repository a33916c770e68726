//! `thalweg put` and `thalweg remove`: one write.
//!
//! Without `--sync` the write is made durable by the clean close at the end; with it, before the close.

use crate::args::{Put, Remove};
use crate::line::VALUE_BYTES_MAX;
use crate::open;
use crate::report::Failure;
use std::io::{self, Read};
use thalweg::{Database, Durability, WriteBatch};

pub fn run(args: &Put) -> Result<(), Failure> {
    let key = open::argument_bytes("key", &args.key)?;
    let value = if args.value == "-" { standard_input()? } else { open::argument_bytes("value", &args.value)? };
    let database = open::for_writing(&args.target.source, args.create, |builder| builder)?;
    let keyspace = database.keyspace(&args.target.keyspace)?;
    let mut batch = database.batch();
    batch.insert(&keyspace, &key, &value)?;
    finish(database, batch, args.sync)
}

/// `thalweg remove`.
pub fn remove(args: &Remove) -> Result<(), Failure> {
    let key = open::argument_bytes("key", &args.key)?;
    let database = open::for_writing(&args.target.source, false, |builder| builder)?;
    let keyspace = open::existing(&database, &args.target.keyspace)?;
    let mut batch = database.batch();
    batch.remove(&keyspace, &key)?;
    finish(database, batch, args.sync)
}

fn finish(database: Database, mut batch: WriteBatch, sync: bool) -> Result<(), Failure> {
    if sync {
        batch.durability(Durability::Sync);
    }
    batch.commit()?;
    Ok(database.close()?)
}

/// All of standard input, refused when it is longer than a value can be.
fn standard_input() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    io::stdin()
        .take(VALUE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut value)
        .map_err(|error| Failure::io("read", "standard input", &error))?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(Failure::Usage(format!(
            "the value is longer than {VALUE_BYTES_MAX} bytes; divide it over several keys"
        )));
    }
    Ok(value)
}
