//! Opening a database as the command line asks.
//!
//! Reading commands open read-only: they never create, change or remove a file. Writing commands create a database only
//! where they were told to, and never in a directory that already holds something else.

use crate::args::{Damage, Source, Target};
use crate::escape::unescape;
use crate::report::{Failure, dangling, say};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use thalweg::{Builder, DamagePolicy, Database, Error, Keyspace};

/// Opens to read.
pub fn for_reading(source: &Source) -> Result<Database, Failure> {
    let database = builder(source)?.open_read_only()?;
    tell_dropped(&database);
    Ok(database)
}

/// Opens to read, and takes the keyspace, which must exist.
pub fn keyspace_for_reading(target: &Target) -> Result<(Database, Keyspace), Failure> {
    let database = for_reading(&target.source)?;
    let keyspace = existing(&database, &target.keyspace)?;
    Ok((database, keyspace))
}

/// Opens to write, with what `tune` adds to the options; without `create` the database must exist.
pub fn for_writing(source: &Source, create: bool, tune: impl FnOnce(Builder) -> Builder) -> Result<Database, Failure> {
    let builder = tune(builder(source)?);
    let database = match builder.clone().create_if_missing(false).open() {
        Err(Error::NoDatabase { .. }) if create => {
            refuse_foreign_directory(&source.database)?;
            builder.create_if_missing(true).open()?
        }
        opened => opened?,
    };
    tell_dropped(&database);
    Ok(database)
}

/// The keyspace of that name, or the error that there is none.
pub fn existing(database: &Database, name: &str) -> Result<Keyspace, Failure> {
    database.existing_keyspace(name)?.ok_or_else(|| Error::NoKeyspace(name.into()).into())
}

/// The bytes that an argument stands for.
pub fn argument_bytes(what: &str, text: &OsStr) -> Result<Vec<u8>, Failure> {
    match unescape(text.as_bytes()) {
        Ok(bytes) => Ok(bytes.into_owned()),
        Err(why) => Err(Failure::Usage(format!("the {what} cannot be read: {why}"))),
    }
}

/// Refuses what is there but is no directory, in words that say what is wrong with it.
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

fn builder(source: &Source) -> Result<Builder, Failure> {
    expect_directory(&source.database)?;
    let policy = match source.damage {
        Damage::Strict => DamagePolicy::Strict,
        Damage::PointInTime => DamagePolicy::PointInTime,
    };
    Ok(Database::builder(&source.database).damage_policy(policy))
}

fn refuse_foreign_directory(path: &Path) -> Result<(), Failure> {
    match fs::read_dir(path).map(|mut names| names.next().is_some()) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Failure::Usage(format!(
            "{} is not empty and holds no database; name a new or an empty directory",
            path.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::io("look at", &path.display().to_string(), &error)),
    }
}

fn tell_dropped(database: &Database) {
    for dropped in database.dropped_by_recovery() {
        say(&format!("opened with what was written before the damage; dropped: {dropped}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_unescaped() {
        assert_eq!(argument_bytes("key", OsStr::new("\\x00a")).unwrap(), b"\0a");
        assert_eq!(argument_bytes("key", OsStr::from_bytes(b"\xff")).unwrap(), b"\xff");
        let failure = argument_bytes("key", OsStr::new("a\\")).unwrap_err();
        assert!(matches!(&failure, Failure::Usage(text) if text.starts_with("the key cannot be read: a backslash")));
    }

    #[test]
    fn a_file_is_told_from_a_directory() {
        let file = std::env::current_exe().unwrap();
        assert!(expect_directory(&file).unwrap_err().to_string().contains("a database is a directory"));
        assert!(expect_directory(&file.join("below")).is_err());
        assert!(expect_directory(file.parent().unwrap()).is_ok());
        assert!(expect_directory(Path::new("/nothing/here")).is_ok());
    }
}
