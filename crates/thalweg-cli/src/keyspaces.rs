//! `thalweg keyspaces`: the names, a line each, sorted.

use crate::args::Keyspaces;
use crate::escape::escape;
use crate::open;
use crate::report::Failure;
use std::io::Write;

pub fn run(args: &Keyspaces, output: &mut dyn Write) -> Result<(), Failure> {
    for name in open::for_reading(&args.source)?.keyspaces() {
        writeln!(output, "{}", escape(name.as_bytes()))?;
    }
    Ok(())
}
