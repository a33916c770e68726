//! `thalweg get`: prints the value of one key.

use crate::args::Get;
use crate::open;
use crate::report::Failure;
use crate::spelling::{Spelling, shown};
use std::io::Write;
use thalweg::Readable;

pub fn run(args: &Get, output: &mut dyn Write) -> Result<(), Failure> {
    let spelling = Spelling::new(args.target.escaped, "--raw prints them as they are");
    let key = spelling.argument("key", &args.key)?;
    let name = spelling.name(&args.target.keyspace)?;
    let (found, place) = match args.directory {
        Some(directory) => {
            let (_database, files) = open::directories_for_reading(&args.target.source, &name)?;
            (files.get(directory, &key)?, format!("directory {directory} of keyspace"))
        }
        None => {
            let (_database, keyspace) = open::keyspace_for_reading(&args.target.source, &name)?;
            (keyspace.get(&key)?, "keyspace".into())
        }
    };
    let Some(value) = found else {
        let (key, name) = (shown(&key), shown(name.as_bytes()));
        return Err(Failure::NotThere(format!("there is no key {key} in {place} {name}")));
    };
    if args.raw {
        output.write_all(&value)?;
    } else {
        writeln!(output, "{}", spelling.whole(&value))?;
    }
    Ok(())
}
