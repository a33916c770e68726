//! [`Null`]: an engine that does nothing, to measure the cost of the instrument itself.

use super::{Counters, Description, Engine, Factory, Session};
use crate::error::Result;
use crate::settings::Settings;
use std::path::Path;

/// An engine that accepts every write and finds no key.
pub struct Null;

impl Factory for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn open(&self, _path: &Path, _settings: &Settings, _splits: &[Vec<u8>]) -> Result<Box<dyn Engine>> {
        Ok(Box::new(Null))
    }
}

impl Engine for Null {
    fn describe(&self) -> Description {
        Description { name: "null".into(), version: env!("CARGO_PKG_VERSION").into(), ..Description::default() }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Null))
    }

    fn persist(&self) -> Result<()> {
        Ok(())
    }

    fn settle(&self) -> Result<bool> {
        Ok(true)
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Session for Null {
    fn put(&mut self, _key: &[u8], _value: &[u8], _sync: bool) -> Result<()> {
        Ok(())
    }

    fn put_batch(&mut self, _entries: &[(Vec<u8>, Vec<u8>)], _sync: bool) -> Result<()> {
        Ok(())
    }

    fn remove(&mut self, _key: &[u8], _sync: bool) -> Result<()> {
        Ok(())
    }

    fn get(&mut self, _key: &[u8], _value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(false)
    }

    fn scan(&mut self, _from: &[u8], _entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        Ok(())
    }
}
