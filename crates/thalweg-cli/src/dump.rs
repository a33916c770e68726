//! `thalweg dump`: prints one file of a database in readable form.

use crate::args::Dump;
use crate::report::Failure;
use std::io::{self, Write};

pub fn run(args: &Dump, output: &mut dyn Write) -> Result<(), Failure> {
    let name = args.file.display().to_string();
    match std::fs::metadata(&args.file) {
        Ok(found) if found.is_dir() => {
            return Err(Failure::Usage(format!(
                "{name} is a directory; name one file of a database: a log segment, a manifest, a table or a fast table"
            )));
        }
        Ok(found) if found.is_file() => {}
        Ok(_) => {
            return Err(Failure::Usage(format!("{name} is a pipe, a socket or a device; name a file of a database")));
        }
        Err(error) => return Err(Failure::io("read", &name, &error)),
    }
    // An error of the output is kept apart from an error of the file.
    let mut output_error: Option<io::Error> = None;
    let dumped = thalweg::dump(&args.file, &mut |line| {
        writeln!(output, "{line}").map_err(|error| {
            let same = io::Error::from(error.kind());
            output_error = Some(error);
            same
        })
    });
    match (output_error, dumped) {
        (Some(error), _) => Err(error.into()),
        (None, dumped) => Ok(dumped?),
    }
}
