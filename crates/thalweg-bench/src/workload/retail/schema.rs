//! [`Schema`]: the tables, rows and indexes of the shop, and their encoding as keys.
//!
//! Ten tables of ten columns, three indexes each, in one ordered key space (PMB-E10; the encoding is that of PM-Blade's
//! figure 2b). All numbers are big-endian:
//!
//! ```text
//! row          table 2 | 0 2     | row 8                  -> value: ten columns, the first byte is the status
//! index entry  table 2 | index 2 | columns ... | row 8    -> empty
//! ```
//!
//! The columns of an index entry: index 1 has the customer, index 2 the merchant, each a scrambled number, padded;
//! index 3 has the status (1 byte) and the time, newest first (8 bytes, the inverted number of the order), padded. Row
//! `line` of order `order` in a table with `n` rows an order is row `order * n + line`.
//!
//! Everything but the status follows from the number of the order. So a client knows which keys to write without
//! reading them first, and a test knows which entries there must be.

use crate::distribution::scrambled;
use crate::error::{Error, Result};
use crate::parameters::Parameters;

/// Rows that an order has in each of the ten tables: orders, items, options of items, payments, discounts, packages,
/// deliveries, steps of deliveries, messages, invoices.
pub(super) const TABLES: [u64; 10] = [1, 12, 12, 2, 4, 2, 1, 8, 6, 2];
/// Tables whose first row of an order changes its status: orders, payments, packages, deliveries.
pub(super) const WITH_PROGRESS: [usize; 4] = [0, 3, 5, 6];
/// Indexes of a table.
pub(super) const INDEXES: u16 = 3;
/// The index on status and time.
pub(super) const BY_STATUS: u16 = 3;
/// The number of statuses of an order. After the last comes the first again, so that an update always moves an entry.
pub(super) const STATUSES: u8 = 8;
/// Where the status is in the key of an entry of [`BY_STATUS`].
pub(super) const STATUS_AT: usize = HEAD;
/// Bytes of table and index before a key's columns.
pub(super) const HEAD: usize = 4;
/// Bytes of a row's number after the columns.
const ROW: usize = 8;
/// The shortest key of an index entry: with status, time and padding.
const KEY_BYTES_MIN: u32 = (HEAD + 16 + ROW) as u32;
const VALUE_BYTES_MIN: u32 = 10;

/// Sizes of keys and values, and the numbers of orders, customers and merchants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    /// Bytes of an index entry's key.
    pub key_bytes: usize,
    /// Bytes of a row without its key.
    pub value_bytes: usize,
    customers: u64,
    merchants: u64,
    /// Orders that the load writes.
    loaded: u64,
}

impl Schema {
    /// The schema for `records` loaded orders: eight orders a customer, 64 a merchant.
    ///
    /// # Errors
    /// `Usage` for keys or values that are too short.
    pub fn new(parameters: &Parameters, records: u64, (key_bytes, value_bytes): (u32, u32)) -> Result<Schema> {
        let key_bytes = parameters.key_bytes.unwrap_or(key_bytes);
        let value_bytes = parameters.value_bytes.unwrap_or(value_bytes);
        if key_bytes < KEY_BYTES_MIN || value_bytes < VALUE_BYTES_MIN {
            return Err(Error::Usage(format!(
                "retail needs index keys of at least {KEY_BYTES_MIN} bytes and rows of at least {VALUE_BYTES_MIN}, \
                 not {key_bytes} and {value_bytes}"
            )));
        }
        Ok(Schema {
            key_bytes: key_bytes as usize,
            value_bytes: value_bytes as usize,
            customers: records.div_ceil(8).max(1),
            merchants: records.div_ceil(64).max(1),
            loaded: records,
        })
    }

    /// The number of a row in its table.
    pub fn row(table: usize, order: u64, line: u64) -> u64 {
        order * TABLES[table] + line
    }

    /// Writes the key of a row into `key`.
    pub fn row_key(table: usize, row: u64, key: &mut Vec<u8>) {
        head(table, 0, key);
        key.extend(row.to_be_bytes());
    }

    /// Writes the key of a row's entry in an index into `key`.
    pub fn index_key(&self, table: usize, index: u16, row: u64, status: u8, key: &mut Vec<u8>) {
        let order = row / TABLES[table];
        head(table, index, key);
        let mut filler = match index {
            1 => scrambled(order ^ 1) % self.customers,
            2 => scrambled(order ^ 2) % self.merchants,
            _ => {
                key.push(status);
                key.extend((!order).to_be_bytes());
                order
            }
        };
        let end = self.key_bytes - ROW;
        while key.len() < end {
            // The first word of a customer or a merchant is unique to it: scrambling is one to one.
            filler = scrambled(filler);
            let word = filler.to_be_bytes();
            key.extend(&word[..word.len().min(end - key.len())]);
        }
        key.extend(row.to_be_bytes());
    }

    /// The number of the row that an index entry is for.
    pub fn row_of(key: &[u8]) -> u64 {
        key.last_chunk().map_or(0, |row| u64::from_be_bytes(*row))
    }

    /// The status of a new order. Loaded orders are history: they have any status but the first.
    pub fn first_status(&self, order: u64) -> u8 {
        if order < self.loaded { 1 + (scrambled(order) % u64::from(STATUSES - 1)) as u8 } else { 0 }
    }

    /// Entries that an order writes: its rows and their index entries.
    pub fn order_entries() -> usize {
        TABLES.iter().sum::<u64>() as usize * (1 + INDEXES as usize)
    }

    /// Bytes of keys and values that an order writes.
    pub fn order_bytes(&self) -> u64 {
        TABLES.iter().sum::<u64>() * (self.row_bytes() + u64::from(INDEXES) * self.key_bytes as u64)
    }

    fn row_bytes(&self) -> u64 {
        (HEAD + ROW + self.value_bytes) as u64
    }

    /// The first keys of all partitions but the first, of `partitions` that hold about as much each.
    pub fn splits(&self, partitions: u32) -> Vec<Vec<u8>> {
        let total = self.order_bytes() as f64;
        (1..partitions).map(|i| self.key_at(total * f64::from(i) / f64::from(partitions))).collect()
    }

    /// Returns a key such that on average `bytes` of every order lie before it.
    fn key_at(&self, bytes: f64) -> Vec<u8> {
        let mut left = bytes;
        let mut key = Vec::new();
        for (table, rows) in TABLES.iter().enumerate() {
            for index in 0..=INDEXES {
                let here = if index == 0 { self.row_bytes() } else { self.key_bytes as u64 } as f64 * *rows as f64;
                if left < here {
                    head(table, index, &mut key);
                    self.columns_at(index, *rows, left / here, &mut key);
                    return key;
                }
                left -= here;
            }
        }
        key
    }

    /// Writes the columns (or a row's number) before which `share` of an index lies.
    fn columns_at(&self, index: u16, rows: u64, share: f64, key: &mut Vec<u8>) {
        match index {
            0 => key.extend(((self.loaded as f64 * rows as f64 * share) as u64).to_be_bytes()),
            BY_STATUS => {
                // Loaded orders are in the statuses from 1 on.
                let status = share * f64::from(STATUSES - 1);
                key.push(1 + status as u8);
                key.extend((!((self.loaded as f64 * (1.0 - status.fract())) as u64)).to_be_bytes());
            }
            _ => key.extend(((share * u64::MAX as f64) as u64).to_be_bytes()),
        }
    }
}

fn head(table: usize, index: u16, key: &mut Vec<u8>) {
    key.clear();
    key.extend((table as u16).to_be_bytes());
    key.extend(index.to_be_bytes());
}
