//! Simulated clients: stackful coroutines, so that a foreground call deep in the engine can be suspended.
//!
//! A coroutine is suspended through the yielder it was given, which lives on its own stack. Each client has one of a
//! fixed number of slots, and each slot a scoped thread-local of its own that points to that yielder from the client's
//! first to its last step; so resuming clients in any order never finds the yielder of another.

use crate::world::{Runnable, World};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use scoped_tls::{ScopedKey, scoped_thread_local};

/// What a client does.
pub type Client = Box<dyn FnOnce()>;

type ClientYielder = Yielder<(), ()>;

scoped_thread_local!(static SLOT_0: ClientYielder);
scoped_thread_local!(static SLOT_1: ClientYielder);
scoped_thread_local!(static SLOT_2: ClientYielder);
scoped_thread_local!(static SLOT_3: ClientYielder);
scoped_thread_local!(static SLOT_4: ClientYielder);
scoped_thread_local!(static SLOT_5: ClientYielder);
scoped_thread_local!(static SLOT_6: ClientYielder);
scoped_thread_local!(static SLOT_7: ClientYielder);

static SLOTS: [&ScopedKey<ClientYielder>; CLIENTS_MAX] =
    [&SLOT_0, &SLOT_1, &SLOT_2, &SLOT_3, &SLOT_4, &SLOT_5, &SLOT_6, &SLOT_7];

/// The most clients a world runs at once.
pub const CLIENTS_MAX: usize = 8;

/// Suspends the client in `slot`, which is the one that runs.
pub(crate) fn suspend(slot: usize) {
    SLOTS[slot].with(|yielder| yielder.suspend(()));
}

/// The clients of one run. When a panic passes, the suspended ones are leaked: unwinding them would run destructors
/// of the engine that wait, and nobody runs any more.
struct Crew(Vec<Option<Coroutine<(), (), ()>>>);

impl Drop for Crew {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.drain(..).flatten().for_each(std::mem::forget);
        }
    }
}

impl World {
    /// Runs clients and background coroutines until the last client has ended.
    pub fn run_clients(&self, clients: Vec<Client>) {
        assert!(clients.len() <= CLIENTS_MAX, "there are {CLIENTS_MAX} slots");
        let mut crew = Crew(Vec::new());
        for (slot, client) in clients.into_iter().enumerate() {
            crew.0.push(Some(Coroutine::new(move |yielder: &ClientYielder, ()| SLOTS[slot].set(yielder, client))));
            self.add_client(slot);
        }
        while crew.0.iter().any(Option::is_some) {
            match self.choose("clients run") {
                None => {}
                Some(Runnable::Task(number)) => self.poll_task(number),
                Some(Runnable::Client(slot)) => {
                    let Some(coroutine) = crew.0[slot].as_mut() else { continue };
                    self.set_running_client(Some(slot));
                    let outcome = coroutine.resume(());
                    self.set_running_client(None);
                    if let CoroutineResult::Return(()) = outcome {
                        crew.0[slot] = None;
                        self.remove_client(slot);
                    }
                }
            }
        }
    }
}
