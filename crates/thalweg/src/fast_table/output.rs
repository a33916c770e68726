//! [`TableOutput`]: the destination of the bytes of a fast table, which are appended in order. The head of the table is
//! appended first, to reserve its place, and overwritten when all its fields are known.

/// See the module.
pub(crate) trait TableOutput {
    /// Appends `bytes`.
    fn append(&mut self, bytes: &[u8]);

    /// Overwrites the first bytes. At least that many bytes have been appended.
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
