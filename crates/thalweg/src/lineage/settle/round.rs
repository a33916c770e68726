//! Settle rounds: many edits become durable together, and no caller waits (NOB-3, 4, 7; NOB-A1, A2, A3, A5).
//!
//! The steps, for the edits up to the newest one, E:
//! 1. The log becomes durable up to the highest sequence number that these edits flushed. Otherwise the flushed half of
//!    a batch could outlive the other half.
//! 2. The back-end makes the outputs durable, or writes them out so that the journal's next commit does.
//! 3. A `round` record is appended, so the manifest grows. Therefore its sync has metadata to commit, in the
//!    transaction of the outputs or a later one.
//! 4. The manifest is synced. Now the edits are durable.
//! 5. `settled(E)` is appended. It becomes durable with the next sync of the manifest: the next round's, or an extra
//!    one when there is nothing new. Only then may the inputs go.
//!
//! A crash before the end of step 4 may leave any part of this. Recovery verifies the outputs of unsettled edits one by
//! one. It stops at the first edit whose outputs are not whole or whose sequence number the log does not reach. All
//! inputs still exist.
//!
//! [`Rule::Commits`] and [`Rule::Nothing`] believe edits durable without a sync (`docs/durability.md` describes the
//! cost).

use crate::error::Result;
use crate::format::EditId;
use crate::lineage::book::{OpenManifest, Poll};
use crate::lineage::manifest::record::Record;
use crate::lineage::open::Lineage;
use crate::lineage::settle::backend::Rule;
use crate::lineage::settle::pressure::Reason;
use crate::planted::{Bug, planted};

impl Lineage {
    /// Runs a round if one may not wait for its interval. For edits that are installed while no settler runs.
    pub(crate) async fn settle_if_pressed(&self) -> Result<()> {
        match self.reason_to_settle().filter(|reason| *reason != Reason::Time) {
            Some(reason) => self.settle_round(reason).await,
            None => Ok(()),
        }
    }

    /// Moves the edits appended so far on by at least one stage. A second call without new edits between settles them.
    pub(in crate::lineage) async fn settle_round(&self, reason: Reason) -> Result<()> {
        match self.backend.rule() {
            Rule::EachEdit => self.settle_synced().await,
            Rule::Rounds => self.round(reason).await,
            Rule::Commits if reason != Reason::Requested => self.poll_journal().await,
            // For a caller that waits, edits that are not believed durable yet are synced.
            Rule::Commits => self.round(reason).await,
            Rule::Nothing => self.believe_all().await,
        }
    }

    /// Runs one round.
    async fn round(&self, reason: Reason) -> Result<()> {
        let round = self.book().ledger.to_settle();
        if let Some(round) = &round {
            self.sync_log(round.seq).await?;
            let outputs = self.unsynced(round.outputs.iter().copied());
            if planted(Bug::ManifestBeforeTables) {
                self.sync_manifest_early(round.target).await?;
            }
            self.backend.settle(outputs).await?;
            self.append_record(Record::Round { edit: round.target }).await?;
            self.metrics.settle_rounds.increment();
            if reason == Reason::Space {
                self.metrics.settle_rounds_for_space.increment();
            }
        }
        self.sync_manifest_after(round.as_ref().map(|round| round.target)).await?;
        if let Some(round) = round {
            self.forget_unsynced(round.outputs, true);
            self.forget_unsynced(round.replaced, false);
        }
        self.record_settled().await
    }

    /// Settles the edits appended so far. The outputs of each were durable before it was appended.
    async fn settle_synced(&self) -> Result<()> {
        let target = self.book().ledger.appended();
        self.sync_until(|ledger| ledger.durable() >= target).await?;
        self.record_settled().await?;
        let recorded = self.book().ledger.recorded();
        self.sync_until(|ledger| ledger.settled() >= recorded).await
    }

    /// Polls the journal. Everything that was written before its last commit is believed durable (NOB-6, 8).
    async fn poll_journal(&self) -> Result<()> {
        let Some(commits) = self.environment.storage.journal_commits(&self.root) else {
            return self.believe_all().await;
        };
        let committed = {
            let book = &mut *self.book();
            let now =
                Poll { commits, appended: book.ledger.appended(), manifest: book.open.number, end: book.open.end };
            let before = book.poll.replace(now);
            before.filter(|before| before.commits < commits)
        };
        let Some(Poll { appended, manifest, end, .. }) = committed else { return Ok(()) };
        self.believe(appended, |open| if open.number == manifest { end } else { 0 }).await
    }

    /// Believes that everything appended so far is durable.
    async fn believe_all(&self) -> Result<()> {
        let appended = self.book().ledger.appended();
        self.believe(appended, |open| open.end).await
    }

    /// Continues as if a sync had covered the manifest up to `end`, and the outputs of all edits up to `sound`.
    async fn believe(&self, sound: EditId, end: impl FnOnce(&OpenManifest) -> u64) -> Result<()> {
        {
            let _syncing = self.syncing.lock(&self.environment).await;
            self.check()?;
            let settled = {
                let book = &mut *self.book();
                book.ledger.make_sound(sound);
                let end = end(&book.open);
                book.ledger.synced(end)
            };
            self.release(settled);
        }
        self.record_settled().await
    }
}
