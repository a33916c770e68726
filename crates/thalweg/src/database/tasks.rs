//! [`TaskCount`]: the background coroutines of a database, counted, so that a close can wait for their end.

use crate::error::Error;
use crate::runtime::{Environment, Event, Health, Lane};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The coroutines that have not ended.
#[derive(Debug, Default)]
pub(super) struct TaskCount {
    running: AtomicUsize,
    pub(super) ended: Event,
}

/// Subtracts a coroutine from the count, however it ends.
struct TaskGuard {
    count: Arc<TaskCount>,
    health: Arc<Health>,
    finished: bool,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if !self.finished && std::thread::panicking() {
            self.health.poison(Error::internal("a background task panicked"));
        }
        self.count.running.fetch_sub(1, Ordering::SeqCst);
        self.count.ended.notify_all();
    }
}

impl TaskCount {
    pub(super) fn spawn(
        self: &Arc<Self>,
        environment: &Environment,
        health: &Arc<Health>,
        lane: Lane,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.running.fetch_add(1, Ordering::SeqCst);
        let guard = TaskGuard { count: Arc::clone(self), health: Arc::clone(health), finished: false };
        let task = async move {
            // Captures the whole guard, not only the field written below.
            let mut guard = guard;
            task.await;
            guard.finished = true;
        };
        environment.scheduler.spawn(lane, Box::pin(task));
    }

    pub(super) fn wait(&self, environment: &Environment) {
        environment.wait_until(&self.ended, || (self.running.load(Ordering::SeqCst) == 0).then_some(()));
    }
}
