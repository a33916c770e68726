//! Simulated clients: stackful coroutines, so that a foreground call deep in the engine can be suspended.
//!
//! A coroutine is suspended through its yielder, which is on its own stack. Each client has one of a fixed number of
//! slots. Each slot has a scoped thread-local that points to that yielder from the client's first to its last step. So
//! clients can be resumed in any order, and never use another client's yielder.

use crate::world::World;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use scoped_tls::{ScopedKey, scoped_thread_local};
use std::cell::RefCell;

/// The body of a client.
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

/// The number of clients that a world runs at the same time.
pub const CLIENTS_MAX: usize = 8;

/// Suspends the client in `slot`, which must be the running one.
pub(crate) fn suspend(slot: usize) {
    SLOTS[slot].with(|yielder| yielder.suspend(()));
}

thread_local! {
    /// The clients of this thread that have not ended, by slot.
    static CREW: RefCell<[Option<Coroutine<(), (), ()>>; CLIENTS_MAX]> = const { RefCell::new([const { None }; _]) };
}

/// Leaks the suspended clients after a panic. Unwinding them would run destructors of the engine that wait, and nothing
/// would wake them.
pub(crate) fn forget_all() {
    CREW.with_borrow_mut(|crew| crew.iter_mut().filter_map(Option::take).for_each(std::mem::forget));
}

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
