//! The syncs of each engine are counted, whichever library makes them. One test, for the counters are the process's.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking, and says what it left out")]

use thalweg_bench::Settings;
use thalweg_peers::FACTORIES;

const PUTS: u64 = 20;

#[test]
fn a_durable_put_is_at_least_one_sync_and_a_buffered_one_is_none() {
    for factory in FACTORIES.iter().filter(|factory| factory.name() != "null") {
        for sync in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let settings = Settings { sync, ..Settings::default() };
            let engine = match factory.open(directory.path(), &settings, &[]) {
                Ok(engine) => engine,
                Err(error) => {
                    eprintln!("left out: {error}");
                    continue;
                }
            };
            let mut session = engine.session().unwrap();
            let before = engine.counters();
            for number in 0..PUTS {
                session.put(&number.to_be_bytes(), b"value", sync).unwrap();
            }
            let syncs = engine.counters().since(&before).syncs.unwrap();
            let name = factory.name();
            if sync {
                assert!(syncs.count >= PUTS, "{name}: {syncs:?}");
                assert!(syncs.total_ns.is_none_or(|ns| ns > 0), "{name}: {syncs:?}");
            } else {
                assert_eq!(syncs.count, 0, "{name}");
            }
            drop(session);
            engine.close().unwrap();
        }
    }
}
