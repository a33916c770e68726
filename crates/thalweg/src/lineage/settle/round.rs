//! A settle round: many edits become durable together, and nobody waits for it (DESIGN 6; NOB-3, 4, 7; A1, A2, A3, A5).
//!
//! Order, for the edits up to the newest one, E:
//! 1. the log is made durable to the highest sequence number that their flushes carry, else a flushed half of a batch
//!    would outlive the other half;
//! 2. the outputs are made durable, or written out so that the next commit of the journal makes them so (the back-end);
//! 3. a `round` record is appended: the manifest grows, so that its sync has metadata to commit, in the transaction of
//!    the outputs' or a later one;
//! 4. the manifest is synced. The edits are durable;
//! 5. `settled(E)` is appended. It becomes durable with the next sync of the manifest, the next round's or one that
//!    follows when there is nothing new; only then do the inputs go.
//!
//! A crash before 4 has ended leaves any part of it: recovery verifies the outputs of unsettled edits one by one, and
//! stops at the first that is not whole or whose sequence number the log does not reach. The inputs are all there.
//!
//! [`Rule::Commits`] and [`Rule::Nothing`] believe instead (`docs/durability.md` tells what that costs).

use crate::error::Result;
use crate::format::EditId;
use crate::lineage::Lineage;
use crate::lineage::manifest::record::Record;
use crate::lineage::settle::backend::Rule;
use crate::lineage::settle::settler::Reason;
use crate::planted::{Bug, planted};

/// What the journal had committed when it was last asked, and what had been appended by then.
#[derive(Clone, Copy, Debug)]
pub(in crate::lineage) struct Poll {
    commits: u64,
    appended: EditId,
    /// The manifest's number and length.
    manifest: u64,
    end: u64,
}

impl Lineage {
    /// Brings the edits appended so far at least one station on, and all of them to the last if nothing new comes and
    /// it is called again.
    pub(in crate::lineage) async fn settle_round(&self, reason: Reason) -> Result<()> {
        match self.backend.rule() {
            Rule::EachEdit => self.settle_synced().await,
            Rule::Rounds => self.round(reason).await,
            Rule::Commits if reason != Reason::Asked => self.poll_journal().await,
            // Who asks gets more than belief, as far as it was not believed before.
            Rule::Commits => self.round(reason).await,
            Rule::Nothing => self.believe_all().await,
        }
    }

    async fn round(&self, reason: Reason) -> Result<()> {
        let round = self.book().ledger.to_settle();
        if let Some(round) = &round {
            self.sync_log(round.seq).await?;
            let outputs = self.unsynced(round.outputs.iter().copied());
            if planted(Bug::ManifestBeforeTables) {
                self.book().ledger.make_sound(round.target);
                self.sync_manifest_after(None).await?;
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
            self.forget_unsynced(round.outputs.into_iter().chain(round.replaced));
        }
        self.record_settled().await
    }

    /// With the outputs of every edit durable before it was appended: all stations, for the edits appended so far.
    async fn settle_synced(&self) -> Result<()> {
        let target = self.book().ledger.appended();
        self.sync_until(|ledger| ledger.durable() >= target).await?;
        self.record_settled().await?;
        let recorded = self.book().ledger.recorded();
        self.sync_until(|ledger| ledger.settled() >= recorded).await
    }

    /// NOB-6, 8: what was written before a commit of the journal is believed durable.
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

    async fn believe_all(&self) -> Result<()> {
        let appended = self.book().ledger.appended();
        self.believe(appended, |open| open.end).await
    }

    /// Goes on as if a sync had covered the manifest to `end`, and all outputs up to `sound`.
    async fn believe(&self, sound: EditId, end: impl FnOnce(&crate::lineage::OpenManifest) -> u64) -> Result<()> {
        {
            let _syncing = self.syncing.take(&self.environment).await;
            self.check()?;
            let settled = {
                let book = &mut *self.book();
                book.ledger.make_sound(sound);
                let end = end(&book.open);
                book.ledger.synced(end)
            };
            self.let_go(settled);
        }
        self.record_settled().await
    }
}
