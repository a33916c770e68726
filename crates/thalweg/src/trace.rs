//! Events and spans for whoever subscribes to the `tracing` crate (`docs/tracing.md` lists them).
//!
//! Without the feature `tracing` nothing of them is compiled; fields are type-checked only. With it an event that
//! nobody wants costs a load. None is on the path of a read or a write that finds room.

/// An event: level, target, message, fields.
macro_rules! event {
    ($level:ident, $target:literal, $message:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        #[cfg(feature = "tracing")]
        ::tracing::event!(target: $target, ::tracing::Level::$level, $($field = $value,)* $message);
        // Used, and never evaluated.
        #[cfg(not(feature = "tracing"))]
        { $(let _ = || { let _ = $value; };)* }
    }};
}

/// Waits for a future within a span of level INFO: target, name, fields, future.
macro_rules! spanned {
    ($target:literal, $name:literal, { $($field:ident = $value:expr),* $(,)? }, $future:expr) => {{
        #[cfg(feature = "tracing")]
        let span = ::tracing::span!(target: $target, ::tracing::Level::INFO, $name $(, $field = $value)*);
        #[cfg(not(feature = "tracing"))]
        { $(let _ = || { let _ = $value; };)* }
        let future = $future;
        #[cfg(feature = "tracing")]
        let future = ::tracing::Instrument::instrument(future, span);
        future.await
    }};
}

pub(crate) use {event, spanned};
