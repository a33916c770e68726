//! Tests of [`Engine`]: what a lost coroutine does to its database, and to those that share its threads.

use crate::error::ErrorKind;
use crate::runtime::Lane;
use crate::{Database, Runtime};

#[test]
fn a_panic_in_a_coroutine_poisons_its_database_and_no_other_of_the_runtime() {
    let root = std::env::temp_dir().join(format!("thalweg-panic-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let runtime = Runtime::new(1).unwrap();
    let open = |name: &str| Database::builder(root.join(name)).runtime(&runtime).open().unwrap();
    let (sick, well) = (open("sick"), open("well"));
    let (of_sick, of_well) = (sick.keyspace("a").unwrap(), well.keyspace("a").unwrap());
    of_sick.insert("1", "one").unwrap();
    let engine = sick.engine();
    let health = &engine.writable().unwrap().health;
    for lane in [Lane::Log, Lane::Flush, Lane::CompactionWorker(0)] {
        let panics = async { std::panic::resume_unwind(Box::new("a panic without a message on the terminal")) };
        engine.workers.spawn(&engine.environment, health, lane, panics);
    }
    engine.environment.wait_until(&engine.workers.ended, || health.check().is_err().then_some(()));
    assert_eq!(of_sick.insert("2", "two").unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(of_sick.get("1").unwrap().unwrap(), b"one");
    of_well.insert("1", "one").unwrap();
    well.persist().unwrap();
    well.flush().unwrap();
    assert!(sick.close().is_err());
    of_well.insert("2", "two").unwrap();
    well.flush().unwrap();
    well.close().unwrap();
    assert!(open("sick").keyspace("a").unwrap().get("1").unwrap().is_some());
    let _ = std::fs::remove_dir_all(&root);
}
