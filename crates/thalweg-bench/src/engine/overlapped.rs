//! [`InFlight`]: the lookups that a thread has in flight in a directory keyspace of Thalweg, by a reader or as futures.

use super::LookupsBy;
use super::translation::refused;
use crate::error::Result;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use thalweg::{DirectoryKeyspace, GetAsync, Reader, Slice};

/// The result of a lookup.
type Found = thalweg::Result<Option<Slice>>;

/// The lookups that one thread has in flight.
pub(super) enum InFlight {
    Reader(Box<Reader<()>>),
    Futures(Futures),
}

impl InFlight {
    pub(super) fn new(keyspace: &DirectoryKeyspace, depth: usize, by: LookupsBy) -> Result<InFlight> {
        Ok(match by {
            LookupsBy::Reader => {
                let reader = keyspace.reader(depth).map_err(|error| refused("get", error))?;
                InFlight::Reader(Box::new(reader))
            }
            LookupsBy::Futures => InFlight::Futures(Futures::new(depth)),
        })
    }

    /// Begins a lookup. Waits for one lookup and returns its result if the greatest number is in flight.
    pub(super) fn get(&mut self, keyspace: &DirectoryKeyspace, directory: u64, name: &[u8]) -> Result<Option<Found>> {
        match self {
            InFlight::Reader(reader) => {
                reader.push((), directory, name).map_err(|full| refused("get", full.into()))?;
                Ok(if reader.is_full() { reader.complete().map(|(_, found)| found) } else { None })
            }
            InFlight::Futures(futures) => Ok(futures.get(keyspace.get_async(directory, name))),
        }
    }
}

/// Futures that this thread polls.
pub(super) struct Futures {
    futures: Vec<Option<GetAsync>>,
    wakers: Vec<Waker>,
    free: Vec<usize>,
    woken: Arc<Woken>,
}

/// The numbers of the futures that were woken.
struct Woken {
    numbers: Mutex<VecDeque<usize>>,
    thread: Thread,
}

struct WakeOne {
    number: usize,
    woken: Arc<Woken>,
}

impl Wake for WakeOne {
    fn wake(self: Arc<Self>) {
        let was_empty = {
            let mut numbers = self.woken.numbers.lock().unwrap_or_else(PoisonError::into_inner);
            numbers.push_back(self.number);
            numbers.len() == 1
        };
        if was_empty {
            self.woken.thread.unpark();
        }
    }
}

impl Futures {
    fn new(depth: usize) -> Futures {
        let woken = Arc::new(Woken { numbers: Mutex::default(), thread: std::thread::current() });
        let waker = |number| Waker::from(Arc::new(WakeOne { number, woken: Arc::clone(&woken) }));
        let wakers = (0..depth).map(waker).collect();
        Futures { futures: (0..depth).map(|_| None).collect(), wakers, free: (0..depth).collect(), woken }
    }

    /// Polls one more future. Waits for any future and returns its result if the greatest number is in flight.
    fn get(&mut self, future: GetAsync) -> Option<Found> {
        let number = self.free.pop()?;
        self.futures[number] = Some(future);
        if let Some(found) = self.poll(number) {
            return Some(found);
        }
        while self.free.is_empty() {
            let next = self.woken.numbers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match next {
                Some(number) => {
                    if let Some(found) = self.poll(number) {
                        return Some(found);
                    }
                }
                None => std::thread::park(),
            }
        }
        None
    }

    fn poll(&mut self, number: usize) -> Option<Found> {
        let future = self.futures[number].as_mut()?;
        let Poll::Ready(found) = Pin::new(future).poll(&mut Context::from_waker(&self.wakers[number])) else {
            return None;
        };
        self.futures[number] = None;
        self.free.push(number);
        Some(found)
    }
}
