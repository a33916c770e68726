//! Whole phases, on engines and clients made up for the purpose.

use super::open::{self, Patience};
use super::*;
use crate::engine::{Counters, Description, Engine, Null, Session};
use crate::parameters::Arrival;
use crate::plan::Limit;
use crate::report::Second;
use crate::workload::{Class, Client, Outcome, Workload};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An engine whose every operation calls a function.
struct Fake<F>(F);

struct FakeSession<'a, F>(&'a F);

impl<F: Fn() -> Result<()> + Send + Sync> Engine for Fake<F> {
    fn describe(&self) -> Description {
        Description::default()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(FakeSession(&self.0)))
    }

    fn persist(&self) -> Result<()> {
        Ok(())
    }

    fn settle(&self) -> Result<bool> {
        Ok(true)
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl<F: Fn() -> Result<()>> Session for FakeSession<'_, F> {
    fn put(&mut self, _key: &[u8], _value: &[u8], _sync: bool) -> Result<()> {
        (self.0)()
    }

    fn put_batch(&mut self, _entries: &[(Vec<u8>, Vec<u8>)], _sync: bool) -> Result<()> {
        (self.0)()
    }

    fn remove(&mut self, _key: &[u8], _sync: bool) -> Result<()> {
        (self.0)()
    }

    fn get(&mut self, _key: &[u8], _value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        (self.0)().map(|()| false)
    }

    fn scan(&mut self, _from: &[u8], _entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        (self.0)()
    }
}

/// Clients that read, `at_once` operations each time, at most `each` times; background ones write. The first panics if
/// that is asked for.
#[derive(Default)]
struct Reads {
    at_once: u64,
    each: Option<u64>,
    background: usize,
    background_rate: Option<f64>,
    panics: bool,
    prepared: AtomicU64,
    executed: AtomicU64,
    threads: Mutex<BTreeSet<usize>>,
}

struct Reader<'a> {
    workload: &'a Reads,
    class: Class,
    panics: bool,
    left: Option<u64>,
}

impl Workload for Reads {
    fn client(&self, thread: usize, threads: usize, _seed: u64) -> Box<dyn Client + '_> {
        self.threads.lock().unwrap().insert(thread);
        let (class, left) = if thread < threads { (Class::Get, self.each) } else { (Class::Update, None) };
        Box::new(Reader { workload: self, class, panics: self.panics && thread == 0, left })
    }

    fn operations_each(&self) -> u64 {
        self.at_once.max(1)
    }

    fn background(&self) -> usize {
        self.background
    }

    fn background_rate(&self) -> Option<f64> {
        self.background_rate
    }
}

impl Client for Reader<'_> {
    fn prepare(&mut self) -> Option<Class> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        self.workload.prepared.fetch_add(1, Ordering::Relaxed);
        Some(self.class)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        assert!(!self.panics, "the client's own panic");
        self.workload.executed.fetch_add(1, Ordering::Relaxed);
        let found = session.get(b"key", &mut |_| {})?;
        let operations = self.workload.at_once.max(1);
        Ok(Outcome { operations, missing: u64::from(!found), written_bytes: 3, read_bytes: 5 })
    }
}

fn phase<'a>(engine: &'a dyn Engine, workload: &'a Reads, threads: usize, pace: Pace, limit: Limit) -> Phase<'a> {
    Phase { engine, workload, threads, pace, limit, seed: 1, progress: &|_| {} }
}

fn operations(operations: u64) -> Limit {
    Limit { operations: Some(operations), seconds: None }
}

fn seconds(seconds: f64) -> Limit {
    Limit { operations: None, seconds: Some(seconds) }
}

fn uniform(rate: f64) -> Pace {
    Pace::Open { rate, arrival: Arrival::Uniform, percent: None }
}

fn total(series: &[Second]) -> u64 {
    series.iter().map(|second| second.operations).sum()
}

/// An engine that lets nobody through for a second, once, half a second after its first operation.
fn stalls_once(operation: Duration) -> impl Fn() -> Result<()> + Send + Sync {
    let gate = Mutex::new((None, false));
    move || {
        {
            let mut gate = gate.lock().unwrap();
            let (first, stalled) = &mut *gate;
            let first: &mut Instant = first.get_or_insert_with(Instant::now);
            if !*stalled && first.elapsed() >= Duration::from_millis(500) {
                *stalled = true;
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        std::thread::sleep(operation);
        Ok(())
    }
}

#[test]
fn an_open_loop_shows_a_stall_to_every_operation_that_arrived_in_it() {
    let (engine, workload) = (Fake(stalls_once(Duration::ZERO)), Reads::default());
    let measured = run(&phase(&engine, &workload, 8, uniform(1000.0), seconds(2.0))).unwrap();
    assert_eq!(measured.operations, 2000);
    assert_eq!(measured.abandoned, 0);
    let latency = &measured.latency[&Class::Get];
    assert_eq!(latency.len(), 2000);
    // A thousand arrived in that second, and the last of them waited for next to nothing.
    let waited: Vec<u64> = latency
        .iter_recorded()
        .filter(|step| step.value_iterated_to() >= 40_000_000)
        .flat_map(|step| vec![step.value_iterated_to() / 1_000_000; step.count_at_value() as usize])
        .collect();
    assert!((900..=1100).contains(&waited.len()), "{} operations waited", waited.len());
    for (quarter, expected) in [(1, 250), (2, 500), (3, 750)] {
        let quartile = waited[waited.len() * quarter / 4];
        assert!(quartile.abs_diff(expected) < 100, "quartile {quarter} is {quartile} ms");
    }
    assert!((980_000_000..1_500_000_000).contains(&latency.max()), "longest {} ns", latency.max());
    assert!((950..1500).contains(&measured.stalls.longest_ms), "{:?}", measured.stalls);
    assert!(measured.stalls.count >= 1 && measured.stalls.total_ms >= measured.stalls.longest_ms);
    assert_eq!(total(&measured.series), 2000);
    assert!(measured.lateness.unwrap().len() > 500);
}

#[test]
fn a_closed_loop_shows_a_stall_to_each_thread_once() {
    let (engine, workload) = (Fake(stalls_once(Duration::from_micros(500))), Reads::default());
    let measured = run(&phase(&engine, &workload, 4, Pace::Closed, seconds(1.8))).unwrap();
    let latency = &measured.latency[&Class::Get];
    assert_eq!(latency.count_between(500_000_000, u64::MAX), 4);
    assert!(latency.len() > 200, "{} operations", latency.len());
    assert!((950..1500).contains(&measured.stalls.longest_ms), "{:?}", measured.stalls);
    assert_eq!(measured.lateness, None);
}

#[test]
fn operations_of_a_closed_loop_are_done_exactly() {
    let workload = Reads::default();
    let measured = run(&phase(&Null, &workload, 3, Pace::Closed, operations(100_003))).unwrap();
    assert_eq!(measured.operations, 100_003);
    assert_eq!(measured.missing, 100_003);
    assert_eq!((measured.written_bytes, measured.read_bytes), (300_009, 500_015));
    assert_eq!(measured.latency[&Class::Get].len(), 100_003);
    assert_eq!(total(&measured.series), 100_003);
    assert_eq!(workload.prepared.into_inner(), 100_003);
    assert_eq!(*workload.threads.lock().unwrap(), BTreeSet::from([0, 1, 2]));
}

#[test]
fn the_series_of_a_run_over_seconds_adds_up_to_its_operations() {
    let engine = Fake(|| {
        std::thread::sleep(Duration::from_micros(200));
        Ok(())
    });
    let workload = Reads::default();
    let measured = run(&phase(&engine, &workload, 2, Pace::Closed, seconds(2.2))).unwrap();
    assert_eq!(total(&measured.series), measured.operations);
    assert_eq!(measured.series.len(), measured.seconds.ceil() as usize);
    assert!(measured.seconds >= 2.2);
    assert_eq!(measured.operations, workload.executed.into_inner());
    for second in &measured.series {
        assert!(second.operations > 0 && second.p50_ns >= 200_000);
        assert!(second.p50_ns <= second.p99_ns && second.p99_ns <= second.max_ns);
    }
    assert_eq!(measured.stalls.zero_seconds, 0);
}

#[test]
fn everything_prepared_is_executed() {
    // A client may have taken the number of a new record in `prepare`: it must not be lost.
    let workload = Reads::default();
    run(&phase(&Null, &workload, 2, Pace::Closed, seconds(0.05))).unwrap();
    let open = Patience { times: 1.0, seconds: 0.0 };
    // So slow that it falls behind on any machine.
    let engine = Fake(|| {
        std::thread::sleep(Duration::from_micros(100));
        Ok(())
    });
    let phase = phase(&engine, &workload, 2, uniform(1e7), seconds(0.02));
    assert!(open::run(&phase, 1e7, Arrival::Uniform, open).unwrap().abandoned > 0);
    assert_eq!(workload.prepared.into_inner(), workload.executed.into_inner());
}

#[test]
fn operations_done_at_once_share_their_time() {
    let engine = Fake(|| {
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    });
    let workload = Reads { at_once: 100, ..Reads::default() };
    let measured = run(&phase(&engine, &workload, 1, Pace::Closed, operations(1000))).unwrap();
    assert_eq!(measured.operations, 1000);
    assert_eq!(measured.latency[&Class::Get].len(), 1000);
    assert!((200_000..10_000_000).contains(&measured.latency[&Class::Get].min()));
    assert_eq!(workload.executed.into_inner(), 10);
}

#[test]
fn a_phase_ends_when_the_clients_have_nothing_more_to_do() {
    for pace in [Pace::Closed, uniform(100_000.0)] {
        let workload = Reads { each: Some(50), ..Reads::default() };
        let measured = run(&phase(&Null, &workload, 3, pace, Limit::default())).unwrap();
        assert_eq!((measured.operations, measured.abandoned), (150, 0));
    }
}

#[test]
fn an_open_loop_keeps_to_its_rate() {
    let workload = Reads::default();
    let pace = Pace::Open { rate: 500.0, arrival: Arrival::Poisson, percent: None };
    let measured = run(&phase(&Null, &workload, 2, pace, operations(200))).unwrap();
    assert_eq!(measured.operations, 200);
    // The arrivals' seed is fixed: no chance beyond the machine's.
    assert!(measured.seconds > 0.3 && measured.seconds < 2.0, "{} seconds", measured.seconds);
    let lateness = measured.lateness.unwrap();
    assert!(lateness.len() > 100, "{} sleeps", lateness.len());
    assert!(lateness.value_at_quantile(0.5) < 20_000_000, "{} ns late", lateness.value_at_quantile(0.5));
}

#[test]
fn a_rate_is_of_operations_also_where_a_call_does_many() {
    let workload = Reads { at_once: 100, ..Reads::default() };
    let measured = run(&phase(&Null, &workload, 2, uniform(5000.0), operations(950))).unwrap();
    assert_eq!((measured.operations, workload.executed.into_inner()), (1000, 10));
    assert!(measured.seconds >= 0.18 && measured.seconds < 1.0, "{} seconds", measured.seconds);
}

#[test]
fn a_hopeless_backlog_is_given_up_and_counted() {
    let engine = Fake(|| {
        std::thread::sleep(Duration::from_millis(5));
        Ok(())
    });
    let workload = Reads::default();
    let phase = phase(&engine, &workload, 2, uniform(5000.0), seconds(0.2));
    let patience = Patience { times: 2.0, seconds: 0.0 };
    let measured = open::run(&phase, 5000.0, Arrival::Uniform, patience).unwrap();
    assert_eq!(measured.operations + measured.abandoned, 1000);
    assert!(measured.abandoned > 700 && measured.operations > 0, "{} abandoned", measured.abandoned);
    assert!(measured.behind_ns > 100_000_000, "{} ns behind", measured.behind_ns);
    assert!(measured.overdue > 0 && measured.overdue < measured.operations);
    assert!(measured.seconds < 2.0);
}

#[test]
fn background_clients_stop_with_the_foreground() {
    let workload = Reads { background: 2, background_rate: Some(500.0), ..Reads::default() };
    let measured = run(&phase(&Null, &workload, 1, uniform(1000.0), seconds(0.4))).unwrap();
    assert_eq!(measured.operations, 400);
    assert_eq!(measured.latency[&Class::Get].len(), 400);
    assert_eq!(measured.latency[&Class::Update].len(), measured.background_operations);
    assert!((100..2000).contains(&measured.background_operations), "{}", measured.background_operations);
    assert_eq!(total(&measured.series), 400);
    assert_eq!(*workload.threads.lock().unwrap(), BTreeSet::from([0, 1, 2]));
}

#[test]
fn an_unpaced_background_client_and_one_that_sleeps_long_stop_too() {
    let began = Instant::now();
    for background_rate in [None, Some(0.01)] {
        let workload = Reads { background: 1, background_rate, ..Reads::default() };
        let measured = run(&phase(&Null, &workload, 1, Pace::Closed, seconds(0.05))).unwrap();
        assert!(measured.background_operations > 0);
    }
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn an_error_stops_everybody_and_is_returned() {
    for pace in [Pace::Closed, uniform(2000.0), uniform(0.5)] {
        let calls = AtomicU64::new(0);
        let engine = Fake(|| match calls.fetch_add(1, Ordering::Relaxed) {
            // The slow rate has one call at the start, which must reach the worker that sleeps for the next.
            0 if pace == uniform(0.5) => Err(Error::engine("fake", "get", "broken")),
            100 => Err(Error::engine("fake", "get", "broken")),
            _ => Ok(()),
        });
        let workload = Reads { background: 1, background_rate: Some(1.0), ..Reads::default() };
        let began = Instant::now();
        let error = run(&phase(&engine, &workload, 3, pace, seconds(60.0))).unwrap_err();
        assert_eq!(error.to_string(), "fake cannot get: broken");
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn a_session_that_cannot_be_opened_is_an_error() {
    struct Locked;
    impl Engine for Locked {
        fn describe(&self) -> Description {
            Description::default()
        }
        fn session(&self) -> Result<Box<dyn Session + '_>> {
            Err(Error::engine("locked", "open a session", "no"))
        }
        fn persist(&self) -> Result<()> {
            Ok(())
        }
        fn settle(&self) -> Result<bool> {
            Ok(true)
        }
        fn counters(&self) -> Counters {
            Counters::default()
        }
        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }
    let workload = Reads::default();
    let error = run(&phase(&Locked, &workload, 2, Pace::Closed, operations(10))).unwrap_err();
    assert_eq!(error.to_string(), "locked cannot open a session: no");
}

#[test]
fn a_panic_of_a_client_goes_on_in_the_caller() {
    for pace in [Pace::Closed, uniform(1000.0)] {
        let workload = Reads { panics: true, background: 1, ..Reads::default() };
        let phase = phase(&Null, &workload, 2, pace, seconds(60.0));
        let began = Instant::now();
        let panic = catch_unwind(AssertUnwindSafe(|| run(&phase))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the client's own panic"));
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn progress_is_told_while_it_runs_and_at_the_end() {
    let told = Mutex::new(Vec::new());
    let tell = |progress| told.lock().unwrap().push(progress);
    let workload = Reads::default();
    let phase = Phase { progress: &tell, ..phase(&Null, &workload, 2, uniform(1000.0), seconds(1.5)) };
    run(&phase).unwrap();
    let told = told.into_inner().unwrap();
    assert!((5..=40).contains(&told.len()), "told {} times", told.len());
    assert!(told.windows(2).all(|pair| pair[0].operations <= pair[1].operations && pair[0].share <= pair[1].share));
    let end = told.last().unwrap();
    assert_eq!((end.operations, end.share), (1500, 1.0));
    assert!(end.rate > 500.0 && end.p99_ns > 0);
}

#[test]
fn a_pace_that_is_none_of_a_single_run_and_no_threads_are_refused() {
    let workload = Reads::default();
    let search = Pace::Search { arrival: Arrival::Uniform, probe_seconds: 1.0 };
    assert!(matches!(run(&phase(&Null, &workload, 1, search, operations(1))), Err(Error::Usage(_))));
    assert!(matches!(run(&phase(&Null, &workload, 0, Pace::Closed, operations(1))), Err(Error::Usage(_))));
}
