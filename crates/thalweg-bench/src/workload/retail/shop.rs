//! [`Shop`]: the state that all clients of a `retail` workload share.

use super::orders::Orders;
use super::schema::Schema;
use crate::error::Result;
use crate::parameters::{Distribution, Parameters};
use crate::workload::mix::Mix;
use crate::workload::values::Values;
use crate::workload::{Dataset, Defaults};
use std::sync::Arc;

/// The sizes and limits of the load, which `retail` uses too.
pub(super) const LOAD: Defaults =
    Defaults { records: 4_000, operations: None, seconds: None, bounded: false, key_bytes: 132, value_bytes: 1_600 };
const SCAN_ENTRIES_MAX: u32 = 50;

/// The shop: its orders, its schema and the shares of its operations.
pub(super) struct Shop {
    pub(super) schema: Schema,
    pub(super) orders: Orders,
    /// The greatest number of orders.
    pub(super) orders_max: u64,
    pub(super) mix: Mix,
    pub(super) distribution: Distribution,
    pub(super) scan_entries_max: u64,
    pub(super) values: Values,
    pub(super) sync: bool,
}

impl Shop {
    pub(super) fn new(parameters: &Parameters, dataset: &Arc<Dataset>, mix: Mix, orders_max: u64) -> Result<Shop> {
        let schema = Schema::new(parameters, dataset.records, (LOAD.key_bytes, LOAD.value_bytes))?;
        Ok(Shop {
            schema,
            orders: Orders::new(dataset),
            orders_max,
            mix,
            distribution: parameters.distribution.unwrap_or(Distribution::Latest),
            scan_entries_max: u64::from(parameters.scan_entries_max.unwrap_or(SCAN_ENTRIES_MAX).max(1)),
            values: Values::new(schema.value_bytes, parameters.compressible, parameters.seed)?,
            sync: parameters.settings.sync,
        })
    }
}
