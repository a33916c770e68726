//! [`TableOutput`]: what the bytes of a fast table are written to, once from the first to the last. The head of the
//! table is written at the beginning to keep its place, and again when all is known.

/// See the module.
pub(crate) trait TableOutput {
    /// Appends `bytes`.
    fn append(&mut self, bytes: &[u8]);

    /// Writes the first bytes again. There are at least as many.
    fn overwrite(&mut self, first: &[u8]);
}

impl TableOutput for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn overwrite(&mut self, first: &[u8]) {
        for (to, from) in self.iter_mut().zip(first) {
            *to = *from;
        }
    }
}
