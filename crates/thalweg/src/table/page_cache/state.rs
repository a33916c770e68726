//! [`PageCacheState`]: what all tables of a database share about the page cache.

use super::direct_fd_pool::DirectFdPool;
use super::mapping::MappingBudget;
use super::probe::PageCacheProbe;
use super::room::PageCacheRoom;
use super::warming::Warming;
use super::write_through::WriteThroughPolicy;
use crate::storage::Storage;
use crate::table::options::TableReads;
use std::sync::Arc;

/// See the module.
pub(in crate::table) struct PageCacheState {
    pub(in crate::table) policy: WriteThroughPolicy,
    pub(in crate::table) probe: PageCacheProbe,
    pub(in crate::table) room: PageCacheRoom,
    pub(in crate::table) direct_fds: Arc<DirectFdPool>,
    pub(in crate::table) mappings: Arc<MappingBudget>,
    pub(in crate::table) warming: Arc<Warming>,
}

impl PageCacheState {
    pub(in crate::table) fn new(
        policy: WriteThroughPolicy,
        reads: TableReads,
        storage: &Arc<dyn Storage>,
    ) -> Arc<Self> {
        let mappings = match reads {
            TableReads::Automatic => MappingBudget::new(storage.mappings_max()),
            TableReads::Copied => MappingBudget::none(),
        };
        Arc::new(PageCacheState {
            policy,
            probe: PageCacheProbe::default(),
            room: PageCacheRoom::new(storage),
            direct_fds: DirectFdPool::new(storage.open_files_max()),
            mappings,
            warming: Arc::default(),
        })
    }
}
