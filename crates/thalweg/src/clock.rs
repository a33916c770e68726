//! The clock and entropy seams: the only sources of time and randomness.

use std::time::Instant;

/// A monotonic clock.
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds since some fixed moment.
    fn now_ns(&self) -> u64;
}

/// A source of unpredictable random numbers; in simulation, of seeded ones.
pub trait Entropy: Send + Sync + 'static {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;
}

/// The operating system's monotonic clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The operating system's random numbers.
#[derive(Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0u8; 8];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => unreachable!("getrandom of 8 bytes failed: {error}"),
            }
        }
        u64::from_le_bytes(bytes)
    }
}
