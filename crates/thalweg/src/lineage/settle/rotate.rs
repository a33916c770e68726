//! Replaces a manifest that has grown long while the database runs; no caller waits for a sync.
//!
//! 1. The new manifest gets the state at the last edit that a `settled` record reaches, and the edits after it,
//!    verbatim. It is written and synced, with its name. Meanwhile edits still go to the old manifest.
//! 2. Under `turn` the new manifest gets the records that were appended meanwhile, and CURRENT is switched. From then
//!    on edits go to the new manifest.
//! 3. The root directory is synced, so CURRENT is durable.
//! 4. The old manifest is removed.
//!
//! `syncing` is held throughout. So nothing that only the new manifest holds counts as durable before CURRENT is
//! durable, and no edit is settled meanwhile. A crash at any step leaves a CURRENT that names a whole manifest with all
//! durable edits. The root directory is kept open: after the switch no step may fail because descriptors ran out.

use crate::error::{Error, ErrorKind, Result};
use crate::lineage::book::OpenManifest;
use crate::lineage::files::manifest_path;
use crate::lineage::manifest::current::Current;
use crate::lineage::manifest::header::ManifestHeader;
use crate::lineage::manifest::write::{Begun, CHUNK_BYTES, image};
use crate::lineage::open::Lineage;
use crate::lineage::settle::ledger::Copied;
use crate::planted::{Bug, planted};
use crate::runtime::{BackgroundFile, yield_now};
use std::sync::Arc;

/// Returns whether a failed rotation can be undone and tried again.
fn passes(error: &Error) -> bool {
    let is_shortage = error.is_shortage() && !planted(Bug::DescriptorsPoison);
    is_shortage || matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Closed)
}

impl Lineage {
    /// Returns whether the manifest is long enough to be replaced.
    pub(in crate::lineage) fn wants_rotation(&self) -> bool {
        let book = self.book();
        book.open.end > book.open.rotate_at && !book.is_closed
    }

    /// Replaces the manifest if it is long. On a full disk, or without a free descriptor, the old one stays for longer.
    pub(in crate::lineage) async fn rotate(&self) -> Result<()> {
        let _syncing = self.syncing.lock(&self.environment).await;
        self.check()?;
        if !self.wants_rotation() {
            return Ok(());
        }
        let (header, content, copied) = {
            let book = &mut *self.book();
            let header = ManifestHeader { number: book.next_number, generation: self.environment.entropy.next_u64() };
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

    /// Puts the written successor in force, with the records that were appended since the copy. The caller holds
    /// `syncing`. After `NoSpace`, `Closed` or a shortage of descriptors nothing is changed.
    async fn switch(&self, file: &BackgroundFile, header: ManifestHeader, copied: Copied) -> Result<()> {
        let turn = self.turn.lock(&self.environment).await;
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
        self.manifest_synced(copied.bytes);
        yield_now().await;
        // If this fails, the next open removes the file.
        let _ = self.environment.storage.remove(&manifest_path(&self.root, old));
        Ok(())
    }

    /// Writes the successor and CURRENT.new, durably. The old manifest stays in force.
    async fn write_successor(&self, header: ManifestHeader, content: &[u8]) -> Result<BackgroundFile> {
        let storage = &*self.environment.storage;
        let file = BackgroundFile::new(storage.create(&manifest_path(&self.root, header.number))?);
        for (index, chunk) in content.chunks(CHUNK_BYTES).enumerate() {
            file.write_all_at((index * CHUNK_BYTES) as u64, chunk).await?;
        }
        file.sync().await?;
        self.root_directory.sync().await?;
        let ManifestHeader { number, generation } = header;
        Current { number, generation, bytes: content.len() as u64 }.write_new(storage, &self.root)?;
        yield_now().await;
        Ok(file)
    }
}
