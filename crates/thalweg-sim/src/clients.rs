//! Simulated clients: stackful coroutines, so that a foreground call deep in the engine can be suspended. Each has one
//! of a fixed number of slots (`slots.rs`).

use crate::slots::{CLIENTS_MAX, CREW, ClientYielder, SLOTS};
use crate::world::World;
use corosensei::{Coroutine, CoroutineResult};

/// The body of a client.
pub type Client = Box<dyn FnOnce()>;

impl World {
    /// Runs clients and background coroutines until all clients have ended, except parked ones.
    pub fn run_clients(&self, clients: Vec<Client>) {
        for client in clients {
            let slot = CREW.with_borrow(|crew| crew.iter().position(Option::is_none));
            let slot = slot.unwrap_or_else(|| panic!("there are {CLIENTS_MAX} slots"));
            let coroutine = Coroutine::new(move |yielder: &ClientYielder, ()| SLOTS[slot].set(yielder, client));
            CREW.with_borrow_mut(|crew| crew[slot] = Some(coroutine));
            self.add_client(slot);
        }
        while self.has_clients(false) {
            self.step("clients run");
        }
    }

    /// Runs the parked clients to their ends.
    pub fn gather_clients(&self) {
        while self.has_clients(true) {
            self.step("parked clients run to their ends");
        }
    }

    /// Runs a client until it waits or ends.
    pub(crate) fn resume_client(&self, slot: usize) {
        let Some(mut coroutine) = CREW.with_borrow_mut(|crew| crew[slot].take()) else { return };
        self.set_running_client(Some(slot));
        let outcome = coroutine.resume(());
        self.set_running_client(None);
        match outcome {
            CoroutineResult::Yield(()) => CREW.with_borrow_mut(|crew| crew[slot] = Some(coroutine)),
            CoroutineResult::Return(()) => self.remove_client(slot),
        }
    }
}
