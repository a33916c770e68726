//! [`SyncInFlight`]: a sync that no thread waits for.

use crate::error::Result;
use std::future::Future;
use std::pin::Pin;

/// A sync under way that no thread waits for; see [`super::File::begin_sync`].
pub type SyncInFlight = Pin<Box<dyn Future<Output = Result<()>> + Send>>;
