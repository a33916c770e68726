//! The seams of the engine in simulation: [`SimScheduler`], [`SimClock`], [`SimEntropy`], all of one [`World`].

use crate::world::World;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use thalweg::simulation::{Clock, Entropy, Environment, Event, Lane, Point, Scheduler, Storage, Task, Ticket};

/// The scheduler of one database in a [`World`].
pub struct SimScheduler {
    world: Arc<World>,
    instance: u64,
}

impl SimScheduler {
    /// A scheduler for one more database; `instance` is its number in reports.
    pub fn new(world: &Arc<World>, instance: u64) -> Arc<Self> {
        Arc::new(SimScheduler { world: Arc::clone(world), instance })
    }
}

impl Scheduler for SimScheduler {
    fn spawn(&self, lane: Lane, task: Task) {
        self.world.spawn(self.instance, lane, task);
    }

    fn sleep_until(&self, deadline_ns: u64) -> Task {
        self.world.sleep_until(deadline_ns)
    }

    fn wait(&self, event: &Event, ticket: Ticket, deadline_ns: Option<u64>) {
        self.world.wait(event, ticket, deadline_ns);
    }

    fn point(&self, point: Point) {
        self.world.point(point);
    }

    fn ring_refused(&self) -> Option<&str> {
        (!self.world.has_rings()).then_some("there are no rings in this world")
    }

    fn shutdown(&self) {
        let dropped = self.world.drop_tasks(self.instance);
        self.world.say(|| format!("shutdown of database {} dropped {dropped} coroutines", self.instance));
    }
}

impl World {
    /// A future that is ready at `deadline_ns`.
    pub(crate) fn sleep_until(self: &Arc<Self>, deadline_ns: u64) -> Task {
        Box::pin(Sleep { world: Arc::clone(self), deadline_ns, timer: None })
    }
}

/// The environment of a database in `world` on `storage`.
pub fn environment(world: &Arc<World>, storage: Arc<dyn Storage>, instance: u64) -> Environment {
    Environment {
        storage,
        clock: Arc::new(SimClock(Arc::clone(world))),
        entropy: Arc::new(SimEntropy(Arc::clone(world))),
        scheduler: SimScheduler::new(world, instance),
    }
}

/// The virtual time of a world.
pub struct SimClock(pub Arc<World>);

impl Clock for SimClock {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}

/// The random numbers of a world.
pub struct SimEntropy(pub Arc<World>);

impl Entropy for SimEntropy {
    fn next_u64(&self) -> u64 {
        self.0.random_u64()
    }
}

struct Sleep {
    world: Arc<World>,
    deadline_ns: u64,
    timer: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(timer) = self.timer.take() {
            self.world.cancel_timer(timer);
        }
        if self.world.now_ns() >= self.deadline_ns {
            return Poll::Ready(());
        }
        let timer = self.world.set_timer(self.deadline_ns, context.waker().clone());
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.world.cancel_timer(timer);
        }
    }
}
