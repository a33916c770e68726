//! The slots of simulated clients: each has a scoped thread-local that points to the yielder of its client, from the
//! client's first to its last step. So clients can be resumed in any order, and never use another client's yielder.

use corosensei::{Coroutine, Yielder};
use scoped_tls::{ScopedKey, scoped_thread_local};
use std::cell::RefCell;

/// The yielder of a client, on its own stack.
pub(crate) type ClientYielder = Yielder<(), ()>;

scoped_thread_local!(static SLOT_0: ClientYielder);
scoped_thread_local!(static SLOT_1: ClientYielder);
scoped_thread_local!(static SLOT_2: ClientYielder);
scoped_thread_local!(static SLOT_3: ClientYielder);
scoped_thread_local!(static SLOT_4: ClientYielder);
scoped_thread_local!(static SLOT_5: ClientYielder);
scoped_thread_local!(static SLOT_6: ClientYielder);
scoped_thread_local!(static SLOT_7: ClientYielder);

/// The yielders of the running clients.
pub(crate) static SLOTS: [&ScopedKey<ClientYielder>; CLIENTS_MAX] =
    [&SLOT_0, &SLOT_1, &SLOT_2, &SLOT_3, &SLOT_4, &SLOT_5, &SLOT_6, &SLOT_7];

/// The number of clients that a world runs at the same time.
pub const CLIENTS_MAX: usize = 8;

/// Suspends the client in `slot`, which must be the running one.
pub(crate) fn suspend(slot: usize) {
    SLOTS[slot].with(|yielder| yielder.suspend(()));
}

thread_local! {
    /// The clients of this thread that have not ended, by slot.
    pub(crate) static CREW: RefCell<[Option<Coroutine<(), (), ()>>; CLIENTS_MAX]> =
        const { RefCell::new([const { None }; _]) };
}

/// Leaks the suspended clients after a panic. Unwinding them would run destructors of the engine that wait, and nothing
/// would wake them.
pub(crate) fn forget_all() {
    CREW.with_borrow_mut(|crew| crew.iter_mut().filter_map(Option::take).for_each(std::mem::forget));
}
