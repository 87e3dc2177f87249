//! Numbers as people read them: fitting units, three digits, thousands separated. What is handed in is exact
//! and rounded here. Called where text is made, in other crates as well.

use taillight_core::units::readable::fit;
pub use taillight_core::units::readable::{
    bytes, bytes_per_s, count, counted, digits3, duration, duration_ns, percent, trimmed,
};

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

/// A moment of a run (ns) in seconds with one decimal; what rounds to zero is `0.0 s`, never `-0.0 s`.
pub fn moment(ns: i64) -> String {
    let tenths = (ns as f64 / 1e8).round();
    // Adding nought takes its sign away.
    format!("{:.1} s", tenths / 10.0 + 0.0)
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
        assert_eq!(rate(123_456.4), "123,456");
        assert_eq!(rate(23_400_000.0), "23.4 M");
        assert_eq!(rate(0.5), "0.500");
        assert_eq!(short(12_345.0), "12.3 k");
        assert_eq!(nines_label(4), "99.99 %");
    }

    proptest::proptest! {
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
