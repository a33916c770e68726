//! [`WriteBack`]: whether the pages of a table that was written through the page cache are all on the device.
//!
//! The kernel locks the pages that it gives to the device, until the device has room for them. A page fault in a
//! mapping waits for that lock; a read by position of a page in the page cache does not. So a table is mapped only once
//! its write-back is done ([`super::mapping`]): when a settle round has synced it. Many tables are replaced before
//! that. Then they need neither be mapped nor unmapped, and reads take up to a tenth less of the processor.
//!
//! No locks: a flag that is set once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteBack(Arc<AtomicBool>);

impl WriteBack {
    /// A write-back that is done.
    pub(in crate::table) fn done() -> Self {
        let write_back = WriteBack::default();
        write_back.finish();
        write_back
    }

    #[inline]
    pub(in crate::table) fn is_done(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes that all pages were written.
    pub(in crate::table) fn finish(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
