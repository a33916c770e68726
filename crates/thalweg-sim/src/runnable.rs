//! [`Runnable`], [`Running`]: what can run in a world, and what runs.

/// A task or client that can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runnable {
    Task(u64),
    Client(usize),
}

/// The client or coroutine that runs at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// The stack of the harness: opens and closes, and runs background steps while it waits.
    Main,
    Client(usize),
    Task(u64),
}
