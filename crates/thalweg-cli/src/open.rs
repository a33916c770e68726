//! Opens a database as the command line says.
//!
//! Reading commands open read-only: they never create, change or remove a file. Writing commands create a database only
//! on request, and never in a directory that holds something else.

use crate::args::{Damage, FastTierPlace, Source};
use crate::report::{Failure, dangling, say};
use crate::spelling::shown;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use thalweg::{
    Builder, DamagePolicy, Database, DirectoryKeyspace, DirectorySnapshot, Error, FastTier, Keyspace, ReadOnlyDatabase,
    ReadOnlyKeyspace,
};

/// The smallest capacity of a fast tier that a command opens: four memtables. Otherwise the capacity is twice its
/// contents.
const FAST_TIER_BYTES_MIN: u64 = 256 << 20;

/// Opens a database to read it.
pub fn for_reading(source: &Source) -> Result<ReadOnlyDatabase, Failure> {
    let database = builder(source)?.open_read_only()?;
    tell_dropped(database.dropped_by_recovery());
    Ok(database)
}

/// Opens a database to read it, and its keyspace, which must exist.
pub fn keyspace_for_reading(source: &Source, name: &str) -> Result<(ReadOnlyDatabase, ReadOnlyKeyspace), Failure> {
    let database = for_reading(source)?;
    let keyspace = database.keyspace(name)?;
    Ok((database, keyspace))
}

/// As [`keyspace_for_reading`], for a directory keyspace.
pub fn directories_for_reading(source: &Source, name: &str) -> Result<(ReadOnlyDatabase, DirectorySnapshot), Failure> {
    let database = for_reading(source)?;
    let keyspace = database.existing_directory_keyspace(name)?;
    let keyspace = keyspace.ok_or_else(|| Error::NoKeyspace(name.into()))?;
    Ok((database, keyspace))
}

/// Opens a database that must exist, to write to it.
pub fn for_writing(source: &Source) -> Result<Database, Failure> {
    for_writing_tuned(source, |builder| builder)
}

/// As [`for_writing`], with the options that `tune` sets.
pub fn for_writing_tuned(source: &Source, tune: impl FnOnce(Builder) -> Builder) -> Result<Database, Failure> {
    let database = tune(builder(source)?).create_if_missing(false).open()?;
    tell_dropped(database.dropped_by_recovery());
    if source.place.fast_tier.is_none() && database.statistics().fast_tier.is_some() {
        say("the fast tier of this database is being emptied, because it was opened without --fast-tier DIR");
    }
    Ok(database)
}

/// Returns whether the path may hold a database. Refuses a directory that holds something else.
pub fn is_there(source: &Source) -> Result<bool, Failure> {
    expect_directory(&source.database)?;
    let path = &source.database;
    match fs::metadata(path.join("CURRENT")) {
        Ok(_) => return Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::io("look at", &path.join("CURRENT").display().to_string(), &error)),
    }
    match fs::read_dir(path).map(|names| names.flatten().find(|name| !is_begun(name))) {
        Ok(None) => Ok(false),
        Ok(Some(name)) => Err(Failure::Usage(format!(
            "{} is not empty and holds no database ({}); name a new or an empty directory",
            path.display(),
            name.file_name().display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::io("look at", &path.display().to_string(), &error)),
    }
}

/// Creates a database. An error says what is left of it.
pub fn create(source: &Source, tune: impl FnOnce(Builder) -> Builder) -> Result<Database, Failure> {
    let was_there = source.database.exists();
    tune(builder(source)?).create_if_missing(true).open().map_err(|error| {
        if !was_there && source.database.exists() && !matches!(error, Error::Locked { .. }) {
            say(&format!(
                "{} was begun and holds nothing: remove it, or run the command again to go on with it",
                source.database.display()
            ));
        }
        Failure::from(error)
    })
}

/// Returns the keyspace of that name. A missing one is created if `create` is set, or if the database has no keyspace
/// at all. Otherwise a mistyped name would make a new keyspace.
pub fn keyspace_for_writing(database: &Database, name: &str, create: bool) -> Result<Keyspace, Failure> {
    if let Some(keyspace) = database.existing_keyspace(name)? {
        return Ok(keyspace);
    }
    if !create && !database.keyspaces().is_empty() {
        return Err(no_keyspace(name));
    }
    Ok(database.keyspace(name)?)
}

/// As [`keyspace_for_writing`], for a directory keyspace.
pub fn directories_for_writing(database: &Database, name: &str, create: bool) -> Result<DirectoryKeyspace, Failure> {
    if let Some(keyspace) = database.existing_directory_keyspace(name)? {
        return Ok(keyspace);
    }
    if !create && !database.keyspaces().is_empty() {
        return Err(no_keyspace(name));
    }
    Ok(database.directory_keyspace(name)?)
}

/// Returns the directory keyspace of that name, which must exist.
pub fn existing_directories(database: &Database, name: &str) -> Result<DirectoryKeyspace, Failure> {
    database.existing_directory_keyspace(name)?.ok_or_else(|| no_keyspace(name))
}

fn no_keyspace(name: &str) -> Failure {
    Failure::NotThere(format!(
        "there is no keyspace {}; `thalweg keyspaces DB` lists those there are, --create makes a new one",
        shown(name.as_bytes())
    ))
}

/// Returns the keyspace of that name, or the error that there is none.
pub fn existing(database: &Database, name: &str) -> Result<Keyspace, Failure> {
    database.existing_keyspace(name)?.ok_or_else(|| Error::NoKeyspace(name.into()).into())
}

/// Refuses a path that is no directory, with the reason.
pub fn expect_directory(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Failure::Usage(format!(
            "{} is a file, and a database is a directory; name the directory that holds the database",
            path.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match dangling(path) {
            Some(why) => Err(Failure::NotThere(format!("there is no database in {}: {why}", path.display()))),
            None => Ok(()),
        },
        Err(error) => Err(Failure::io("look at", &path.display().to_string(), &error)),
    }
}

/// Returns the builder for a database at that path.
pub fn builder(source: &Source) -> Result<Builder, Failure> {
    expect_directory(&source.database)?;
    let policy = match source.damage {
        Damage::Strict => DamagePolicy::Strict,
        Damage::PointInTime => DamagePolicy::PointInTime,
    };
    Ok(with_fast_tier(Database::builder(&source.database), &source.place)?.damage_policy(policy))
}

/// Adds the fast tier in a directory, if one is named.
pub fn with_fast_tier(builder: Builder, place: &FastTierPlace) -> Result<Builder, Failure> {
    let Some(directory) = &place.fast_tier else { return Ok(builder) };
    let names = fs::read_dir(directory);
    let names = names.map_err(|error| Failure::io("list", &directory.display().to_string(), &error))?;
    let bytes: u64 = names.flatten().filter_map(|name| name.metadata().ok()).map(|found| found.len()).sum();
    let bytes = bytes.saturating_mul(2).max(FAST_TIER_BYTES_MIN);
    Ok(builder.fast_tier(FastTier::Directory(directory.clone()), bytes))
}

/// Returns whether a database has an entry of this name. The open decides whether a creation was cut off, or a database
/// has lost its `CURRENT`.
fn is_begun(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let is_number = |name: &str| name.len() >= 8 && name.bytes().all(|byte| byte.is_ascii_digit());
    let all_are = |suffix: &str| {
        let is_ours = |name: &str| name.strip_suffix(suffix).is_some_and(is_number);
        let names = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        names.map(|entry| entry.file_name()).all(|name| name.to_str().is_some_and(is_ours))
    };
    match name.as_bytes() {
        b"LOCK" | b"STATUS" | b"CURRENT.new" | b"RESERVE" => true,
        b"log" | b"lost" => all_are(".log"),
        b"tables" => all_are(".table"),
        name => name.starts_with(b"manifest-"),
    }
}

fn tell_dropped(dropped: &[String]) {
    for dropped in dropped {
        say(&format!("opened with what was written before the damage; dropped: {dropped}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_from_a_directory() {
        let file = std::env::current_exe().unwrap();
        assert!(expect_directory(&file).unwrap_err().to_string().contains("a database is a directory"));
        assert!(expect_directory(&file.join("below")).is_err());
        assert!(expect_directory(file.parent().unwrap()).is_ok());
        assert!(expect_directory(Path::new("/nothing/here")).is_ok());
    }
}
