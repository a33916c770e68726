//! Amounts as a user writes them: `64M` bytes, `10k` operations, `100ms`.
//!
//! Sizes count in 1024s, as memory does; counts and rates in 1000s, as people do.

/// Bytes: `4096`, `64M`, `64MiB`, `1.5G`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let unit = unit.strip_suffix("iB").or_else(|| unit.strip_suffix('B')).unwrap_or(unit);
    let power = match unit.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return Err(format!("{unit:?} is no unit of bytes; write 4096, 64M or 1.5G")),
    };
    whole(number * 1024f64.powi(power))
}

/// A size in bytes of a key or a value, which a setting holds in 32 bits.
pub fn small_bytes(text: &str) -> Result<u32, String> {
    u32::try_from(bytes(text)?).map_err(|_| "more than 4 GiB".to_owned())
}

/// A count: `2000`, `10k`, `1.5M`.
pub fn count(text: &str) -> Result<u64, String> {
    whole(decimal(text)?)
}

/// Operations a second: `500`, `10k`, `1.5M`.
pub fn rate(text: &str) -> Result<f64, String> {
    match decimal(text)? {
        rate if rate > 0.0 => Ok(rate),
        _ => Err("a rate is above 0".into()),
    }
}

/// Seconds, not negative: `0.5`, `30`, `30s`.
pub fn seconds(text: &str) -> Result<f64, String> {
    number(text.strip_suffix('s').unwrap_or(text))
}

/// A duration in seconds, above 0.
pub fn some_seconds(text: &str) -> Result<f64, String> {
    above_zero(seconds(text)?)
}

/// A factor above 0.
pub fn factor(text: &str) -> Result<f64, String> {
    above_zero(number(text)?)
}

/// A share from 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    match number(text)? {
        share if share <= 1.0 => Ok(share),
        _ => Err("a share is from 0 to 1".into()),
    }
}

/// A percentage above 0: `60`, `60%`. A percentage above 100 is valid: it measures beyond the sustained rate.
pub fn percent(text: &str) -> Result<f64, String> {
    above_zero(number(text.strip_suffix('%').unwrap_or(text))?)
}

/// An interval in milliseconds: `100ms`, `1s`; `none` is 0.
pub fn interval_ms(text: &str) -> Result<u64, String> {
    if matches!(text, "none" | "0") {
        return Ok(0);
    }
    let (amount, milliseconds) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(amount), _) => (amount, 1.0),
        (None, Some(amount)) => (amount, 1000.0),
        (None, None) => return Err("write 100ms, 1s or none".into()),
    };
    match whole((number(amount)? * milliseconds).round())? {
        0 => Err("less than a millisecond; write none for no periodic sync".into()),
        interval => Ok(interval),
    }
}

/// A delay in microseconds: `500us`, `5ms`, `0.5s`; `none` is 0.
pub fn delay_us(text: &str) -> Result<u64, String> {
    if matches!(text, "none" | "0") {
        return Ok(0);
    }
    let units = [("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];
    let amount = units.iter().find_map(|(unit, us)| Some((text.strip_suffix(unit)?, us)));
    let (amount, microseconds) = amount.ok_or("write 500us, 5ms or none")?;
    match whole((number(amount)? * microseconds).round())? {
        0 => Err("less than a microsecond; write none for none".into()),
        // A longer delay of every sync would make a run useless.
        delay if delay > 10_000_000 => Err("more than 10 s".into()),
        delay => Ok(delay),
    }
}

/// One operation's share of a mix: `get=50`.
pub fn mix_share(text: &str) -> Result<(String, f64), String> {
    let (name, amount) = text.split_once('=').ok_or_else(|| "write get=50,put=50".to_owned())?;
    Ok((name.trim().to_owned(), number(amount.trim())?))
}

fn decimal(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        _ => return Err(format!("{unit:?} is no unit of a count; write 2000, 10k or 1.5M")),
    };
    Ok(number * factor)
}

fn split(text: &str) -> Result<(f64, &str), String> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (amount, unit) = text.split_at(end);
    Ok((number(amount.trim_end())?, unit))
}

fn number(text: &str) -> Result<f64, String> {
    match text.replace('_', "").parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        Ok(number) if number < 0.0 => Err("must not be negative".into()),
        Ok(_) => Err("must not be endless".into()),
        Err(_) => Err(format!("{text:?} is no number")),
    }
}

fn above_zero(number: f64) -> Result<f64, String> {
    if number > 0.0 { Ok(number) } else { Err("must be above 0".into()) }
}

fn whole(number: f64) -> Result<u64, String> {
    if number.fract() != 0.0 {
        return Err(format!("{number} is no whole number"));
    }
    // TOML cannot hold a larger integer, and no run needs one.
    if number > i64::MAX as f64 { Err("too many".into()) } else { Ok(number as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_in_1024s() {
        let said = ["4096", "64M", "64MiB", "64MB", "1.5G", "2g", "8k", "1 G"].map(|text| bytes(text).unwrap());
        assert_eq!(said, [4096, 64 << 20, 64 << 20, 64 << 20, 3 << 29, 2 << 30, 8 << 10, 1 << 30]);
        for wrong in ["", "M", "64X", "-1", "0.3", "1e30", "64ms"] {
            assert!(bytes(wrong).is_err(), "{wrong:?} was taken");
        }
        assert!(small_bytes("8G").is_err());
    }

    #[test]
    fn counts_and_rates_count_in_1000s() {
        assert_eq!(["2000", "10k", "1.5M", "2_000"].map(|text| count(text).unwrap()), [2000, 10_000, 1_500_000, 2000]);
        assert_eq!(["500", "0.5", "20k"].map(|text| rate(text).unwrap()), [500.0, 0.5, 20_000.0]);
        assert!(count("1.5").is_err() && rate("0").is_err() && count("64MiB").is_err());
    }

    #[test]
    fn an_interval_needs_its_unit() {
        assert_eq!(
            ["100ms", "1s", "1.5s", "none", "0"].map(|text| interval_ms(text).unwrap()),
            [100, 1000, 1500, 0, 0]
        );
        for wrong in ["100", "0.1ms", "fast", "-1s"] {
            assert!(interval_ms(wrong).is_err(), "{wrong:?} was taken");
        }
    }

    #[test]
    fn a_delay_is_of_microseconds_up_to_seconds() {
        let said = ["500us", "5ms", "0.5s", "1.5ms", "7µs", "none", "0"].map(|text| delay_us(text).unwrap());
        assert_eq!(said, [500, 5000, 500_000, 1500, 7, 0, 0]);
        for wrong in ["5", "0.1us", "11s", "ms", "-1ms", "5m"] {
            assert!(delay_us(wrong).is_err(), "{wrong:?} was taken");
        }
    }

    #[test]
    fn shares_percentages_and_factors_have_bounds() {
        assert_eq!((share("0.5").unwrap(), percent("80%").unwrap(), factor("0.1").unwrap()), (0.5, 80.0, 0.1));
        assert_eq!((seconds("0").unwrap(), some_seconds("2s").unwrap()), (0.0, 2.0));
        assert!(share("1.1").is_err() && percent("0").is_err() && factor("0").is_err() && some_seconds("0").is_err());
        assert!(factor("inf").is_err() && factor("nan").is_err());
    }

    #[test]
    fn a_share_of_a_mix_has_a_name_and_a_number() {
        assert_eq!(mix_share("get=50").unwrap(), ("get".to_owned(), 50.0));
        assert!(mix_share("get").is_err() && mix_share("get=x").is_err());
    }
}
