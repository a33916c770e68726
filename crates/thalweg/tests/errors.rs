//! Errors say what they are: each has the kind that its documentation names.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use thalweg::{Database, Error, ErrorKind};

fn kind<T>(result: Result<T, Error>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn a_name_that_is_taken_is_not_bad_input() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    database.create_keyspace("rivers", &[]).unwrap();
    assert_eq!(kind(database.create_keyspace("rivers", &[])), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(database.create_keyspace("", &[])), Some(ErrorKind::InvalidInput));
    let taken = tempfile::tempdir().unwrap();
    std::fs::write(taken.path().join("file"), "of somebody else").unwrap();
    assert_eq!(kind(database.checkpoint(taken.path())), Some(ErrorKind::AlreadyExists));
    assert!(database.keyspace("rivers").is_ok());
}

#[test]
fn of_checkpoints_to_one_directory_at_the_same_time_one_succeeds_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let rivers = database.keyspace("rivers").unwrap();
    rivers.insert("Rhine", "Rotterdam").unwrap();
    for _ in 0..30 {
        let copies = tempfile::tempdir().unwrap();
        let target = copies.path().join("copy");
        let taken = std::thread::scope(|scope| {
            let take = || kind(database.checkpoint(&target));
            let (first, second) = (scope.spawn(take), scope.spawn(take));
            [first.join().unwrap(), second.join().unwrap()]
        });
        assert!(taken.contains(&None) && taken.contains(&Some(ErrorKind::AlreadyExists)), "{taken:?}");
        let copy = Database::open(&target).unwrap();
        assert_eq!(copy.keyspace("rivers").unwrap().get("Rhine").unwrap().unwrap(), *b"Rotterdam");
    }
}
