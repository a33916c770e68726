//! [`Environment`]: the seams that an engine runs on.

use super::event::{Event, Ticket};
use super::scheduler::{Point, Scheduler};
use crate::clock::{Clock, Entropy};
use crate::metrics::Distribution;
use crate::storage::Storage;
use std::future::Future;
use std::sync::Arc;

/// The seams through which an engine reaches the world.
#[derive(Clone)]
pub struct Environment {
    /// Files.
    pub storage: Arc<dyn Storage>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Coroutines and waits.
    pub scheduler: Arc<dyn Scheduler>,
}

impl Environment {
    /// Blocks a foreground caller until `condition` gives a value. The condition is evaluated again after each
    /// notification of `event`, so the code that makes it true must then notify the event.
    pub(crate) fn wait_until<T>(&self, event: &Event, mut condition: impl FnMut() -> Option<T>) -> T {
        loop {
            let ticket = event.ticket();
            if let Some(value) = condition() {
                return value;
            }
            self.scheduler.wait(event, ticket, None);
        }
    }

    /// As [`Environment::wait_until`], for a coroutine.
    pub(crate) async fn until<T>(&self, event: &Event, mut condition: impl FnMut() -> Option<T>) -> T {
        loop {
            let ticket = event.ticket();
            if let Some(value) = condition() {
                return value;
            }
            event.listen(ticket).await;
        }
    }

    /// Waits until `duration_ns` have passed or `event` is notified after `ticket`, whichever is first.
    pub(crate) async fn sleep_or(&self, duration_ns: u64, event: &Event, ticket: Ticket) {
        let deadline = self.clock.now_ns().saturating_add(duration_ns);
        let mut sleep = self.scheduler.sleep_until(deadline);
        let mut listen = std::pin::pin!(event.listen(ticket));
        std::future::poll_fn(move |context| {
            if listen.as_mut().poll(context).is_ready() {
                return std::task::Poll::Ready(());
            }
            sleep.as_mut().poll(context)
        })
        .await;
    }

    /// Awaits `future`, and records how long it ran between two waits, in nanoseconds.
    pub(crate) async fn sliced<T>(&self, slices: &Distribution, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| {
            let start_ns = self.clock.now_ns();
            let polled = future.as_mut().poll(context);
            slices.record(self.clock.now_ns().saturating_sub(start_ns), 1);
            polled
        })
        .await
    }

    /// See [`Scheduler::point`].
    pub(crate) fn point(&self, point: Point) {
        self.scheduler.point(point);
    }
}
