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
    // Over itself, too.
    assert_eq!(kind(database.checkpoint(&directory.0)), Some(ErrorKind::AlreadyExists));
    assert!(database.keyspace("rivers").is_ok());
}
