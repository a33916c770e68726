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
        _ => standard_input(&spelling)?,
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

/// Reads the value from standard input: all bytes as they are; with `--escaped` escaped text, of which one newline at
/// the end is dropped, as it ends the line. Refuses more than a value can have.
fn standard_input(spelling: &Spelling) -> Result<Vec<u8>, Failure> {
    if io::stdin().is_terminal() {
        say("the value is read from the terminal, up to Ctrl-D at the beginning of a line");
    }
    // With --escaped a byte takes up to four characters, \xNN.
    let bytes_max = if spelling.is_escaped() { 4 * VALUE_BYTES_MAX + 1 } else { VALUE_BYTES_MAX };
    let mut input = Vec::new();
    io::stdin()
        .take(bytes_max as u64 + 1)
        .read_to_end(&mut input)
        .map_err(|error| Failure::io("read", "standard input", &error))?;
    let too_long =
        || Failure::Usage(format!("the value is longer than {VALUE_BYTES_MAX} bytes; divide it over several keys"));
    if input.len() > bytes_max {
        return Err(too_long());
    }
    if !spelling.is_escaped() {
        return Ok(input);
    }
    let line = input.strip_suffix(b"\n").unwrap_or(&input);
    let value = spelling.typed(line).map_err(|why| Failure::Usage(format!("the value cannot be read: {why}")))?;
    if value.len() > VALUE_BYTES_MAX { Err(too_long()) } else { Ok(value.into_owned()) }
}
