//! [`GetAsync`]: the lookup of an entry as a future, for any executor. The workers of the database make its reads; the
//! thread that polls the future searches the packs.

use super::keyspace::Keyspace;
use super::live_lookup::LiveLookup;
use crate::directory::Step;
use crate::error::{Error, Result};
use crate::format::Slice;
use crate::runtime::{WorkerRead, read_on_worker};
use crate::table::{PackRead, Planned};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of [`DirectoryKeyspace::get_async`](crate::DirectoryKeyspace::get_async). It keeps the database open.
#[must_use = "a future does nothing unless it is polled"]
pub struct GetAsync {
    keyspace: Keyspace,
    /// The lookup, or the error that keeps it from beginning; `None` once the future was ready.
    lookup: Option<Result<LiveLookup>>,
    /// The read that the lookup needs.
    reading: Option<Reading>,
}

struct Reading {
    read: PackRead,
    planned: Planned,
    made: WorkerRead,
}

impl GetAsync {
    pub(super) fn new(keyspace: &Keyspace, directory: u64, name: &[u8]) -> GetAsync {
        let lookup = keyspace.entry_key(directory, name).map(LiveLookup::new);
        GetAsync { keyspace: keyspace.clone(), lookup: Some(lookup), reading: None }
    }

    fn go_on(&mut self, lookup: &mut LiveLookup, context: &mut Context<'_>) -> Poll<Result<Option<Slice>>> {
        let engine = self.keyspace.engine();
        let mut brought = None;
        loop {
            if let Some(reading) = &mut self.reading {
                let Poll::Ready(made) = Pin::new(&mut reading.made).poll(context) else { return Poll::Pending };
                // The workers end when the database is closed.
                let made = made.unwrap_or(Err(Error::Closed));
                brought = Some(reading.read.finish(reading.planned, made)?);
                self.reading = None;
            }
            match lookup.step(&self.keyspace, brought.take())? {
                Step::Done(found) => return Poll::Ready(Ok(found)),
                Step::Needs(read) => {
                    let (to_make, planned) = read.plan(true)?;
                    let made = read_on_worker(&*engine.environment.scheduler, read.gate(), to_make);
                    self.reading = Some(Reading { read, planned, made });
                }
            }
        }
    }

    /// Releases the packs, and tells the engine if there were any.
    fn let_go(&mut self) {
        let held = (self.reading.take(), self.lookup.take());
        let had_any = held.0.is_some() || held.1.is_some();
        drop(held);
        if had_any {
            self.keyspace.engine().readers_left();
        }
    }
}

impl Future for GetAsync {
    type Output = Result<Option<Slice>>;

    /// # Panics
    /// When it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut lookup = match self.lookup.take() {
            Some(Ok(lookup)) => lookup,
            Some(Err(error)) => return Poll::Ready(Err(error)),
            None => panic!("a future was polled after it was ready"),
        };
        let polled = self.go_on(&mut lookup, context);
        self.lookup = Some(Ok(lookup));
        if polled.is_ready() {
            self.let_go();
        }
        polled
    }
}

impl Drop for GetAsync {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl fmt::Debug for GetAsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetAsync").field("is_reading", &self.reading.is_some()).finish_non_exhaustive()
    }
}
