//! Tests of [`ThreadScheduler`] and, under it, of [`Event`].

use super::*;
use crate::clock::SystemClock;
use crate::runtime::yield_now;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;

const LIMIT: Duration = Duration::from_secs(20);

fn scheduler(compaction_workers: usize) -> ThreadScheduler {
    ThreadScheduler::new(Arc::new(SystemClock::default()), compaction_workers).unwrap()
}

/// Sends a message when it is dropped.
struct SendOnDrop(std::sync::mpsc::Sender<()>);

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn tasks_of_a_lane_start_in_the_order_of_their_spawns() {
    let scheduler = scheduler(1);
    let (sender, receiver) = channel();
    for number in 0..100 {
        let sender = sender.clone();
        scheduler.spawn(Lane::Flush, Box::pin(async move { sender.send(number).unwrap() }));
    }
    let order: Vec<i32> = (0..100).map(|_| receiver.recv_timeout(LIMIT).unwrap()).collect();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
}

#[test]
fn yielding_lets_the_others_of_the_lane_run() {
    let scheduler = scheduler(1);
    let (sender, receiver) = channel();
    let gate = Arc::new(Event::default());
    let ticket = gate.ticket();
    for name in ["a", "b"] {
        let (sender, gate) = (sender.clone(), Arc::clone(&gate));
        scheduler.spawn(
            Lane::Compaction,
            Box::pin(async move {
                gate.listen(ticket).await;
                for _ in 0..3 {
                    sender.send(name).unwrap();
                    yield_now().await;
                }
            }),
        );
    }
    // From the same worker, so that both are ready before either runs.
    scheduler.spawn(Lane::Compaction, Box::pin(async move { gate.notify_all() }));
    let order: Vec<&str> = (0..6).map(|_| receiver.recv_timeout(LIMIT).unwrap()).collect();
    assert_eq!(order.iter().filter(|&&name| name == "a").count(), 3);
    assert!(!order.starts_with(&["a", "a", "a"]) && !order.starts_with(&["b", "b", "b"]), "{order:?}");
}

#[test]
fn each_lane_has_its_threads_by_name() {
    let scheduler = scheduler(2);
    let (sender, receiver) = channel();
    for lane in [Lane::Log, Lane::Flush, Lane::Compaction, Lane::Compaction] {
        let sender = sender.clone();
        let task = async move { sender.send(std::thread::current().name().unwrap_or("?").to_owned()).unwrap() };
        scheduler.spawn(lane, Box::pin(task));
    }
    let mut names: Vec<String> = (0..4).map(|_| receiver.recv_timeout(LIMIT).unwrap()).collect();
    names.sort();
    assert_eq!(names, ["thalweg-compact-0", "thalweg-compact-1", "thalweg-flush", "thalweg-log"]);
}

#[test]
fn a_sleep_ends_at_its_deadline_and_not_before() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let scheduler = Arc::new(ThreadScheduler::new(Arc::clone(&clock), 1).unwrap());
    let (sender, receiver) = channel();
    let start = clock.now_ns();
    for wait_ms in [30_u64, 10, 20] {
        let sleep = scheduler.sleep_until(start + wait_ms * 1_000_000);
        let (sender, clock) = (sender.clone(), Arc::clone(&clock));
        scheduler.spawn(
            Lane::Log,
            Box::pin(async move {
                sleep.await;
                sender.send((wait_ms, clock.now_ns())).unwrap();
            }),
        );
    }
    for expected in [10, 20, 30] {
        let (wait_ms, woken_at) = receiver.recv_timeout(LIMIT).unwrap();
        assert_eq!(wait_ms, expected);
        assert!(woken_at >= start + wait_ms * 1_000_000, "woken early");
    }
}

#[test]
fn a_dropped_sleep_leaves_no_timer_behind() {
    let scheduler = scheduler(1);
    let mut sleep = scheduler.sleep_until(u64::MAX);
    assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(scheduler.log.state().timers.len(), 1);
    drop(sleep);
    assert_eq!(scheduler.log.state().timers.len(), 0);
}

#[test]
fn a_foreground_wait_ends_with_the_event_or_the_deadline() {
    let scheduler = scheduler(1);
    let event = Arc::new(Event::default());
    let ticket = event.ticket();
    let deadline = scheduler.clock.now_ns() + 5_000_000;
    scheduler.wait(&event, ticket, Some(deadline));
    assert!(scheduler.clock.now_ns() >= deadline && !event.passed(ticket));
    let notified = Arc::clone(&event);
    scheduler.spawn(Lane::Flush, Box::pin(async move { notified.notify_all() }));
    scheduler.wait(&event, ticket, None);
    assert!(event.passed(ticket));
}

#[test]
fn a_thousand_tasks_all_end_and_none_is_kept() {
    let scheduler = scheduler(3);
    let done = Arc::new(AtomicU64::new(0));
    let all_done = Arc::new(Event::default());
    for number in 0..1000_u64 {
        let (done, all_done) = (Arc::clone(&done), Arc::clone(&all_done));
        let sleep = scheduler.sleep_until(scheduler.clock.now_ns() + number * 1_000);
        let lane = [Lane::Log, Lane::Flush, Lane::Compaction][number as usize % 3];
        scheduler.spawn(
            lane,
            Box::pin(async move {
                yield_now().await;
                sleep.await;
                done.fetch_add(1, Ordering::SeqCst);
                all_done.notify_all();
            }),
        );
    }
    loop {
        let ticket = all_done.ticket();
        if done.load(Ordering::SeqCst) == 1000 {
            break;
        }
        scheduler.wait(&all_done, ticket, None);
    }
    // When the last task notifies, its worker may not have removed it from the list yet.
    while scheduler.workers().any(|worker| !worker.state().tasks.is_empty()) {
        std::thread::yield_now();
    }
    assert!(scheduler.workers().all(|worker| worker.state().timers.is_empty()));
}

#[test]
fn shutdown_drops_pending_tasks_and_may_be_called_again() {
    let scheduler = scheduler(2);
    let (sender, receiver) = channel();
    let never = Arc::new(Event::default());
    for number in 0..10_u64 {
        let (tell, never) = (SendOnDrop(sender.clone()), Arc::clone(&never));
        let sleep = scheduler.sleep_until(u64::MAX);
        scheduler.spawn(
            Lane::Compaction,
            Box::pin(async move {
                let _tell = tell;
                if number % 2 == 0 {
                    sleep.await;
                }
                never.listen(never.ticket()).await;
            }),
        );
    }
    scheduler.shutdown();
    assert_eq!(receiver.try_iter().count(), 10, "shutdown returns when all tasks are dropped");
    scheduler.shutdown();
    never.notify_all();
    let tell = SendOnDrop(sender);
    scheduler.spawn(Lane::Log, Box::pin(async move { drop(tell) }));
    assert_eq!(receiver.try_iter().count(), 1, "a task that comes too late is dropped");
}

#[test]
fn the_last_handle_may_be_dropped_inside_a_task() {
    let scheduler = Arc::new(scheduler(1));
    let (sender, receiver) = channel();
    let inside = Arc::clone(&scheduler);
    let gate = Arc::new(Event::default());
    let (ticket, opened) = (gate.ticket(), Arc::clone(&gate));
    let tell = SendOnDrop(sender);
    let task = async move {
        let _tell = tell;
        opened.listen(ticket).await;
        drop(inside);
        yield_now().await;
        unreachable!("its worker stopped");
    };
    scheduler.spawn(Lane::Flush, Box::pin(task));
    drop(scheduler);
    gate.notify_all();
    receiver.recv_timeout(LIMIT).unwrap();
}

#[test]
fn a_panic_drops_its_task_and_the_worker_goes_on() {
    let scheduler = scheduler(1);
    let (sender, receiver) = channel();
    let tell = SendOnDrop(sender.clone());
    scheduler.spawn(
        Lane::Log,
        Box::pin(async move {
            let _tell = tell;
            yield_now().await;
            std::panic::resume_unwind(Box::new("a panic without a message on the terminal"));
        }),
    );
    receiver.recv_timeout(LIMIT).unwrap();
    scheduler.spawn(Lane::Log, Box::pin(async move { sender.send(()).unwrap() }));
    receiver.recv_timeout(LIMIT).unwrap();
}

#[test]
fn no_wake_up_is_lost_between_threads_and_coroutines() {
    pass_a_token_round(Arc::new(scheduler(1)));
}

#[test]
fn no_wake_up_is_lost_where_the_kernel_gives_no_ring() {
    let scheduler = without_rings(1);
    assert!(scheduler.ring_refused().is_some_and(|reason| reason.contains("not here")));
    pass_a_token_round(Arc::new(scheduler));
}

#[test]
fn sleeps_and_shutdown_work_where_the_kernel_gives_no_ring() {
    let scheduler = without_rings(2);
    let (sender, receiver) = channel();
    let sleep = scheduler.sleep_until(scheduler.clock.now_ns() + 5_000_000);
    let tell = SendOnDrop(sender.clone());
    scheduler.spawn(
        Lane::CompactionWorker(1),
        Box::pin(async move {
            sleep.await;
            drop(tell);
        }),
    );
    receiver.recv_timeout(LIMIT).unwrap();
    let (tell, forever) = (SendOnDrop(sender), scheduler.sleep_until(u64::MAX));
    scheduler.spawn(
        Lane::Log,
        Box::pin(async move {
            let _tell = tell;
            forever.await;
        }),
    );
    scheduler.shutdown();
    assert_eq!(receiver.try_iter().count(), 1);
}

fn without_rings(compaction_workers: usize) -> ThreadScheduler {
    let clock = Arc::new(SystemClock::default());
    ThreadScheduler::with_rings(clock, Crew::of(compaction_workers), || Err(io::Error::other("not here"))).unwrap()
}

/// A token circulates between coroutines on three threads and one foreground thread: one lost wake-up stops it.
fn pass_a_token_round(scheduler: Arc<ThreadScheduler>) {
    const ROUNDS: u64 = 4_000;
    const PLACES: u64 = 4;
    let token = Arc::new(AtomicU64::new(0));
    let moved = Arc::new(Event::default());
    for place in 0..PLACES - 1 {
        let (token, moved, scheduler_) = (Arc::clone(&token), Arc::clone(&moved), Arc::clone(&scheduler));
        let lane = [Lane::Log, Lane::Flush, Lane::Compaction][place as usize];
        let task = async move {
            loop {
                let ticket = moved.ticket();
                let now = token.load(Ordering::SeqCst);
                if now >= ROUNDS {
                    break;
                }
                if now % PLACES == place {
                    token.store(now + 1, Ordering::SeqCst);
                    moved.notify_all();
                } else if now % 3 == 0 {
                    // A listener that is dropped before it is ready must not disturb the next one.
                    let mut stale = Box::pin(moved.listen(ticket));
                    let mut sleep = scheduler_.sleep_until(0);
                    std::future::poll_fn(|context| {
                        let _ = stale.as_mut().poll(context);
                        sleep.as_mut().poll(context)
                    })
                    .await;
                    drop(stale);
                    moved.listen(ticket).await;
                } else {
                    moved.listen(ticket).await;
                }
            }
        };
        scheduler.spawn(lane, Box::pin(task));
    }
    let start = scheduler.clock.now_ns();
    loop {
        let ticket = moved.ticket();
        let now = token.load(Ordering::SeqCst);
        if now >= ROUNDS {
            break;
        }
        if now % PLACES == PLACES - 1 {
            token.store(now + 1, Ordering::SeqCst);
            moved.notify_all();
        } else {
            scheduler.wait(&moved, ticket, Some(start + LIMIT.as_nanos() as u64));
        }
        assert!(scheduler.clock.now_ns() < start + LIMIT.as_nanos() as u64, "a wake-up was lost at {now}");
    }
    scheduler.shutdown();
}

#[test]
fn of_threads_that_wait_one_is_woken_and_then_the_rest() {
    let event = Arc::new(Event::default());
    let (sender, woken) = channel();
    let ticket = event.ticket();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (event, sender) = (Arc::clone(&event), sender.clone());
            std::thread::spawn(move || {
                event.block(ticket, None);
                sender.send(()).unwrap();
            })
        })
        .collect();
    event.notify_one();
    woken.recv_timeout(Duration::from_secs(20)).expect("one is woken");
    event.notify_all();
    for _ in 1..4 {
        woken.recv_timeout(Duration::from_secs(20)).expect("the rest is woken");
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn coroutines_of_a_numbered_worker_share_its_thread() {
    let scheduler = scheduler(2);
    let (sender, receiver) = channel();
    for number in [0, 1, 0, 3] {
        let sender = sender.clone();
        let task = async move { sender.send(std::thread::current().name().unwrap_or("?").to_owned()).unwrap() };
        scheduler.spawn(Lane::CompactionWorker(number), Box::pin(task));
    }
    let mut names: Vec<String> = (0..4).map(|_| receiver.recv_timeout(LIMIT).unwrap()).collect();
    names.sort();
    assert_eq!(names, ["thalweg-compact-0", "thalweg-compact-0", "thalweg-compact-1", "thalweg-compact-1"]);
}
