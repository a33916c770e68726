//! Callbacks that wait for a position to be durable: each is called once, whatever becomes of the log.

use super::*;
use crate::error::ErrorKind;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// The callbacks that were called, in order, each with its outcome.
type Calls = Arc<Mutex<Vec<(u64, Option<ErrorKind>)>>>;

/// Writes a record and waits for it by the callback `number`.
fn write_and_wait(bench: &Bench, calls: &Calls, number: u64) -> LogPosition {
    let end = bench.write(&record(number, 10)).unwrap();
    wait(bench, calls, number, end);
    end
}

fn wait(bench: &Bench, calls: &Calls, number: u64, end: LogPosition) -> Option<crate::log::CallbackId> {
    let calls = Arc::clone(calls);
    let callback = move |outcome: Result<()>| {
        calls.lock().unwrap().push((number, outcome.err().map(|error| error.kind())));
    };
    bench.log.callbacks().when_durable(end, Box::new(callback))
}

fn taken(calls: &Calls) -> Vec<(u64, Option<ErrorKind>)> {
    std::mem::take(&mut *calls.lock().unwrap())
}

#[test]
fn a_callback_waits_for_a_sync_and_one_for_a_durable_position_does_not() {
    let (bench, calls) = (Bench::new(), Calls::default());
    let end = write_and_wait(&bench, &calls, 1);
    assert_eq!(taken(&calls), []);
    assert!(!bench.log.callbacks().is_durable(end));
    bench.scheduler.settle();
    assert_eq!(taken(&calls), [(1, None)]);
    assert!(bench.log.callbacks().is_durable(end));
    assert_eq!(wait(&bench, &calls, 2, end), None);
    assert_eq!(taken(&calls), [(2, None)], "on the calling thread");
    bench.scheduler.settle();
    assert_eq!(taken(&calls), [], "each once");
}

#[test]
fn one_sync_serves_all_callbacks_in_the_order_of_positions() {
    let (bench, calls) = (Bench::new(), Calls::default());
    bench.scheduler.settle();
    let ends: Vec<_> = (0..100).map(|number| bench.write(&record(number, 10)).unwrap()).collect();
    for (number, end) in (0..).zip(&ends).collect::<Vec<_>>().into_iter().rev() {
        wait(&bench, &calls, number, *end);
    }
    let before = bench.log.issued_syncs_for_tests();
    bench.scheduler.settle();
    assert_eq!(bench.log.issued_syncs_for_tests(), before + 1);
    assert_eq!(taken(&calls), (0..100).map(|number| (number, None)).collect::<Vec<_>>());
}

#[test]
fn a_callback_joins_the_sync_in_flight_that_covers_it() {
    let (bench, calls) = (Bench::new(), Calls::default());
    bench.scheduler.settle();
    let end = write_and_wait(&bench, &calls, 1);
    let in_flight = bench.log.issue_for_tests(end).unwrap();
    bench.scheduler.settle();
    assert_eq!(taken(&calls), [], "the sync may still fail");
    bench.log.finish_sync(in_flight, Ok(())).unwrap();
    let issued = bench.log.issued_syncs_for_tests();
    bench.scheduler.settle();
    assert_eq!((taken(&calls), bench.log.issued_syncs_for_tests()), (vec![(1, None)], issued));
}

#[test]
fn a_failed_sync_gives_its_error_to_every_callback_and_to_later_ones() {
    let (bench, calls) = (Bench::new(), Calls::default());
    bench.scheduler.settle();
    let end = write_and_wait(&bench, &calls, 1);
    write_and_wait(&bench, &calls, 2);
    bench.disk.fails_syncs.store(true, Ordering::SeqCst);
    bench.scheduler.settle();
    let poisoned = Some(ErrorKind::Poisoned);
    assert_eq!(taken(&calls), [(1, poisoned), (2, poisoned)]);
    wait(&bench, &calls, 3, end);
    assert_eq!(taken(&calls), [(3, poisoned)], "nobody else would call it");
}

#[test]
fn a_poison_from_elsewhere_reaches_the_callbacks() {
    let (bench, calls) = (Bench::new(), Calls::default());
    bench.scheduler.settle();
    let end = bench.write(&record(1, 10)).unwrap();
    let in_flight = bench.log.issue_for_tests(end).unwrap();
    wait(&bench, &calls, 1, end);
    bench.scheduler.settle();
    bench.health.poison(crate::Error::io("sync a table", Path::new("x"), std::io::Error::other("medium error")));
    let failed = bench.log.finish_sync(in_flight, Ok(()));
    bench.scheduler.settle();
    assert!(failed.is_ok() && bench.log.callbacks().is_durable(end));
    assert_eq!(taken(&calls), [(1, None)], "its sync had been issued, and succeeded");
    let lost = LogPosition::from_raw(end.raw() + 1);
    wait(&bench, &calls, 2, lost);
    assert_eq!(taken(&calls), [(2, Some(ErrorKind::Poisoned))]);
}

#[test]
fn a_close_calls_the_callbacks_that_wait() {
    let (bench, calls) = (Bench::new(), Calls::default());
    bench.scheduler.settle();
    let end = write_and_wait(&bench, &calls, 1);
    bench.health.close();
    bench.log.close(1, 1).unwrap();
    bench.scheduler.settle();
    assert_eq!(taken(&calls), [(1, None)], "the close made it durable");
    wait(&bench, &calls, 2, end);
    wait(&bench, &calls, 3, LogPosition::from_raw(end.raw() + 1));
    assert_eq!(taken(&calls), [(2, None), (3, Some(ErrorKind::Closed))]);
}

#[test]
fn callbacks_are_called_when_the_coroutine_is_dropped() {
    let (bench, calls) = (Bench::new(), Calls::default());
    bench.scheduler.settle();
    write_and_wait(&bench, &calls, 1);
    bench.scheduler.tasks.lock().unwrap().clear();
    assert_eq!(taken(&calls), [(1, Some(ErrorKind::Closed))]);
}

#[test]
fn a_callback_may_wait_again_and_one_that_panics_harms_no_other() {
    let (bench, calls) = (Bench::new(), Calls::default());
    bench.scheduler.settle();
    let end = bench.write(&record(1, 10)).unwrap();
    let panics = |_| std::panic::resume_unwind(Box::new("a panic without a message on the terminal"));
    bench.log.callbacks().when_durable(end, Box::new(panics));
    let (log, again) = (Arc::clone(&bench.log), Arc::clone(&calls));
    let waits = move |outcome: Result<()>| {
        outcome.unwrap();
        // A write that finds its place at once is the worst that it may do: a callback must not wait.
        let next = record(2, 10);
        let reservation = log.reserve(&next).unwrap();
        let next_end = reservation.end();
        log.copy_in(&reservation, &next, false).unwrap();
        log.publish(reservation).unwrap();
        log.callbacks().when_durable(next_end, Box::new(move |_| again.lock().unwrap().push((2, None))));
    };
    bench.log.callbacks().when_durable(end, Box::new(waits));
    wait(&bench, &calls, 1, end);
    bench.scheduler.settle();
    assert_eq!(taken(&calls), [(1, None), (2, None)]);
    assert!(bench.health.check().is_ok());
}

#[test]
fn a_forgotten_callback_causes_no_sync() {
    let (bench, calls) = (Bench::new(), Calls::default());
    bench.scheduler.settle();
    let end = bench.write(&record(1, 10)).unwrap();
    let id = wait(&bench, &calls, 1, end).unwrap();
    bench.log.callbacks().forget(id);
    bench.scheduler.settle();
    assert!(!bench.log.callbacks().is_durable(end));
    assert_eq!(taken(&calls), []);
}
