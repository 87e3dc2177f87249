//! Numbers as people read them: fitting units, three digits, thousands separated. Everything upstream stays
//! exact: round here alone. Called by the model and the charts.

use taillight_core::units::readable::fit;
pub use taillight_core::units::readable::{bytes, bytes_per_s, digits3, duration};

/// A duration held as whole nanoseconds.
pub fn duration_ns(ns: u64) -> String {
    duration(ns as f64)
}

/// A count with its noun, which takes an `s` for any other number than one.
pub fn counted(value: u64, one: &str) -> String {
    let s = if value == 1 { "" } else { "s" };
    format!("{} {one}{s}", count(value))
}

/// A whole number with thousands separated: `1,234,567`.
pub fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut text = String::with_capacity(plain.len() + plain.len() / 3);
    for (i, digit) in plain.chars().enumerate() {
        if i > 0 && (plain.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Operations per second: whole from 100 on, three digits below, `23.4 M` from ten million on.
pub fn rate(per_s: f64) -> String {
    if !per_s.is_finite() {
        return "?".to_owned();
    }
    if per_s >= 9_999_999.5 {
        return format!("{} M", digits3(per_s / 1e6));
    }
    if per_s >= 99.95 {
        return count(per_s.round() as u64);
    }
    digits3(per_s)
}

/// A short number for legends: `950`, `12.3 k`, `4.56 M`.
pub fn short(value: f64) -> String {
    let (value, unit) =
        fit(value, &[("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)]);
    format!("{} {unit}", digits3(value)).trim_end().to_owned()
}

/// A moment of a run in tenths of a second. What a worker read of itself just before the run began
/// is at `0.0 s`, never at `-0.0 s`.
pub fn moment(ns: i64) -> String {
    let tenths = (ns as f64 / 1e8).round();
    // Adding nought takes its sign away.
    format!("{:.1} s", tenths / 10.0 + 0.0)
}

/// A share of a whole as per cent, with as many digits as it takes to be different from 0 and 100.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value == 0.0 || value >= 100.0 {
        format!("{value:.0} %")
    } else if value >= 99.9995 {
        "over 99.999 %".to_owned()
    } else if value >= 99.95 {
        format!("{value:.3} %")
    } else if value >= 0.1 {
        format!("{value:.1} %")
    } else if value >= 0.001 {
        format!("{value:.3} %")
    } else {
        "under 0.001 %".to_owned()
    }
}

/// A text without the zeros that end the fractions of its numbers: `10 us` for `10.0 us`, `x 3` for
/// `x 3.00`.
pub fn trimmed(text: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(is_number) {
        let length = rest[begin..].find(|c: char| !is_number(c)).unwrap_or(rest.len() - begin);
        let (before, number) = rest[..begin + length].split_at(begin);
        out.push_str(before);
        out.push_str(match number.contains('.') {
            true => number.trim_end_matches('0').trim_end_matches('.'),
            false => number,
        });
        rest = &rest[begin + length..];
    }
    out + rest
}

/// A dimensionless factor: `0.301`, `14.4`, `2,483`.
pub fn factor(value: f64) -> String {
    if value.abs() >= 99.95 {
        rate(value)
    } else if value.abs() < 0.0005 {
        "0".to_owned()
    } else {
        digits3(value)
    }
}

/// The tail share 10^-k as the percentile people write: 90 %, 99 %, 99.9 %.
pub fn nines_label(k: u32) -> String {
    match k {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        _ => format!("99.{} %", "9".repeat(k as usize - 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nought_has_no_sign() {
        let moments = [-40_000_000, -60_000_000, 0, 1_240_000_000].map(moment);
        assert_eq!(moments, ["0.0 s", "-0.1 s", "0.0 s", "1.2 s"]);
    }

    #[test]
    fn amounts_fit() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(rate(123_456.4), "123,456");
        assert_eq!(rate(23_400_000.0), "23.4 M");
        assert_eq!(rate(0.5), "0.500");
        assert_eq!(short(12_345.0), "12.3 k");
        assert_eq!(percent(0.0001), "0.010 %");
        assert_eq!(percent(1.0), "100 %");
        // All but a few is not all.
        assert_eq!(percent(10_134.0 / 10_136.0), "99.980 %");
        assert_eq!(percent(1.0 - 1e-9), "over 99.999 %");
        assert_eq!(nines_label(4), "99.99 %");
    }

    #[test]
    fn only_zeros_at_the_end_of_a_fraction_say_nothing() {
        for (text, short) in [
            ("x 3.00", "x 3"),
            ("x 30.0", "x 30"),
            ("x 10.05", "x 10.05"),
            ("+5.0 %", "+5 %"),
            ("10.0 us (100 %)", "10 us (100 %)"),
            ("1.05 k", "1.05 k"),
            ("1.50 k", "1.5 k"),
            ("1,000", "1,000"),
            ("0.0 s", "0 s"),
            ("?", "?"),
        ] {
            assert_eq!(trimmed(text), short);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_trimmed_number_is_the_same_number(value in 0.0..1e6f64, digits in 0usize..6) {
            let text = format!("{value:.digits$}");
            let short = trimmed(&text);
            proptest::prop_assert_eq!(short.parse::<f64>().unwrap(), text.parse::<f64>().unwrap());
            proptest::prop_assert!(!short.contains('.') || !short.ends_with('0'));
        }

        #[test]
        fn figures_are_short_whatever_they_say(value in proptest::num::f64::ANY) {
            for text in [duration(value), rate(value), short(value), factor(value)] {
                proptest::prop_assert!(!text.is_empty());
            }
            if (0.0..1e15).contains(&value) {
                proptest::prop_assert!(duration(value).len() <= 14);
            }
        }
    }
}
