//! Tests of the simulated scheduler, with their own tasks and clients.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg::simulation::{Event, Lane, Point, Scheduler};
use thalweg_sim::{Client, Rng, SimScheduler, World};

/// A condition that one task sets and others wait for.
#[derive(Default)]
struct Level {
    value: AtomicU64,
    changed: Event,
}

impl Level {
    fn raise(&self) {
        self.value.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_all();
    }
    fn wait_for(&self, scheduler: &SimScheduler, wanted: u64) {
        loop {
            let ticket = self.changed.ticket();
            if self.value.load(Ordering::SeqCst) >= wanted {
                return;
            }
            scheduler.wait(&self.changed, ticket, None);
        }
    }
    async fn until(&self, wanted: u64) {
        loop {
            let ticket = self.changed.ticket();
            if self.value.load(Ordering::SeqCst) >= wanted {
                return;
            }
            self.changed.listen(ticket).await;
        }
    }
}

/// Three clients that log what they do around points; the order is the history.
fn history(seed: u64) -> (Vec<(usize, u32)>, u64) {
    let world = World::new(seed, false);
    let scheduler = SimScheduler::new(&world, 0);
    let log = Rc::new(RefCell::new(Vec::new()));
    let clients = (0..3)
        .map(|client| {
            let (scheduler, log) = (Arc::clone(&scheduler), Rc::clone(&log));
            Box::new(move || {
                for step in 0..20 {
                    log.borrow_mut().push((client, step));
                    scheduler.point(Point::Published);
                }
            }) as Client
        })
        .collect();
    world.run_clients(clients);
    (log.take(), world.digest())
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 0..20 {
        assert_eq!(history(seed), history(seed));
    }
}

#[test]
fn different_seeds_interleave_clients_differently() {
    let digests: std::collections::BTreeSet<u64> = (0..20).map(|seed| history(seed).1).collect();
    assert_eq!(digests.len(), 20);
    let (order, _) = history(3);
    assert!(order.windows(2).any(|pair| pair[0].0 != pair[1].0), "clients interleave");
}

#[test]
fn clients_and_coroutines_wake_each_other() {
    for seed in 0..50 {
        let world = World::new(seed, false);
        let scheduler = SimScheduler::new(&world, 0);
        let (asked, answered) = (Arc::new(Level::default()), Arc::new(Level::default()));
        let (ask, answer) = (Arc::clone(&asked), Arc::clone(&answered));
        scheduler.spawn(
            Lane::Flush,
            Box::pin(async move {
                for wanted in 1..=30 {
                    ask.until(wanted).await;
                    answer.raise();
                }
            }),
        );
        let clients = (0..3)
            .map(|_| {
                let (scheduler, asked, answered) = (Arc::clone(&scheduler), Arc::clone(&asked), Arc::clone(&answered));
                Box::new(move || {
                    for _ in 0..10 {
                        asked.raise();
                        let wanted = asked.value.load(Ordering::SeqCst);
                        answered.wait_for(&scheduler, wanted);
                    }
                }) as Client
            })
            .collect();
        world.run_clients(clients);
        assert_eq!(answered.value.load(Ordering::SeqCst), 30);
        world.settle(100);
        assert_eq!(world.tasks(), 0);
    }
}

#[test]
fn a_wait_outside_any_client_runs_the_background() {
    let world = World::new(1, false);
    let scheduler = SimScheduler::new(&world, 0);
    let level = Arc::new(Level::default());
    let (raised, sleep) = (Arc::clone(&level), scheduler.sleep_until(world.now_ns() + 3_000_000_000));
    scheduler.spawn(
        Lane::Log,
        Box::pin(async move {
            sleep.await;
            raised.raise();
        }),
    );
    let before_ns = world.now_ns();
    level.wait_for(&scheduler, 1);
    assert!(world.now_ns() >= before_ns + 3_000_000_000, "virtual time passed");
}

#[test]
fn a_wait_with_a_deadline_ends_without_the_event() {
    let world = World::new(2, false);
    let scheduler = SimScheduler::new(&world, 0);
    let (inner_world, inner) = (Arc::clone(&world), Arc::clone(&scheduler));
    let client = Box::new(move || {
        let event = Event::default();
        let deadline = inner_world.now_ns() + 1_000_000;
        inner.wait(&event, event.ticket(), Some(deadline));
        assert!(inner_world.now_ns() >= deadline);
        inner_world.sleep(1_000_000);
        assert!(inner_world.now_ns() >= deadline + 1_000_000);
    });
    world.run_clients(vec![client]);
}

#[test]
fn timers_fire_in_the_order_of_their_deadlines() {
    let world = World::new(3, false);
    let scheduler = SimScheduler::new(&world, 0);
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut rng = Rng::new(3);
    let mut deadlines: Vec<u64> = (0..20).map(|_| world.now_ns() + 1_000_000_000 * rng.between(1, 1000)).collect();
    for &deadline in &deadlines {
        let (sleep, order) = (scheduler.sleep_until(deadline), Arc::clone(&order));
        scheduler.spawn(
            Lane::Compaction,
            Box::pin(async move {
                sleep.await;
                order.lock().unwrap().push(deadline);
            }),
        );
    }
    world.sleep(2_000_000_000_000);
    deadlines.sort_unstable();
    assert_eq!(*order.lock().unwrap(), deadlines);
}

#[test]
fn a_deadlock_is_reported_with_who_waits() {
    let world = World::new(4, false);
    let scheduler = SimScheduler::new(&world, 7);
    let never = Arc::new(Level::default());
    let waiting = Arc::clone(&never);
    scheduler.spawn(Lane::Compaction, Box::pin(async move { waiting.until(1).await }));
    let inner = Arc::clone(&world);
    let client = Box::new(move || {
        inner.doing(|| "insert of k1".into());
        never.wait_for(&scheduler, 1);
    });
    let message = *catch_unwind(AssertUnwindSafe(|| world.run_clients(vec![client])))
        .expect_err("nobody can run")
        .downcast::<String>()
        .expect("a message");
    assert!(message.starts_with("deadlock"), "{message}");
    assert!(message.contains("insert of k1") && message.contains("Compaction, database 7"), "{message}");
}

#[test]
fn shutdown_drops_the_coroutines_of_its_own_database_only() {
    let world = World::new(5, false);
    let (one, two) = (SimScheduler::new(&world, 1), SimScheduler::new(&world, 2));
    let never = Arc::new(Level::default());
    for scheduler in [&one, &two, &two] {
        let never = Arc::clone(&never);
        scheduler.spawn(Lane::Log, Box::pin(async move { never.until(1).await }));
    }
    world.settle(100);
    two.shutdown();
    assert_eq!((world.tasks(), Arc::strong_count(&never)), (1, 2));
    two.shutdown();
    one.shutdown();
    assert_eq!((world.tasks(), Arc::strong_count(&never)), (0, 1));
    never.raise();
}

#[test]
fn a_foreground_wait_inside_a_coroutine_is_a_bug_and_said_so() {
    let world = World::new(6, false);
    let scheduler = SimScheduler::new(&world, 1);
    let inner = Arc::clone(&scheduler);
    scheduler.spawn(
        Lane::Log,
        Box::pin(async move {
            let event = Event::default();
            inner.wait(&event, event.ticket(), None);
        }),
    );
    assert!(catch_unwind(AssertUnwindSafe(|| world.settle(10))).is_err());
}

#[test]
fn the_hook_is_called_between_steps() {
    let world = World::new(7, false);
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    world.begin_phase(Some(Box::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    })));
    let inner = Arc::clone(&world);
    world.run_clients(vec![Box::new(move || (0..10).for_each(|_| inner.pause()))]);
    assert!(calls.load(Ordering::Relaxed) >= 10);
}
