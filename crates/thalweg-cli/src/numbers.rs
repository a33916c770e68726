//! Numbers as people read them: grouped counts, binary sizes, durations and rates.

use bytesize::ByteSize;
use indicatif::HumanCount;
use std::time::Duration;

/// `1,234,567`.
pub fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// `17 B`, `1.5 KiB`, `2.0 GiB`.
pub fn size(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

/// `1 line`, `2 lines`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// `850 µs`, `12.5 ms`, `3.2 s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 0.001 {
        format!("{:.0} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{seconds:.1} s")
    }
}

/// Returns `amount` per second of `time`.
pub fn rate(amount: u64, time: Duration) -> u64 {
    let seconds = time.as_secs_f64().max(1e-6);
    (amount as f64 / seconds) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_by_three() {
        assert_eq!([0, 999, 1000, 1234567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(counted(1, "line"), "1 line");
        assert_eq!(counted(2000, "line"), "2,000 lines");
    }

    #[test]
    fn sizes_take_the_unit_that_fits() {
        assert_eq!([0, 1023, 1024, 1536].map(size), ["0 B", "1023 B", "1.0 KiB", "1.5 KiB"]);
        assert_eq!(size(3 << 30), "3.0 GiB");
        assert_eq!(size(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn durations_take_the_unit_that_fits() {
        assert_eq!(duration(Duration::from_micros(12)), "12 µs");
        assert_eq!(duration(Duration::from_micros(1500)), "1.5 ms");
        assert_eq!(duration(Duration::from_millis(3250)), "3.2 s");
    }

    #[test]
    fn a_rate_in_no_time_is_finite() {
        assert_eq!(rate(10, Duration::from_secs(2)), 5);
        assert_eq!(rate(1, Duration::ZERO), 1_000_000);
    }
}
