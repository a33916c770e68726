//! Replacing a manifest that has grown long, on the run (DESIGN 6, Manifest), without anybody waiting for a sync.
//!
//! The new one begins with the state at the last edit that a `settled` record reaches, followed by the edits after it
//! verbatim. It is written and synced, with its name, while edits still go to the old one. Then, with the turn to
//! append, it gets what was appended meanwhile, CURRENT is switched, and edits go to the new one. The turn to sync is
//! held throughout, until CURRENT is durable: nothing that only the new manifest has counts as durable before, and no
//! edit is settled meanwhile. Only then is the old one removed. A crash at any step leaves a CURRENT that names a whole
//! manifest with all edits that were durable. The root directory is open all along: after the switch nothing may fail
//! for want of a descriptor.

use crate::error::{Error, ErrorKind, Result};
use crate::lineage::manifest::current::{Current, manifest_path};
use crate::lineage::manifest::fragments::Header;
use crate::lineage::manifest::write::{Begun, CHUNK_BYTES, image};
use crate::lineage::settle::ledger::Copied;
use crate::lineage::{Lineage, OpenManifest};
use crate::planted::{Bug, planted};
use crate::runtime::{BackgroundFile, yield_now};
use std::sync::Arc;

/// Whether a rotation that failed can be undone and tried again.
fn passes(error: &Error) -> bool {
    let is_shortage = error.is_shortage() && !planted(Bug::DescriptorsPoison);
    is_shortage || matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Closed)
}

impl Lineage {
    pub(in crate::lineage) fn wants_rotation(&self) -> bool {
        let book = self.book();
        book.open.end > book.open.rotate_at && !book.is_closed
    }

    /// Begins a new manifest. On a full disk, and with no descriptor left, the old one stays, for a while longer.
    pub(in crate::lineage) async fn rotate(&self) -> Result<()> {
        let _syncing = self.syncing.take(&self.environment).await;
        self.check()?;
        if !self.wants_rotation() {
            return Ok(());
        }
        let (header, content, copied) = {
            let book = &mut *self.book();
            let header = Header { number: book.next_number, generation: self.environment.entropy.next_u64() };
            book.next_number += 1;
            let (base, edits) = book.ledger.to_rotate();
            let content = image(header, base, edits);
            let copied = Copied { recorded: base.edit, appended: book.ledger.appended(), bytes: content.len() as u64 };
            (header, content, copied)
        };
        let switched = match self.write_successor(header, &content).await {
            Ok(file) => self.switch(&file, header, copied).await,
            Err(error) => Err(error),
        };
        match switched {
            Ok(()) => Ok(()),
            Err(error) if passes(&error) => {
                let _ = self.environment.storage.remove(&manifest_path(&self.root, header.number));
                let book = &mut *self.book();
                book.open.rotate_at = book.open.end.saturating_add(book.rotation_bytes);
                Ok(())
            }
            Err(error) => Err(self.health.poison(error)),
        }
    }

    /// Puts the written successor in force, with what was appended since it was copied. With the turn to sync.
    /// `NoSpace`, `Closed`, a shortage of descriptors: nothing was changed.
    async fn switch(&self, file: &BackgroundFile, header: Header, copied: Copied) -> Result<()> {
        let turn = self.turn.take(&self.environment).await;
        self.check()?;
        if self.book().is_closed {
            return Err(Error::Closed);
        }
        let (rest, moved) = self.book().ledger.rest_after(copied, header.generation);
        file.write_all_at(copied.bytes, &rest).await?;
        Current::put_in_force(&*self.environment.storage, &self.root)?;
        let bytes = copied.bytes + rest.len() as u64;
        let old = {
            let book = &mut *self.book();
            let begun = Begun { file: Arc::clone(file.file()), header, bytes };
            let next = OpenManifest::new(begun, book.rotation_bytes);
            book.ledger.move_to_successor(copied, &moved);
            std::mem::replace(&mut book.open, next).number
        };
        drop(turn);
        self.metrics.manifest_written_bytes.add(bytes);
        yield_now().await;
        let synced = self.root_directory.sync().await;
        synced.map_err(|error| self.health.poison(error))?;
        let settled = self.book().ledger.synced(copied.bytes);
        self.let_go(settled);
        yield_now().await;
        // A name that stays is removed by the next open.
        let _ = self.environment.storage.remove(&manifest_path(&self.root, old));
        Ok(())
    }

    /// All steps up to the switch, durably; the old manifest is in force all the while.
    async fn write_successor(&self, header: Header, content: &[u8]) -> Result<BackgroundFile> {
        let storage = &*self.environment.storage;
        let file = BackgroundFile::new(storage.create(&manifest_path(&self.root, header.number))?);
        for (index, chunk) in content.chunks(CHUNK_BYTES).enumerate() {
            file.write_all_at((index * CHUNK_BYTES) as u64, chunk).await?;
        }
        file.sync().await?;
        self.root_directory.sync().await?;
        let Header { number, generation } = header;
        Current { number, generation, bytes: content.len() as u64 }.write_new(storage, &self.root)?;
        yield_now().await;
        Ok(file)
    }
}
