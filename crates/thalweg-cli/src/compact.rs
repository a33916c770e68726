//! `thalweg compact`: compacts a keyspace, or a range of its keys, down to the last level, and gives the space back.

use crate::args::Compact;
use crate::bounds::Bounds;
use crate::keyspaces::tables_of;
use crate::numbers::duration;
use crate::open;
use crate::report::{Failure, say};
use crate::signals::{Stop, stop_on_signals, stopped_by, unless_stopped};
use crate::spelling::{Spelling, shown};
use std::io::Write;
use std::time::Instant;
use thalweg::{Database, DirectoryKeyspace, Keyspace};

pub fn run(args: &Compact, output: &mut dyn Write) -> Result<(), Failure> {
    let spelling = Spelling::of_arguments(args.target.escaped);
    let name = spelling.name(&args.target.keyspace)?;
    let bounds = Bounds::new(&args.range, &spelling)?;
    let stop = stop_on_signals()?;
    let database = open::for_writing(&args.target.source)?;
    let what = What::open(&database, &name, bounds, args.range.is_given())?;
    let start = Instant::now();
    let held = || Ok::<_, Failure>(tables_of(&database.statistics(), &name)?.unwrap_or_else(|| "no tables".into()));
    let before = held()?;
    compact(&database, what, &stop)?;
    let after = held()?;
    let took = duration(start.elapsed());
    writeln!(output, "compacted keyspace {} in {took}: {before} became {after}", shown(name.as_bytes()))?;
    Ok(database.close()?)
}

/// The keys to compact.
enum What {
    Range(Keyspace, Bounds),
    Directories(DirectoryKeyspace),
}

impl What {
    fn open(database: &Database, name: &str, bounds: Bounds, is_range: bool) -> Result<What, Failure> {
        match database.existing_keyspace(name) {
            Err(thalweg::Error::InvalidInput(_)) if !is_range => {
                Ok(What::Directories(open::existing_directories(database, name)?))
            }
            Err(thalweg::Error::InvalidInput(_)) => Err(Failure::Usage(format!(
                "{} is a directory keyspace, which is compacted as a whole: leave --prefix, --from and --to out",
                shown(name.as_bytes())
            ))),
            found => {
                found?;
                Ok(What::Range(open::existing(database, name)?, bounds))
            }
        }
    }

    fn compact(&self) -> thalweg::Result<()> {
        match self {
            What::Range(keyspace, bounds) => keyspace.compact_range(bounds.pair()),
            What::Directories(files) => files.compact(),
        }
    }
}

/// Compacts and removes what was replaced, until that is done or a signal asks to stop.
fn compact(database: &Database, what: What, stop: &Stop) -> Result<(), Failure> {
    let background = database.clone();
    if let Some(done) = unless_stopped(stop, move || what.compact().and_then(|()| background.settle())) {
        return Ok(done?);
    }
    say("stopped; what is compacted so far stays compacted");
    database.clone().close()?;
    Err(stopped_by(stop))
}
