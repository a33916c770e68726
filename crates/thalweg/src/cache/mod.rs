//! The block cache: decoded table blocks, shared by all tables, bounded in bytes.

/// See the module.
pub(crate) struct BlockCache;

#[allow(unused_variables, clippy::unimplemented)]
impl BlockCache {
    pub(crate) fn new(bytes: u64) -> std::sync::Arc<Self> {
        unimplemented!()
    }
}
