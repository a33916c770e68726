//! Many keyspaces in one database: one a tenant, which come and go, and change together in one batch.
//!
//! To drop a keyspace takes one record, however much is in it. A handle of a dropped keyspace gives `NoKeyspace`.
//!
//! ```text
//! cargo run -p thalweg --example many_keyspaces
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use thalweg::{Database, ErrorKind};

const TENANTS: usize = 50;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    let db = Database::open(path)?;
    for tenant in 0..TENANTS {
        let documents = db.keyspace(&name(tenant))?;
        for document in 0..20 {
            documents.insert(format!("document {document:02}"), format!("of tenant {tenant}"))?;
        }
    }
    assert_eq!(db.keyspaces().len(), TENANTS);

    // A document moves from one tenant to another: nobody sees it twice, or not at all.
    let (from, to) = (db.keyspace(&name(3))?, db.keyspace(&name(4))?);
    let document = from.get("document 07")?.ok_or("the document is there")?;
    let mut batch = db.batch();
    batch.insert(&to, "document 07 of tenant 3", &document)?;
    batch.remove(&from, "document 07")?;
    batch.commit()?;
    assert_eq!((from.iter().try_count()?, to.iter().try_count()?), (19, 21));

    // A tenant leaves. Reads by a handle that is left get an error.
    db.drop_keyspace(&name(3))?;
    let gone = from.get("document 01").err().ok_or("the keyspace is gone")?;
    assert_eq!(gone.kind(), ErrorKind::NoKeyspace);
    assert!(db.existing_keyspace(&name(3))?.is_none());

    // A name may be used again; the new keyspace is empty.
    assert!(db.keyspace(&name(3))?.is_empty()?);

    // One snapshot has all keyspaces as of one moment.
    let snapshot = db.snapshot();
    to.insert("later", "")?;
    let mut documents = 0;
    for name in db.keyspaces() {
        if let Some(keyspace) = db.existing_keyspace(&name)? {
            documents += snapshot.iter(&keyspace).try_count()?;
        }
    }
    assert_eq!(documents, (TENANTS as u64 - 1) * 20 + 1);
    println!("{documents} documents of {} tenants", db.keyspaces().len());
    drop(snapshot);
    Ok(db.close()?)
}

fn name(tenant: usize) -> String {
    format!("tenant {tenant:04}")
}
