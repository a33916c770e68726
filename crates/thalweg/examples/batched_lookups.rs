//! Many keys at once: the prices of a shopping basket, of now and of the moment when it was filled.
//!
//! `multi_get` reads all keys as of one moment. The device gets all reads that miss the cache at once. The function
//! that reads takes anything [`Readable`]: a live keyspace, one in a snapshot, or one that is opened read-only.
//!
//! ```text
//! cargo run -p thalweg --example batched_lookups
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use thalweg::{Database, Readable};

const ARTICLES: u32 = 10_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    let db = Database::open(path)?;
    let prices = db.keyspace("prices")?;
    for article in 0..ARTICLES {
        prices.insert(key(article), (100 + article % 900).to_be_bytes())?;
    }
    let basket: Vec<Vec<u8>> = [17, 4_242, 9_999].map(key).to_vec();
    let filled = db.snapshot();

    // Prices rise, and one article is no longer sold.
    prices.insert(key(17), 250_u32.to_be_bytes())?;
    prices.remove(key(9_999))?;

    let (then, now) = (total(&filled.keyspace(&prices), &basket)?, total(&prices, &basket)?);
    assert_eq!(then, Total { cents: 117 + 742 + 199, missing: 0 });
    assert_eq!(now, Total { cents: 250 + 742, missing: 1 });
    println!("the basket was {} cents and is {} cents, with {} articles missing", then.cents, now.cents, now.missing);
    drop(filled);
    db.close()?;

    // The same function, on a database that another process may read at the same time.
    let db = Database::builder(path).open_read_only()?;
    assert_eq!(total(&db.keyspace("prices")?, &basket)?, now);
    Ok(())
}

#[derive(Debug, PartialEq)]
struct Total {
    cents: u64,
    missing: usize,
}

/// Adds up the prices of all articles, which are looked up together.
fn total(prices: &impl Readable, basket: &[Vec<u8>]) -> Outcome<Total> {
    let mut total = Total { cents: 0, missing: 0 };
    for price in prices.multi_get(basket)? {
        match price {
            Some(price) => total.cents += u64::from(u32::from_be_bytes(price[..].try_into()?)),
            None => total.missing += 1,
        }
    }
    Ok(total)
}

fn key(article: u32) -> Vec<u8> {
    format!("article {article:06}").into_bytes()
}
