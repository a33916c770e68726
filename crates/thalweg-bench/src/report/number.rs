//! Formats numbers for readers: three significant digits and a unit.

/// A number with three significant digits: `1.23`, `12.3`, `123`, `0.0123`.
pub fn plain(number: f64) -> String {
    let digits = match number.abs() {
        size if size == 0.0 || !size.is_finite() || size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        size if size >= 0.09995 => 3,
        _ => 4,
    };
    format!("{number:.digits$}")
}

/// Like [`plain`], without trailing zeros: for the ticks of an axis.
pub fn tick(number: f64) -> String {
    let text = plain(number);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Something counted: `12`, `123 k`, `1.23 M`.
pub fn count(number: f64) -> String {
    scaled(number, "", &[(1e9, " G"), (1e6, " M"), (1e3, " k")], plain)
}

/// Operations a second: `123 k/s`.
pub fn rate(per_second: f64) -> String {
    scaled(per_second, "/s", &[(1e9, " G/s"), (1e6, " M/s"), (1e3, " k/s")], plain)
}

/// A time: `850 ns`, `12.3 µs`, `1.23 ms`, `12.3 s`.
pub fn time(ns: f64) -> String {
    scaled(ns, " ns", &[(1e9, " s"), (1e6, " ms"), (1e3, " µs")], plain)
}

/// Bytes: `512 B`, `1.23 MiB`.
pub fn bytes(bytes: f64) -> String {
    scaled(bytes, " B", &[(GIB * 1024.0, " TiB"), (GIB, " GiB"), (MIB, " MiB"), (1024.0, " KiB")], plain)
}

/// A ratio without the sign `×`: `0.73`, `1.23`, `12.3`.
pub fn factor(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 1000.0 => count(ratio),
        ratio if (0.095..1.0).contains(&ratio) => format!("{ratio:.2}"),
        ratio => plain(ratio),
    }
}

/// A ratio: `1.23×`.
pub fn ratio(ratio: f64) -> String {
    format!("{}×", factor(ratio))
}

/// A percentage: `1.2 %`.
pub fn percent(percent: f64) -> String {
    format!("{percent:.1} %")
}

/// The tick of an axis of counts.
pub fn count_tick(number: f64) -> String {
    scaled(number, "", &[(1e9, " G"), (1e6, " M"), (1e3, " k")], tick)
}

/// The tick of an axis of nanoseconds.
pub fn time_tick(ns: f64) -> String {
    scaled(ns, " ns", &[(1e9, " s"), (1e6, " ms"), (1e3, " µs")], tick)
}

const MIB: f64 = 1048576.0;
const GIB: f64 = 1073741824.0;

/// `number` in the largest unit in which it is at least 1 after rounding: 999.9 ns are 1.00 µs.
fn scaled(number: f64, unit: &str, units: &[(f64, &str)], show: fn(f64) -> String) -> String {
    match units.iter().find(|(size, _)| number.abs() >= size * 0.9995) {
        Some((size, unit)) => format!("{}{unit}", show(number / size)),
        // A whole number is a count, not a measurement.
        None if number.fract() == 0.0 => format!("{number}{unit}"),
        None => format!("{}{unit}", show(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        assert_eq!(
            [0.0, 0.001234, 0.01234, 1.0, 9.996, 12.34, 99.96, 123.4, 1234.5].map(plain),
            ["0", "0.0012", "0.0123", "1.00", "10.0", "12.3", "100", "123", "1234"]
        );
        assert_eq!([1_234_567.0, 123_456.0, 999_999.0, 12.0].map(rate), ["1.23 M/s", "123 k/s", "1.00 M/s", "12/s"]);
        assert_eq!([850.0, 999.9, 12_345.0, 1.5e9].map(time), ["850 ns", "1.00 µs", "12.3 µs", "1.50 s"]);
        assert_eq!([0.0, 135.4, 1536.0, 5.0 * GIB].map(bytes), ["0 B", "135 B", "1.50 KiB", "5.00 GiB"]);
        assert_eq!([0.5, 1.0, 12345.0].map(ratio), ["0.50×", "1.00×", "12.3 k×"]);
    }

    #[test]
    fn ticks_end_without_zeros() {
        assert_eq!([1e3, 1.5e6, 100.0, 0.0].map(count_tick), ["1 k", "1.5 M", "100", "0"]);
        assert_eq!([1e3, 2e6, 5e8].map(time_tick), ["1 µs", "2 ms", "500 ms"]);
    }
}
