//! Replacing a manifest that has grown long, on the run (DESIGN 6, Manifest).
//!
//! The new one begins with the state at the last settled edit, followed by the unsettled edits verbatim. It is written
//! and synced, with its name; then CURRENT is switched, durably; only then is the old one removed. A crash at any step
//! leaves a CURRENT that names a whole manifest with all edits that were durable. Both turns are held throughout.

use super::current::{Current, manifest_path};
use super::framing::Header;
use super::manifest::{Begun, CHUNK_BYTES, image};
use super::{Lineage, OpenManifest};
use crate::error::{ErrorKind, Result};
use crate::runtime::{BackgroundFile, yield_now};
use std::sync::Arc;

impl Lineage {
    pub(super) fn wants_rotation(&self) -> bool {
        let book = self.book();
        book.open.end > book.open.rotate_at && !book.is_closed
    }

    /// Begins a new manifest. On a full disk the old one stays, for a while longer.
    pub(super) async fn rotate(&self) -> Result<()> {
        let _turn = self.turn.take(&self.environment).await;
        let _syncing = self.syncing.take(&self.environment).await;
        self.check()?;
        if !self.wants_rotation() {
            return Ok(());
        }
        let generation = self.environment.entropy.next_u64();
        let (header, content) = {
            let book = &mut *self.book();
            let header = Header { number: book.next_number, generation };
            book.next_number += 1;
            let (base, edits) = book.ledger.to_rotate();
            (header, image(header, base, edits))
        };
        let file = match self.put_successor_in_force(header, &content).await {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                let _ = self.environment.storage.remove(&manifest_path(&self.root, header.number));
                let book = &mut *self.book();
                book.open.rotate_at = book.open.end.saturating_add(book.rotation_bytes);
                return Ok(());
            }
            Err(error) => return Err(self.health.poison(error)),
        };
        yield_now().await;
        let synced = self.environment.storage.sync_directory(&self.root);
        synced.map_err(|error| self.health.poison(error))?;
        self.metrics.manifest_written_bytes.add(content.len() as u64);
        let begun = Begun { file: Arc::clone(file.file()), header, bytes: content.len() as u64 };
        let (old, settled) = {
            let book = &mut *self.book();
            let next = OpenManifest::new(begun, book.rotation_bytes);
            let old = std::mem::replace(&mut book.open, next);
            (old.number, book.ledger.rotated(content.len() as u64))
        };
        self.let_go(settled);
        yield_now().await;
        // A name that stays is removed by the next open.
        let _ = self.environment.storage.remove(&manifest_path(&self.root, old));
        Ok(())
    }

    /// All steps up to the rename; after an error CURRENT names the old manifest.
    async fn put_successor_in_force(&self, header: Header, content: &[u8]) -> Result<BackgroundFile> {
        let storage = &*self.environment.storage;
        let file = BackgroundFile::new(storage.create(&manifest_path(&self.root, header.number))?);
        for (index, chunk) in content.chunks(CHUNK_BYTES).enumerate() {
            file.write_all_at((index * CHUNK_BYTES) as u64, chunk).await?;
        }
        file.sync().await?;
        storage.sync_directory(&self.root)?;
        yield_now().await;
        let Header { number, generation } = header;
        Current { number, generation, bytes: content.len() as u64 }.write_new(storage, &self.root)?;
        yield_now().await;
        Current::put_in_force(storage, &self.root)?;
        Ok(file)
    }
}
