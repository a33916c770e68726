//! [`CommitTicket`]: says when a buffered write is durable; [`UntilDurable`]: the same as a future.

use crate::error::Result;
use crate::format::LogPosition;
use crate::log::{CallbackId, Callbacks, Log};
use crate::sync::Mutex;
use std::cmp::Ordering;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

/// A ticket of a write: it tells when the write, and every write visible before it, is durable.
///
/// [`WriteBatch::commit_ticket`](crate::WriteBatch::commit_ticket) and [`Database::ticket`](crate::Database::ticket)
/// give one. A ticket costs nothing until it is waited for. [`CommitTicket::wait`], [`CommitTicket::on_durable`] and
/// the future each cause a sync of the log at once, which serves every ticket that waits. So many waiting tickets need
/// few syncs, and with `on_durable` or the future none of them needs a thread.
///
/// A ticket does not keep the database open. A close makes everything durable first, so each ticket is durable then. If
/// the database is poisoned, a ticket that was not durable by then gets `Poisoned`. The write may survive all the same.
///
/// Tickets of one open database compare in the order of their writes: of two tickets, the smaller one is durable if the
/// greater one is.
///
/// ```
/// use std::sync::mpsc;
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-ticket-{}", std::process::id()));
/// # let db = thalweg::Database::open(&dir)?;
/// let accounts = db.keyspace("accounts")?;
/// let (replies, replied) = mpsc::channel();
/// for client in 0..3 {
///     let mut batch = db.batch();
///     batch.insert(&accounts, format!("client {client}"), "100")?;
///     let replies = replies.clone();
///     // Returns at once; the client gets its reply when no power cut can take the write.
///     batch.commit_ticket()?.on_durable(move |outcome| {
///         let _ = replies.send((client, outcome.is_ok()));
///     });
/// }
/// drop(replies);
/// assert!(replied.iter().all(|(_client, is_durable)| is_durable));
/// # db.close()?; let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CommitTicket {
    callbacks: Arc<Callbacks>,
    log: Weak<Log>,
    /// The end of the last record that must be durable.
    position: LogPosition,
}

impl CommitTicket {
    /// A ticket for everything before `position`, which must be published.
    pub(super) fn new(log: &Arc<Log>, position: LogPosition) -> CommitTicket {
        CommitTicket { callbacks: Arc::clone(log.callbacks()), log: Arc::downgrade(log), position }
    }

    /// Whether the write is durable. It loads one number from memory: it makes no system call and causes no sync. So
    /// without a sync at intervals (`log_sync_interval`) the answer stays `false` until another call causes a sync.
    /// After the close of a database that was not poisoned it is `true`.
    pub fn is_durable(&self) -> bool {
        self.callbacks.is_durable(self.position)
    }

    /// Waits until the write is durable, as a `Sync` write waits: for two syncs of the log at most.
    ///
    /// # Errors
    /// `Poisoned` if that cannot be promised.
    pub fn wait(&self) -> Result<()> {
        match self.log.upgrade() {
            Some(log) => log.sync(self.position),
            // The database was closed, and every handle is gone.
            None => self.callbacks.outcome(self.position),
        }
    }

    /// Calls `callback` once: with `Ok` when the write is durable, or with `Poisoned` if that cannot be promised. It
    /// causes a sync at once; the call comes after at most two syncs of the log.
    ///
    /// If the answer is known already, the calling thread calls `callback` before this returns. Otherwise a background
    /// thread of the database calls it, in the order of the tickets, at the latest at the close.
    ///
    /// The background thread also syncs the log for others. So `callback` must not block, and must not call anything
    /// that may wait: no write, no `persist`, no [`CommitTicket::wait`]. It must not drop the last handle of the
    /// database either, because that closes the database. It may take, ask and wait for tickets by callback. If it
    /// panics there, the panic ends only the callback.
    pub fn on_durable(&self, callback: impl FnOnce(Result<()>) + Send + 'static) {
        self.callbacks.when_durable(self.position, Box::new(callback));
    }
}

impl PartialEq for CommitTicket {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for CommitTicket {
    /// `None` for tickets of two databases, or of one that was opened twice.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Arc::ptr_eq(&self.callbacks, &other.callbacks).then(|| self.position.cmp(&other.position))
    }
}

impl fmt::Debug for CommitTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let position = format_args!("{}", self.position);
        f.debug_struct("CommitTicket").field("position", &position).field("is_durable", &self.is_durable()).finish()
    }
}

impl IntoFuture for CommitTicket {
    type Output = Result<()>;
    type IntoFuture = UntilDurable;

    /// A future that is ready when the write is durable, with what [`CommitTicket::on_durable`] gives its callback.
    fn into_future(self) -> UntilDurable {
        UntilDurable { ticket: self, asked: None }
    }
}

/// The future of a [`CommitTicket`], for any executor. Its first poll causes a sync, unless the write is durable. It
/// may be dropped at any time.
#[must_use = "a future does nothing unless it is polled"]
pub struct UntilDurable {
    ticket: CommitTicket,
    asked: Option<Asked>,
}

/// A callback that the future has asked for.
struct Asked {
    id: Option<CallbackId>,
    answer: Arc<Mutex<Answer>>,
}

/// The answer that the callback leaves to the future, and the waker that it wakes.
#[derive(Default)]
struct Answer {
    outcome: Option<Result<()>>,
    waker: Option<Waker>,
}

impl UntilDurable {
    fn ask(ticket: &CommitTicket) -> Asked {
        let answer = Arc::<Mutex<Answer>>::default();
        let to = Arc::clone(&answer);
        let callback = move |outcome| {
            let waker = {
                let mut answer = to.lock();
                answer.outcome = Some(outcome);
                answer.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        };
        Asked { id: ticket.callbacks.when_durable(ticket.position, Box::new(callback)), answer }
    }
}

impl Future for UntilDurable {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.ticket.is_durable() {
            return Poll::Ready(Ok(()));
        }
        let UntilDurable { ticket, asked } = &mut *self;
        let asked = asked.get_or_insert_with(|| Self::ask(ticket));
        let mut answer = asked.answer.lock();
        if let Some(outcome) = &answer.outcome {
            return Poll::Ready(outcome.clone());
        }
        let earlier = match &answer.waker {
            Some(waker) if waker.will_wake(context.waker()) => None,
            _ => answer.waker.replace(context.waker().clone()),
        };
        drop(answer);
        drop(earlier);
        Poll::Pending
    }
}

impl Drop for UntilDurable {
    fn drop(&mut self) {
        if let Some(id) = self.asked.as_ref().and_then(|asked| asked.id) {
            self.ticket.callbacks.forget(id);
        }
    }
}

impl fmt::Debug for UntilDurable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UntilDurable").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}
