//! `thalweg compact`: compacts a keyspace, or a range of its keys, down to the last level, and gives the space back.

use crate::args::Compact;
use crate::bounds::Bounds;
use crate::numbers::{counted, duration, size};
use crate::open;
use crate::report::{Failure, say};
use crate::signals::{Stop, stop_on_signals, stopped_by};
use crate::spelling::{Spelling, shown};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::{Database, DirectoryKeyspace, Keyspace, KeyspaceStatistics};

const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

pub fn run(args: &Compact, output: &mut dyn Write) -> Result<(), Failure> {
    let spelling = Spelling::of_arguments(args.target.escaped);
    let name = spelling.name(&args.target.keyspace)?;
    let bounds = Bounds::new(&args.range, &spelling)?;
    let stop = stop_on_signals()?;
    let database = open::for_writing(&args.target.source)?;
    let what = What::open(&database, &name, bounds, args.range.is_given())?;
    let start = Instant::now();
    let before = held_by(&database, &name);
    compact(&database, what, &stop)?;
    let held = held_by(&database, &name);
    let took = duration(start.elapsed());
    writeln!(output, "compacted keyspace {} in {took}: {before} became {held}", shown(name.as_bytes()))?;
    Ok(database.close()?)
}

/// What is compacted.
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
    let (sender, done) = channel();
    let background = database.clone();
    thread::spawn(move || {
        // After a signal the result is not needed.
        let _ = sender.send(what.compact().and_then(|()| background.settle()));
    });
    loop {
        match done.recv_timeout(SIGNAL_CHECK_INTERVAL) {
            Ok(done) => return Ok(done?),
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) != 0 => {
                say("stopped; what is compacted so far stays compacted");
                database.clone().close()?;
                return Err(stopped_by(stop));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// The tables of a keyspace, in words.
fn held_by(database: &Database, name: &str) -> String {
    let keyspaces = database.statistics().keyspaces;
    let sum = |keyspace: &KeyspaceStatistics| {
        keyspace.levels.iter().fold((0, 0), |(tables, bytes), level| (tables + level.tables, bytes + level.bytes))
    };
    let (tables, bytes) = keyspaces.iter().find(|keyspace| keyspace.name == name).map(sum).unwrap_or_default();
    format!("{} ({})", counted(tables, "table"), size(bytes))
}
