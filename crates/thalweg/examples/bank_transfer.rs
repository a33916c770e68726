//! Transfers between accounts in atomic batches across keyspaces, and readers who never see one half done.
//!
//! Each transfer changes two accounts and adds a line to the journal: three writes in two keyspaces, one batch. The sum
//! of all accounts never changes, in any snapshot, nor after the database is opened again.
//!
//! ```text
//! cargo run -p thalweg --example bank_transfer
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use thalweg::{Database, Durability, Keyspace, Snapshot};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ACCOUNTS: u64 = 20;
const START_BALANCE: u64 = 1_000;
const TELLERS: u64 = 2;
const TRANSFERS_A_TELLER: u64 = 2_000;
const READERS: usize = 2;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    let db = Database::open(path)?;
    let bank = Bank::found(&db)?;
    println!("{ACCOUNTS} accounts hold {} in all", bank.total(&db.snapshot())?);

    work(&db, &bank)?;

    // The last transfer of the day is durable before its caller hears of it; with it everything before it.
    bank.transfer(&db, 0, 1, 1, Durability::Sync)?;
    drop(bank);
    db.close()?;

    let db = Database::open(path)?;
    let bank = Bank::of(&db)?;
    let snapshot = db.snapshot();
    let (total, lines) = (bank.total(&snapshot)?, snapshot.iter(&bank.journal).try_count()?);
    println!("opened again: {total} in all, {lines} lines in the journal");
    drop((snapshot, bank));
    db.close()?;
    Ok(())
}

/// Tellers and readers at the same time, until the tellers are through.
fn work(db: &Database, bank: &Bank) -> Outcome<()> {
    let is_closing_time = &AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(|| bank.audit_until(db, is_closing_time))).collect();
        let tellers: Vec<_> = (0..TELLERS).map(|teller| scope.spawn(move || bank.serve(db, teller))).collect();
        let served: Vec<Outcome<u64>> = tellers.into_iter().map(join).collect();
        is_closing_time.store(true, Ordering::Relaxed);
        let audits: Vec<Outcome<u64>> = readers.into_iter().map(join).collect();
        for (teller, moved) in served.into_iter().enumerate() {
            println!("teller {teller} moved {} in {TRANSFERS_A_TELLER} transfers", moved?);
        }
        for (reader, audits) in audits.into_iter().enumerate() {
            println!("reader {reader} found the sum right in all of {} snapshots", audits?);
        }
        Ok(())
    })
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, Outcome<T>>) -> Outcome<T> {
    thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))
}

/// The bank: its accounts by number, and a journal with a line a transfer.
struct Bank {
    accounts: Keyspace,
    journal: Keyspace,
    lines: AtomicU64,
    /// A batch is atomic, but it does not read: who reads a balance to write it back must be alone with it.
    counter: Mutex<()>,
}

impl Bank {
    fn of(db: &Database) -> Outcome<Bank> {
        let (accounts, journal) = (db.keyspace("accounts")?, db.keyspace("journal")?);
        Ok(Bank { accounts, journal, lines: AtomicU64::new(0), counter: Mutex::new(()) })
    }

    fn found(db: &Database) -> Outcome<Bank> {
        let bank = Bank::of(db)?;
        let mut batch = db.batch();
        for account in 0..ACCOUNTS {
            batch.insert(&bank.accounts, account.to_be_bytes(), START_BALANCE.to_be_bytes())?;
        }
        batch.commit()?;
        Ok(bank)
    }

    fn balance(&self, account: u64) -> Outcome<u64> {
        number(&self.accounts.get(account.to_be_bytes())?.ok_or("no such account")?)
    }

    /// Moves at most `amount`, as far as the account goes; what was moved.
    fn transfer(&self, db: &Database, from: u64, to: u64, amount: u64, durability: Durability) -> Outcome<u64> {
        let _alone = self.counter.lock().map_err(|_| "a teller panicked")?;
        let (has, gets) = (self.balance(from)?, self.balance(to)?);
        let amount = amount.min(has);
        let line = self.lines.fetch_add(1, Ordering::Relaxed);
        let mut batch = db.batch();
        batch.insert(&self.accounts, from.to_be_bytes(), (has - amount).to_be_bytes())?;
        batch.insert(&self.accounts, to.to_be_bytes(), (gets + amount).to_be_bytes())?;
        batch.insert(&self.journal, line.to_be_bytes(), format!("{from} to {to}: {amount}"))?;
        batch.commit_with(durability)?;
        Ok(amount)
    }

    /// One teller's day; the sum of what was moved.
    fn serve(&self, db: &Database, teller: u64) -> Outcome<u64> {
        let mut moved = 0;
        for transfer in 0..TRANSFERS_A_TELLER {
            let from = (transfer * 7 + teller * 3) % ACCOUNTS;
            let to = (from + 1 + transfer % (ACCOUNTS - 1)) % ACCOUNTS;
            moved += self.transfer(db, from, to, 1 + transfer % 100, Durability::Buffered)?;
        }
        Ok(moved)
    }

    fn total(&self, snapshot: &Snapshot) -> Outcome<u64> {
        let mut total = 0;
        for entry in snapshot.iter(&self.accounts) {
            total += number(&entry?.1)?;
        }
        Ok(total)
    }

    /// Adds up all accounts in one snapshot after another; how many there were.
    fn audit_until(&self, db: &Database, is_closing_time: &AtomicBool) -> Outcome<u64> {
        let mut audits = 0;
        while !is_closing_time.load(Ordering::Relaxed) {
            let total = self.total(&db.snapshot())?;
            if total != ACCOUNTS * START_BALANCE {
                return Err(format!("a snapshot has half a transfer: {total} in all").into());
            }
            audits += 1;
        }
        Ok(audits)
    }
}

fn number(bytes: &[u8]) -> Outcome<u64> {
    Ok(u64::from_be_bytes(bytes.try_into()?))
}
