//! The reads of many entries at once of a simulated client in the directory keyspace: `multi_get`, of the current state
//! and in a snapshot, a reader, and futures.

use super::client::ClientRun;
use crate::keys;
use crate::spot::Spot;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use thalweg::simulation::Event;
use thalweg::{DirectoryKeyspace, GetAsync, Reader};

/// An event that the wakers of futures notify.
#[derive(Default)]
struct Woken(Event);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_all();
    }
}

impl ClientRun {
    /// Reads several entries in one of the possible ways.
    pub(super) fn read_many_entries(&mut self, name: &Arc<str>, files: &DirectoryKeyspace) {
        let count = self.rng.between(1, 8);
        let keys: Vec<Vec<u8>> = (0..count).map(|_| self.some_spot().0.1).collect();
        match self.rng.below(4) {
            0 => self.get_entries(name, files, keys),
            1 => self.get_entries_in_a_snapshot(name, files, keys),
            2 => self.get_by_a_reader(name, files, keys),
            _ => self.get_as_futures(name, files, keys),
        }
    }

    fn get_entries(&mut self, name: &Arc<str>, files: &DirectoryKeyspace, keys: Vec<Vec<u8>>) {
        self.stage.world.doing(|| format!("multi_get of {} entries", keys.len()));
        let entries: Vec<(u64, &Vec<u8>)> = keys.iter().map(|key| (keys::directory_of(key), key)).collect();
        let began = self.stage.tick();
        let outcome = files.multi_get(&entries);
        let ended = self.stage.tick();
        match outcome {
            Ok(found) => {
                assert_eq!(found.len(), keys.len(), "multi_get answers every entry");
                for (key, found) in keys.into_iter().zip(found) {
                    self.check(&(Arc::clone(name), key), found.as_deref(), began, ended);
                }
            }
            Err(error) => self.reading_fails(name, "multi_get of entries", &error),
        }
    }

    fn get_entries_in_a_snapshot(&mut self, name: &Arc<str>, files: &DirectoryKeyspace, keys: Vec<Vec<u8>>) {
        let Some(view) = self.views.last() else { return self.get_entries(name, files, keys) };
        let (began, ended) = (view.began, view.ended);
        self.stage.world.doing(|| format!("multi_get of {} entries in a snapshot", keys.len()));
        let entries: Vec<(u64, &Vec<u8>)> = keys.iter().map(|key| (keys::directory_of(key), key)).collect();
        match view.snapshot.directory_keyspace(files).and_then(|files| files.multi_get(&entries)) {
            Ok(found) => {
                for (key, found) in keys.into_iter().zip(found) {
                    self.check(&(Arc::clone(name), key), found.as_deref(), began, ended);
                }
            }
            Err(error) => self.reading_fails(name, "multi_get of entries in a snapshot", &error),
        }
    }

    /// Makes lookups with a reader, while others write, merge and clear. Some readers are dropped with lookups in
    /// flight.
    fn get_by_a_reader(&mut self, name: &Arc<str>, files: &DirectoryKeyspace, keys: Vec<Vec<u8>>) {
        self.stage.world.doing(|| format!("{} lookups by a reader", keys.len()));
        let depth = self.rng.between(1, 5) as usize;
        let mut reader: Reader<(Spot, u64)> = match files.reader(depth) {
            Ok(reader) => reader,
            Err(error) => return self.reading_fails(name, "reader", &error),
        };
        for key in keys {
            while reader.is_full() || self.rng.one_in(4) {
                if !self.complete_one(name, &mut reader) {
                    break;
                }
            }
            let tag = ((Arc::clone(name), key.clone()), self.stage.tick());
            assert!(reader.push(tag, keys::directory_of(&key), &key).is_ok(), "the reader is not full");
            if self.rng.one_in(3) {
                self.stage.world.pause();
            }
        }
        if self.rng.one_in(4) {
            return;
        }
        while self.complete_one(name, &mut reader) {}
        assert_eq!(reader.in_flight(), 0, "each lookup is completed once");
    }

    /// Completes a lookup and checks it. `false`: no lookup is in flight.
    fn complete_one(&self, name: &Arc<str>, reader: &mut Reader<(Spot, u64)>) -> bool {
        let Some(((spot, began), outcome)) = reader.complete() else { return false };
        let ended = self.stage.tick();
        match outcome {
            Ok(found) => self.check(&spot, found.as_deref(), began, ended),
            Err(error) => self.reading_fails(name, "lookup by a reader", &error),
        }
        true
    }

    /// Makes lookups as futures, all polled at each wake-up. Some are dropped before they are ready.
    fn get_as_futures(&mut self, name: &Arc<str>, files: &DirectoryKeyspace, keys: Vec<Vec<u8>>) {
        self.stage.world.doing(|| format!("{} lookups as futures", keys.len()));
        let began = self.stage.tick();
        let begin = |key: Vec<u8>| (files.get_async(keys::directory_of(&key), &key), (Arc::clone(name), key));
        let mut waiting: Vec<(GetAsync, Spot)> = keys.into_iter().map(begin).collect();
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            let ticket = woken.0.ticket();
            let mut outcomes = Vec::new();
            waiting.retain_mut(|(future, spot)| match Pin::new(future).poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => true,
                Poll::Ready(outcome) => {
                    outcomes.push((spot.clone(), outcome));
                    false
                }
            });
            let ended = self.stage.tick();
            for (spot, outcome) in outcomes {
                match outcome {
                    Ok(found) => self.check(&spot, found.as_deref(), began, ended),
                    Err(error) => self.reading_fails(name, "lookup as a future", &error),
                }
            }
            if self.rng.one_in(8) {
                waiting.pop();
            }
            if waiting.is_empty() {
                return;
            }
            self.stage.world.wait(&woken.0, ticket, None);
        }
    }
}
