//! Numbers for people: grouped counts, binary sizes, durations, rates.

use std::time::Duration;

/// `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `17 B`, `1.5 KiB`, `2.0 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64;
    let mut name = "B";
    for unit in UNITS {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        name = unit;
    }
    format!("{amount:.1} {name}")
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

/// `amount` in `time`, a second.
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
        assert_eq!(size(u64::MAX), "16384.0 PiB");
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
