//! The sizes of keys, values, names and split points: what a record can hold.

use crate::error::{Error, Result};
use crate::format::key::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::format::name_hash::NAME_BYTES_MAX;

/// Refuses keys that a record cannot hold.
pub(super) fn validate_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::invalid_input("a key has at least one byte"));
    }
    if key.len() > KEY_BYTES_MAX {
        let message = format!("a key has at most {KEY_BYTES_MAX} bytes (64 KiB), this one {}", key.len());
        return Err(Error::invalid_input(message));
    }
    Ok(())
}

/// As [`validate_key`], for the names of entries.
pub(super) fn validate_entry_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let message = format!("a name has 1 byte to {NAME_BYTES_MAX} bytes (1 KiB), this one {}", name.len());
        return Err(Error::invalid_input(message));
    }
    Ok(())
}

/// As [`validate_key`], for values.
pub(super) fn validate_value(value: &[u8]) -> Result<()> {
    if value.len() > VALUE_BYTES_MAX {
        let message = format!("a value has at most {VALUE_BYTES_MAX} bytes (64 MiB), this one {}", value.len());
        return Err(Error::invalid_input(message));
    }
    Ok(())
}

/// Refuses names that a record cannot hold.
pub(super) fn validate_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > 255 {
        return Err(Error::invalid_input(format!("a keyspace name has 1 to 255 bytes, this one {}", name.len())));
    }
    Ok(())
}

/// Refuses split points that are no keys, do not ascend, or have more than 1 MiB in all.
pub(super) fn validate_splits(splits: &[&[u8]]) -> Result<()> {
    splits.iter().try_for_each(|split| validate_key(split))?;
    if !splits.is_sorted_by(|a, b| a < b) {
        return Err(Error::invalid_input("split points ascend, each once"));
    }
    if splits.iter().map(|split| split.len()).sum::<usize>() > 1 << 20 {
        return Err(Error::invalid_input("split points have at most 1 MiB in all"));
    }
    Ok(())
}
