//! Tests of [`Tenant`] on worker threads.

use super::*;
use crate::clock::{Clock, SystemClock};
use crate::runtime::threads::{Crew, ThreadScheduler};
use crate::runtime::yield_now;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

const LANES: [Lane; 5] = [Lane::Log, Lane::LogSegments, Lane::Flush, Lane::Compaction, Lane::CompactionWorker(1)];

/// Two tenants of one scheduler, and the scheduler.
fn two() -> (Tenant, Tenant, Arc<ThreadScheduler>) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let shared = Arc::new(ThreadScheduler::with_crew(clock, Crew { is_shared: true, ..Crew::of(2) }).unwrap());
    let tenant = |first| Tenant::new(Arc::clone(&shared) as Arc<dyn Scheduler>, first);
    (tenant(0), tenant(1), shared)
}

/// Sends a message when it is dropped.
struct SendOnDrop(Sender<&'static str>);

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

/// A coroutine that sends a message when it is polled, waits for ever, and sends a message when it is dropped.
fn forever(sender: &Sender<&'static str>) -> Task {
    let (sender, on_drop) = (sender.clone(), SendOnDrop(sender.clone()));
    Box::pin(async move {
        let _on_drop = on_drop;
        sender.send("polled").unwrap();
        let never = Event::default();
        never.listen(never.ticket()).await;
    })
}

#[test]
fn a_shutdown_ends_the_coroutines_of_one_tenant_and_leaves_the_others() {
    let (one, other, _) = two();
    let (of_one, of_other) = (channel(), channel());
    for lane in LANES {
        one.spawn(lane, forever(&of_one.0));
        other.spawn(lane, forever(&of_other.0));
    }
    for _ in LANES {
        assert_eq!(of_one.1.recv_timeout(LIMIT).unwrap(), "polled");
        assert_eq!(of_other.1.recv_timeout(LIMIT).unwrap(), "polled");
    }
    one.shutdown();
    assert_eq!(of_one.1.try_iter().count(), LANES.len(), "shutdown returns when all are dropped");
    assert!(one.coroutines.wakers().is_empty());
    assert_eq!(of_other.1.try_iter().count(), 0);
    one.shutdown();
    one.spawn(Lane::Log, forever(&of_one.0));
    assert_eq!(of_one.1.recv_timeout(LIMIT).unwrap(), "dropped", "what comes too late is not polled");
    other.spawn(Lane::Log, forever(&of_other.0));
    assert_eq!(of_other.1.recv_timeout(LIMIT).unwrap(), "polled", "the workers go on");
    other.shutdown();
}

#[test]
fn coroutines_that_are_never_quiet_are_ended_too() {
    let (one, other, _) = two();
    let (sender, receiver) = channel();
    for lane in LANES {
        let on_drop = SendOnDrop(sender.clone());
        let busy = async move {
            let _on_drop = on_drop;
            loop {
                yield_now().await;
            }
        };
        one.spawn(lane, Box::pin(busy));
    }
    one.shutdown();
    assert_eq!(receiver.try_iter().count(), LANES.len());
    other.shutdown();
}

#[test]
fn a_panic_ends_its_coroutine_and_no_other() {
    let (one, other, _) = two();
    let (sender, receiver) = channel();
    other.spawn(Lane::Flush, forever(&sender));
    assert_eq!(receiver.recv_timeout(LIMIT).unwrap(), "polled");
    let on_drop = SendOnDrop(sender.clone());
    one.spawn(
        Lane::Flush,
        Box::pin(async move {
            let _on_drop = on_drop;
            yield_now().await;
            std::panic::resume_unwind(Box::new("a panic without a message on the terminal"));
        }),
    );
    assert_eq!(receiver.recv_timeout(LIMIT).unwrap(), "dropped");
    one.spawn(Lane::Flush, forever(&sender));
    assert_eq!(receiver.recv_timeout(LIMIT).unwrap(), "polled");
    one.shutdown();
    assert_eq!(receiver.try_iter().count(), 1);
    other.shutdown();
}

#[test]
fn a_shutdown_inside_a_coroutine_does_not_wait_for_it() {
    let (one, _, _) = two();
    let (sender, receiver) = channel();
    let one = Arc::new(one);
    let (inside, on_drop) = (Arc::clone(&one), SendOnDrop(sender));
    let task = async move {
        let _on_drop = on_drop;
        inside.shutdown();
        yield_now().await;
        unreachable!("its tenant has ended");
    };
    one.spawn(Lane::Log, Box::pin(task));
    assert_eq!(receiver.recv_timeout(LIMIT).unwrap(), "dropped");
}

#[test]
fn the_workers_stop_with_the_last_of_tenants_and_handles() {
    let (one, other, shared) = two();
    let workers = Arc::downgrade(&shared);
    drop(shared);
    let (sender, receiver) = channel();
    one.shutdown();
    drop(one);
    other.spawn(Lane::Compaction, forever(&sender));
    assert_eq!(receiver.recv_timeout(LIMIT).unwrap(), "polled");
    other.shutdown();
    assert!(workers.upgrade().is_some());
    drop(other);
    assert!(workers.upgrade().is_none());
}

#[test]
fn compactors_of_two_tenants_are_on_two_workers_and_segments_not_with_the_log() {
    let (one, other, _) = two();
    let (sender, receiver) = channel();
    let on = |tenant: &Tenant, lane| {
        let sender = sender.clone();
        let task = async move { sender.send(std::thread::current().name().unwrap_or("?").to_owned()).unwrap() };
        tenant.spawn(lane, Box::pin(task));
        receiver.recv_timeout(LIMIT).unwrap()
    };
    assert_eq!(on(&one, Lane::CompactionWorker(0)), "thalweg-compact-0");
    assert_eq!(on(&other, Lane::CompactionWorker(0)), "thalweg-compact-1");
    assert_eq!(on(&one, Lane::Log), "thalweg-log");
    assert_eq!(on(&one, Lane::LogSegments), "thalweg-segment");
}
