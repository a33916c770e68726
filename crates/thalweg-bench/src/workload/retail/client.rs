//! [`Shopper`]: one thread's orders, updates, queries, gets and scans.
//!
//! `prepare` makes everything that can be made before the clock starts; only the status of a row is not known before
//! the row is read. Buffers are reused from operation to operation.

use super::schema::{BY_STATUS, HEAD, INDEXES, STATUS_AT, STATUSES, Schema, TABLES, WITH_PROGRESS};
use super::shop::Shop;
use crate::distribution::{Chooser, Random, Uniform};
use crate::engine::Session;
use crate::error::Result;
use crate::workload::touch::touch;
use crate::workload::values::Values;
use crate::workload::{Class, Client, Outcome};

/// Entries that a query takes from an index.
pub(super) const QUERY_ROWS_MAX: usize = 10;

/// One thread.
pub(super) struct Shopper<'a> {
    shop: &'a Shop,
    /// The number of this thread, and the number of threads.
    thread: (u64, u64),
    chooser: Chooser,
    random: Random,
    values: Values,
    /// The class of the prepared operation.
    class: Class,
    /// The order that is prepared and not written.
    order: Option<u64>,
    /// An order's entries.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// The entries of an update: the row, and its entry in the index on status.
    progress: [(Vec<u8>, Vec<u8>); 2],
    /// The key of a get, and the first of a query or a scan.
    key: Vec<u8>,
    /// The length of the prefix of `key` that all entries of a query have in common.
    prefix: usize,
    /// The table of a query.
    table: usize,
    /// Entries of a scan.
    scan_entries: u64,
    /// The numbers of the rows that a query found.
    rows: Vec<u64>,
}

impl<'a> Shopper<'a> {
    /// Thread `thread.0` of `thread.1`.
    pub fn new(shop: &'a Shop, thread: (u64, u64), chooser: Chooser, random: Random) -> Shopper<'a> {
        Shopper {
            shop,
            thread,
            chooser,
            random,
            values: shop.values.of_thread(thread.0 as usize),
            class: Class::Get,
            order: None,
            entries: Vec::new(),
            progress: Default::default(),
            key: Vec::new(),
            prefix: 0,
            table: 0,
            scan_entries: 0,
            rows: Vec::with_capacity(QUERY_ROWS_MAX),
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        Uniform::below(limit, &mut self.random)
    }

    /// Makes all entries of a new order. `false`: the greatest number of orders is reached.
    fn prepare_order(&mut self) -> bool {
        let Some(order) = self.shop.orders.take(self.shop.orders_max) else { return false };
        self.order = Some(order);
        self.entries.resize_with(Schema::order_entries(), Default::default);
        let schema = &self.shop.schema;
        let status = schema.first_status(order);
        let mut entries = self.entries.iter_mut();
        for (table, rows) in TABLES.iter().enumerate() {
            for line in 0..*rows {
                let row = Schema::row(table, order, line);
                for index in 0..=INDEXES {
                    let Some((key, value)) = entries.next() else { return true };
                    if index == 0 {
                        Schema::row_key(table, row, key);
                        fill(value, self.values.next(schema.value_bytes), status);
                    } else {
                        schema.index_key(table, index, row, status, key);
                        value.clear();
                    }
                }
            }
        }
        true
    }

    /// Makes an update of the order nearest to `order` that belongs to this thread. `false`: there is none.
    fn prepare_update(&mut self, order: u64) -> bool {
        let (thread, threads) = self.thread;
        let mut own = order - order % threads + thread;
        if own > order {
            let Some(before) = own.checked_sub(threads) else { return false };
            own = before;
        }
        let table = WITH_PROGRESS[self.below(WITH_PROGRESS.len() as u64) as usize];
        let row = Schema::row(table, own, 0);
        let schema = &self.shop.schema;
        let [(row_key, value), (index_key, _)] = &mut self.progress;
        Schema::row_key(table, row, row_key);
        fill(value, self.values.next(schema.value_bytes), 0);
        schema.index_key(table, BY_STATUS, row, 0, index_key);
        true
    }

    fn prepare_query(&mut self, order: u64) {
        self.table = self.below(TABLES.len() as u64) as usize;
        let index = 1 + self.below(u64::from(INDEXES)) as u16;
        let status = self.below(u64::from(STATUSES)) as u8;
        let row = Schema::row(self.table, order, 0);
        self.shop.schema.index_key(self.table, index, row, status, &mut self.key);
        self.prefix = if index == BY_STATUS { STATUS_AT + 1 } else { self.key.len() - size_of::<u64>() };
    }

    fn prepare_get(&mut self, order: u64) {
        let table = self.below(TABLES.len() as u64) as usize;
        let line = self.below(TABLES[table]);
        Schema::row_key(table, Schema::row(table, order, line), &mut self.key);
    }

    fn prepare_scan(&mut self, order: u64) {
        let table = self.below(TABLES.len() as u64) as usize;
        self.scan_entries = 1 + self.below(self.shop.scan_entries_max);
        let end = Schema::row(table, order + 1, 0);
        Schema::row_key(table, end.saturating_sub(self.scan_entries), &mut self.key);
    }

    fn write_order(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        session.put_batch(&self.entries, self.shop.sync)?;
        if let Some(order) = self.order.take() {
            self.shop.orders.acknowledge(order);
        }
        Ok(Outcome { operations: 1, written_bytes: self.shop.schema.order_bytes(), ..Outcome::default() })
    }

    fn update(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let mut status = None;
        let mut read = 0;
        let [(row_key, value), (index_key, _)] = &mut self.progress;
        session.get(row_key, &mut |old| {
            touch(old);
            status = old.first().copied();
            read = old.len();
        })?;
        let Some(status) = status else {
            return Ok(Outcome { operations: 1, missing: 1, ..Outcome::default() });
        };
        let next = (status + 1) % STATUSES;
        value[0] = next;
        index_key[STATUS_AT] = next;
        let written = row_key.len() + value.len() + 2 * index_key.len();
        let read_bytes = read as u64;
        session.put_batch(&self.progress, self.shop.sync)?;
        // The old entry is removed after the new one is written, so that a row is in the index at all times.
        let index_key = &mut self.progress[1].0;
        index_key[STATUS_AT] = status;
        session.remove(index_key, self.shop.sync)?;
        Ok(Outcome { operations: 1, missing: 0, written_bytes: written as u64, read_bytes })
    }

    fn query(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let (prefix, rows) = (&self.key[..self.prefix], &mut self.rows);
        let mut read = 0;
        rows.clear();
        session.scan(&self.key, &mut |key, _| {
            if !key.starts_with(prefix) {
                return false;
            }
            read += key.len();
            rows.push(Schema::row_of(key));
            rows.len() < QUERY_ROWS_MAX
        })?;
        let mut missing = u64::from(self.rows.is_empty());
        for &row in &self.rows {
            Schema::row_key(self.table, row, &mut self.key);
            let found = session.get(&self.key, &mut |value| {
                touch(value);
                read += value.len();
            })?;
            missing += u64::from(!found);
        }
        Ok(Outcome { operations: 1, missing, read_bytes: read as u64, ..Outcome::default() })
    }

    fn get(&self, session: &mut dyn Session) -> Result<Outcome> {
        let mut read = 0;
        let found = session.get(&self.key, &mut |value| {
            touch(value);
            read = value.len();
        })?;
        Ok(Outcome { operations: 1, missing: u64::from(!found), read_bytes: read as u64, ..Outcome::default() })
    }

    fn scan(&self, session: &mut dyn Session) -> Result<Outcome> {
        let (mut entries, mut read) = (0, 0);
        session.scan(&self.key, &mut |key, value| {
            // In key order, a table's rows are followed by its indexes.
            if !key.starts_with(&self.key[..HEAD]) {
                return false;
            }
            touch(value);
            entries += 1;
            read += (key.len() + value.len()) as u64;
            entries < self.scan_entries
        })?;
        Ok(Outcome { operations: 1, missing: u64::from(entries == 0), read_bytes: read, ..Outcome::default() })
    }
}

impl Client for Shopper<'_> {
    fn prepare(&mut self) -> Option<Class> {
        let written = self.shop.orders.written();
        let drawn = self.shop.mix.next(&mut self.random);
        if drawn == Class::Transaction || written == 0 {
            // While there are no orders, there is nothing to read or update.
            self.class = Class::Transaction;
            return self.prepare_order().then_some(self.class);
        }
        let order = self.chooser.next(written, &mut self.random);
        self.class = drawn;
        match drawn {
            Class::Query => self.prepare_query(order),
            Class::Scan => self.prepare_scan(order),
            Class::Update if self.prepare_update(order) => {}
            _ => {
                self.class = Class::Get;
                self.prepare_get(order);
            }
        }
        Some(self.class)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        match self.class {
            Class::Transaction => self.write_order(session),
            Class::Query => self.query(session),
            Class::Update => self.update(session),
            Class::Scan => self.scan(session),
            _ => self.get(session),
        }
    }
}

impl Drop for Shopper<'_> {
    fn drop(&mut self) {
        if let Some(order) = self.order.take() {
            self.shop.orders.give_back(order);
        }
    }
}

/// Fills a row with the drawn bytes and a status.
fn fill(row: &mut Vec<u8>, bytes: &[u8], status: u8) {
    row.clear();
    row.extend(bytes);
    row[0] = status;
}
