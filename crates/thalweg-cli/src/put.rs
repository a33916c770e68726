//! `thalweg put`: writes one key, or one entry of a directory.
//!
//! The clean close at the end makes the write durable; with `--sync` it is durable before.

use crate::args::Put;
use crate::line::VALUE_BYTES_MAX;
use crate::open;
use crate::report::{Failure, say};
use crate::spelling::Spelling;
use std::io::{self, IsTerminal, Read};
use thalweg::{Durability, WriteOptions};

pub fn run(args: &Put) -> Result<(), Failure> {
    let spelling = Spelling::of_arguments(args.target.escaped);
    let key = spelling.argument("key", &args.key)?;
    let name = spelling.name(&args.target.keyspace)?;
    let source = &args.target.source;
    // Refuse a missing database before reading a value from a pipe.
    let is_there = open::is_there(source)?;
    if !is_there && !args.create {
        let path = source.database.display();
        return Err(Failure::NotThere(format!(
            "there is no database in {path}; check the path, or create one with --create or `thalweg import DB FILE`"
        )));
    }
    let value = match &args.value {
        Some(value) if value != "-" => spelling.argument("value", value)?,
        _ => standard_input()?,
    };
    let database = if is_there { open::for_writing(source)? } else { open::create(source, |builder| builder)? };
    let mut batch = database.batch();
    if let Some(directory) = args.directory {
        let files = open::directories_for_writing(&database, &name, args.create)?;
        batch.insert_entry(&files, directory, &key, &value)?;
    } else {
        let keyspace = open::keyspace_for_writing(&database, &name, args.create)?;
        batch.insert(&keyspace, &key, &value)?;
    }
    let options = if args.sync { Durability::Sync.into() } else { WriteOptions::new() };
    batch.commit_with(options)?;
    Ok(database.close()?)
}

/// Reads all of standard input. Refuses more than a value can have.
fn standard_input() -> Result<Vec<u8>, Failure> {
    if io::stdin().is_terminal() {
        say("the value is read from the terminal, up to Ctrl-D at the beginning of a line");
    }
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
