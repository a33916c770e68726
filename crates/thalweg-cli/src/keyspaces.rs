//! `thalweg keyspaces` lists names, sorted, a line each; the line of a directory keyspace ends in a tab and
//! `directory`. `thalweg drop-keyspace` removes a keyspace and its data.

use crate::args::{DropKeyspace, Keyspaces};
use crate::numbers::{counted, size};
use crate::open;
use crate::report::{Failure, say};
use crate::spelling::{Spelling, shown};
use std::io::Write;
use thalweg::{Error, Statistics};

pub fn run(args: &Keyspaces, output: &mut dyn Write) -> Result<(), Failure> {
    let spelling = Spelling::new(args.escaped, "--escaped prints names that --keyspace takes with --escaped");
    let mut keyspaces = open::for_reading(&args.source)?.statistics().keyspaces;
    keyspaces.sort_by(|a, b| a.name.cmp(&b.name));
    let mut line = String::new();
    for keyspace in keyspaces {
        line.clear();
        spelling.push(keyspace.name.as_bytes(), &mut line);
        // A name has no raw tab here: a tab in a name is printed as an escape.
        let kind = if keyspace.directories.is_some() { "\tdirectory" } else { "" };
        writeln!(output, "{line}{kind}")?;
    }
    Ok(())
}

/// `thalweg drop-keyspace`.
pub fn drop_keyspace(args: &DropKeyspace, output: &mut dyn Write) -> Result<(), Failure> {
    let name = Spelling::of_arguments(args.escaped).name(&args.keyspace)?;
    if !args.yes {
        let database = open::for_reading(&args.source)?;
        let held = held_by(&database.statistics(), &name)?;
        return Err(Failure::Usage(format!(
            "keyspace {} has {held}; to remove it with everything in it, say --yes",
            shown(name.as_bytes())
        )));
    }
    let database = open::for_writing(&args.source)?;
    let held = held_by(&database.statistics(), &name)?;
    database.drop_keyspace(&name)?;
    writeln!(output, "dropped keyspace {} with {held}, durable", shown(name.as_bytes()))?;
    // The keyspace is gone from here on. Its space is freed now if possible, otherwise later.
    if let Err(error) = database.flush().and_then(|()| database.settle()) {
        say(&format!("its space is given back later, because: {error}"));
    }
    Ok(database.close()?)
}

/// Describes what a keyspace holds.
fn held_by(statistics: &Statistics, name: &str) -> Result<String, Failure> {
    let tables = tables_of(statistics, name)?;
    Ok(tables.unwrap_or_else(|| "no tables, only what lies in the log".into()))
}

/// Describes the tables of a keyspace, if it has any.
pub fn tables_of(statistics: &Statistics, name: &str) -> Result<Option<String>, Failure> {
    let found = statistics.keyspaces.iter().find(|keyspace| keyspace.name == name);
    let keyspace = found.ok_or_else(|| Error::NoKeyspace(name.into()))?;
    let levels = || keyspace.levels.iter().chain([&keyspace.fast]);
    let sum = |of: fn(&thalweg::LevelStatistics) -> u64| levels().map(of).sum::<u64>();
    let (tables, bytes) = (sum(|level| level.tables), sum(|level| level.bytes));
    Ok((tables > 0).then(|| format!("{} ({})", counted(tables, "table"), size(bytes))))
}
