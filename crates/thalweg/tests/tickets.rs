//! Tickets of commits: they say when a buffered write is durable, to a thread that waits, by a callback, as a future.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::{Future, IntoFuture};
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;
use thalweg::{CommitTicket, Database, ErrorKind, Keyspace, UntilDurable};

/// How long a test waits for a callback before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A database whose log only a caller syncs.
fn open(path: &Path) -> (Database, Keyspace) {
    let builder = Database::builder(path).log_sync_interval(None).settle_interval(Duration::from_secs(3600));
    let database = builder.open().unwrap();
    let keyspace = database.keyspace("a").unwrap();
    (database, keyspace)
}

fn commit(database: &Database, keyspace: &Keyspace, number: u32) -> CommitTicket {
    let mut batch = database.batch();
    batch.insert(keyspace, number.to_be_bytes(), "value").unwrap();
    let ticket = batch.commit_ticket().unwrap();
    assert!(batch.is_empty() && keyspace.contains_key(number.to_be_bytes()).unwrap());
    ticket
}

/// Blocks the thread until the future is ready.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park_timeout(PATIENCE);
    }
}

#[test]
fn a_ticket_is_durable_after_a_wait_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = open(directory.path());
    let ticket = commit(&database, &keyspace, 1);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!ticket.is_durable(), "nobody has asked for a sync");
    ticket.wait().unwrap();
    assert!(ticket.is_durable());
    let later = commit(&database, &keyspace, 2);
    assert!(!later.is_durable());
    database.persist().unwrap();
    assert!(later.is_durable(), "another call's sync serves it");
    later.wait().unwrap();
}

#[test]
fn a_callback_comes_by_itself_and_at_once_when_the_ticket_is_durable() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = open(directory.path());
    let ticket = commit(&database, &keyspace, 1);
    let (told, hears) = mpsc::channel();
    let also_told = told.clone();
    ticket.on_durable(move |outcome| told.send((std::thread::current().id(), outcome.is_ok())).unwrap());
    let (thread, is_ok) = hears.recv_timeout(PATIENCE).unwrap();
    assert!(is_ok && ticket.is_durable() && thread != std::thread::current().id());
    ticket.on_durable(move |outcome| also_told.send((std::thread::current().id(), outcome.is_ok())).unwrap());
    assert_eq!(hears.try_recv().unwrap(), (std::thread::current().id(), true));
    assert!(hears.recv().is_err(), "each was called once");
}

#[test]
fn tickets_of_many_threads_are_answered_once_and_in_order_by_few_syncs() {
    const THREADS: u32 = 8;
    const COMMITS: u32 = 500;
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = open(directory.path());
    let before = database.statistics().log_syncs;
    let (told, hears) = mpsc::channel();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (database, keyspace, told) = (&database, &keyspace, told.clone());
            scope.spawn(move || {
                for number in 0..COMMITS {
                    let (ticket, told) = (commit(database, keyspace, thread * COMMITS + number), told.clone());
                    let asked = ticket.clone();
                    ticket.on_durable(move |outcome| {
                        outcome.unwrap();
                        assert!(asked.is_durable());
                        told.send(thread * COMMITS + number).unwrap();
                    });
                }
            });
        }
    });
    drop(told);
    let mut answered: Vec<_> = std::iter::from_fn(|| hears.recv_timeout(PATIENCE).ok()).collect();
    answered.sort_unstable();
    assert!(answered.into_iter().eq(0..THREADS * COMMITS));
    let syncs = database.statistics().log_syncs - before;
    assert!(syncs < u64::from(THREADS * COMMITS), "{syncs} syncs");
}

#[test]
fn a_callback_may_take_a_ticket_and_wait_for_it_by_callback() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = open(directory.path());
    let (told, hears) = mpsc::channel();
    let taken = database.clone();
    let first = commit(&database, &keyspace, 1);
    let later = keyspace.clone();
    first.on_durable(move |outcome| {
        outcome.unwrap();
        let ticket = commit(&taken, &later, 2);
        let mut newest = taken.ticket().unwrap();
        assert!(newest == ticket);
        ticket.on_durable(move |outcome| {
            newest = newest.clone();
            told.send((outcome.is_ok(), newest.is_durable())).unwrap();
        });
    });
    assert_eq!(hears.recv_timeout(PATIENCE).unwrap(), (true, true));
}

#[test]
fn the_future_wakes_its_task_and_may_be_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = open(directory.path());
    let ticket = commit(&database, &keyspace, 1);
    block_on(async { ticket.clone().await }).unwrap();
    assert!(ticket.is_durable());
    block_on(ticket.into_future()).unwrap();

    let later = commit(&database, &keyspace, 2);
    let unpolled = later.clone().into_future();
    drop(unpolled);
    for _ in 0..100 {
        let mut dropped = later.clone().into_future();
        let _ = pin!(&mut dropped).poll(&mut Context::from_waker(Waker::noop()));
        drop(dropped);
    }
    let both = [later.clone(), later].map(|ticket| std::thread::spawn(move || block_on(ticket.into_future())));
    both.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
}

#[test]
fn a_close_answers_the_callbacks_that_wait_and_later_ones() {
    for round in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let (database, keyspace) = open(directory.path());
        let (calls, tickets) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        for number in 0..round {
            let (ticket, calls) = (commit(&database, &keyspace, number), Arc::clone(&calls));
            tickets.lock().unwrap().push(ticket.clone());
            ticket.on_durable(move |outcome| {
                outcome.unwrap();
                calls.fetch_add(1, Ordering::SeqCst);
            });
        }
        let unasked = commit(&database, &keyspace, round);
        database.close().unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), round as usize);
        drop(keyspace);
        // The tickets keep nothing open: neither the lock nor the log.
        let (reopened, keyspace) = open(directory.path());
        assert!(unasked.is_durable() && tickets.lock().unwrap().iter().all(CommitTicket::is_durable));
        unasked.wait().unwrap();
        block_on(unasked.clone().into_future()).unwrap();
        let again = commit(&reopened, &keyspace, 1);
        assert!(again.partial_cmp(&unasked).is_none() && again != unasked, "of two opens");
        assert!(keyspace.iter().count() > round as usize);
    }
}

#[test]
fn tickets_compare_in_the_order_of_commits() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = open(directory.path());
    let (first, second) = (commit(&database, &keyspace, 1), commit(&database, &keyspace, 2));
    assert!(first < second && first == first.clone());
    assert!(database.ticket().unwrap() == second && database.batch().commit_ticket().unwrap() == second);
    second.wait().unwrap();
    assert!(first.is_durable());
    assert!(format!("{first:?}").contains("is_durable: true"));
}

#[test]
fn a_closed_database_gives_no_tickets() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = open(directory.path());
    let (other, mut batch) = (database.clone(), database.batch());
    batch.insert(&keyspace, "1", "one").unwrap();
    database.close().unwrap();
    assert_eq!(other.ticket().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(batch.commit_ticket().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn tickets_go_between_threads() {
    fn is_sent<T: Send + Sync + Clone + std::fmt::Debug>() {}
    fn is_send<T: Send + Sync + Unpin>() {}
    is_sent::<CommitTicket>();
    is_send::<UntilDurable>();
}
