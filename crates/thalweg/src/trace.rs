//! Events and spans for subscribers of the `tracing` crate (`docs/tracing.md` lists them).
//!
//! Without the feature `tracing` they are not compiled, and their fields are only type-checked. With it an event
//! without a subscriber costs one load. No event is on the path of a read, or of a write that does not wait for room.

/// Emits an event: level, target, message, fields.
macro_rules! event {
    ($level:ident, $target:literal, $message:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        #[cfg(feature = "tracing")]
        ::tracing::event!(target: $target, ::tracing::Level::$level, $($field = $value,)* $message);
        // Type-checked, and never evaluated.
        #[cfg(not(feature = "tracing"))]
        { $(let _ = || { let _ = $value; };)* }
    }};
}

/// Awaits a future in a span of level INFO: target, name, fields, future.
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
