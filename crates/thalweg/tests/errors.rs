//! Errors say what they are: each has the kind that its documentation names.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod directory;

use directory::Directory;
use thalweg::{Database, Error, ErrorKind};

fn kind<T>(result: Result<T, Error>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn a_name_that_is_taken_is_not_bad_input() {
    let directory = Directory::new("errors-taken");
    let database = Database::open(&directory.0).unwrap();
    database.create_keyspace("rivers", &[]).unwrap();
    assert_eq!(kind(database.create_keyspace("rivers", &[])), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(database.create_keyspace("", &[])), Some(ErrorKind::InvalidInput));
    let taken = Directory::new("errors-taken-checkpoint");
    std::fs::create_dir(&taken.0).unwrap();
    std::fs::write(taken.0.join("file"), "of somebody else").unwrap();
    assert_eq!(kind(database.checkpoint(&taken.0)), Some(ErrorKind::AlreadyExists));
    assert!(database.keyspace("rivers").is_ok());
}
