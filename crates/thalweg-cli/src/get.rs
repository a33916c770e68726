//! `thalweg get`: the value of one key.

use crate::args::Get;
use crate::escape::escape;
use crate::open;
use crate::report::Failure;
use std::io::Write;

pub fn run(args: &Get, output: &mut dyn Write) -> Result<(), Failure> {
    let key = open::argument_bytes("key", &args.key)?;
    let (_database, keyspace) = open::keyspace_for_reading(&args.target)?;
    let Some(value) = keyspace.get(&key)? else {
        return Err(Failure::NotThere(format!(
            "there is no key {} in keyspace {}",
            escape(&key),
            args.target.keyspace
        )));
    };
    if args.raw {
        output.write_all(&value)?;
    } else {
        writeln!(output, "{}", escape(&value))?;
    }
    Ok(())
}
