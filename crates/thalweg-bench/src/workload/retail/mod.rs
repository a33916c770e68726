//! `retail`: the online shop of PM-Blade's evaluation (PMB-E10, PMB-E11; its section VI-D).
//!
//! The paper's description: ten tables of about ten columns, three indexes each on average; a new order inserts rows
//! into several tables, about 100 KB; its status is updated as it progresses. Reads are by primary key or, most of
//! them, by index: a scan for the row's number, then a point read. Recent data are read and updated most. The paper
//! gives no proportions, no rows an order, and only one size of a column: an index column of 120 bytes (section VI-B).
//!
//! The workload made of this description: the tables of [`Schema`], 50 rows and 150 index entries an order in one
//! batch. With the default sizes, index keys of 132 bytes (columns of 120) and rows of 1,600 bytes (ten columns of
//! 160), an order writes 100,400 bytes; in general `50 (12 + value_bytes + 3 key_bytes)`. A record of the dataset is an
//! order. The operations, with their shares in percent, which a `mix` replaces:
//!
//! - `order` 5, a transaction: a new order.
//! - `query` 50: up to ten entries of one customer, merchant or status from a recent order on, then the row of each.
//! - `update` 25: reads a row, writes it with the next status and its new index entry in one batch, and removes the old
//!   entry. Thread t of n updates orders t, t + n, …: a store that locks rows would not allow two threads to update one
//!   row at once either.
//! - `get` 15: a row by its number.
//! - `scan` 5: the 1 to 50 (`scan_entries_max`) last rows of a table up to a recent order.
//!
//! The distance of a recent order from the newest one is zipfian, unless `distribution` is given.
//!
//! - `schema`: tables and indexes in one key space
//! - `orders`: the numbers of written orders
//! - `shop`: the state that all clients share
//! - `client`: the operations

mod client;
mod orders;
mod schema;
mod shop;
#[cfg(test)]
mod tests;

use self::client::Shopper;
use self::schema::Schema;
use self::shop::{LOAD, Shop};
use super::mix::{Mix, Share};
use super::{Class, Client, DatasetKind, Defaults, Definition, Workload};
use crate::distribution::{Chooser, random};
use crate::parameters::Parameters;

const SOURCE: &str = "PMB-E10, PMB-E11, section VI-D";
const SHARES: &[Share] = &[
    ("order", Class::Transaction, 5.0),
    ("query", Class::Query, 50.0),
    ("update", Class::Update, 25.0),
    ("get", Class::Get, 15.0),
    ("scan", Class::Scan, 5.0),
];
const ORDERS_ONLY: &[Share] = &[("order", Class::Transaction, 1.0)];

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "retail-load",
        about: "insert orders, each with 50 rows in ten tables and 150 index entries, about 100 KB",
        source: SOURCE,
        dataset: DatasetKind::Retail,
        load: "retail-load",
        defaults: LOAD,
        share: 1,
        make: |parameters, dataset| {
            let mix = Mix::new("retail-load", ORDERS_ONLY, &Default::default())?;
            Ok(Box::new(Shop::new(parameters, dataset, mix, dataset.records)?))
        },
        splits,
    },
    Definition {
        name: "retail",
        about: "orders, index queries, status updates, gets and scans (mix: order, query, update, get, scan)",
        source: SOURCE,
        dataset: DatasetKind::Retail,
        load: "retail-load",
        defaults: Defaults { operations: Some(200_000), seconds: Some(10.0), ..LOAD },
        share: 1,
        make: |parameters, dataset| {
            let mix = Mix::new("retail", SHARES, &parameters.mix)?;
            Ok(Box::new(Shop::new(parameters, dataset, mix, u64::MAX)?))
        },
        splits,
    },
];

fn splits(parameters: &Parameters, records: u64, partitions: u32) -> Vec<Vec<u8>> {
    let schema = Schema::new(parameters, records, (LOAD.key_bytes, LOAD.value_bytes));
    schema.map_or_else(|_| Vec::new(), |schema| schema.splits(partitions))
}

impl Workload for Shop {
    fn client(&self, thread: usize, threads: usize, seed: u64) -> Box<dyn Client + '_> {
        let orders = self.orders.written().max(1);
        let chooser = Chooser::new(self.distribution, orders, orders);
        Box::new(Shopper::new(self, (thread as u64, threads as u64), chooser, random(seed, "retail", thread)))
    }
}
