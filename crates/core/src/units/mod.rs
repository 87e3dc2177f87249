//! Quantities with units: sizes, durations, rates. A bare number where a unit is meant is refused.
//!
//! Accepted forms: `4KiB`, `1GB`, `512B`; `250us`, `1.5s`, `2min`; `1000/s`, `0.5MB/s`, `90/min`.

pub mod readable;

use std::fmt;
use std::str::FromStr;

use serde::de;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(pub u64);

/// A duration in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub u64);

/// What a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateUnit {
    /// Operations.
    Ops,
    /// Bytes.
    Bytes,
}

/// An exact rate: `num / den` operations or bytes in `per_ns` nanoseconds. Kept as a fraction so
/// that `0.5MB/s` and `3/s` over five workers stay exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Operations or bytes.
    pub unit: RateUnit,
    /// Numerator of the amount.
    pub num: u64,
    /// Denominator of the amount (a power of ten).
    pub den: u64,
    /// Nanoseconds of the time unit.
    pub per_ns: u64,
}

/// Binary units, rising, then decimal ones.
const SIZES: [(&str, u64); 11] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
];
const TIMES: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A number with its unit: the exact fraction `num / den`.
struct WrittenNumber<'a> {
    num: u64,
    den: u64,
    unit: &'a str,
}

/// Splits "1.5GiB" into 15 / 10 and "GiB".
fn split(text: &str) -> Option<WrittenNumber<'_>> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))?;
    let (number, unit) = (text[..end].replace('_', ""), text[end..].trim());
    let (whole, part) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || part.len() > 9 || (number.contains('.') && part.is_empty()) {
        return None;
    }
    let den = 10u64.pow(part.len() as u32);
    let num = whole.parse::<u64>().ok()?.checked_mul(den)?;
    let num = num.checked_add(if part.is_empty() { 0 } else { part.parse().ok()? })?;
    Some(WrittenNumber { num, den, unit })
}

/// The value in the smallest unit. Errors: what is wrong with the value; `None` where it is no number with a unit.
fn scaled(text: &str, units: &[(&str, u64)]) -> Result<u64, Option<String>> {
    let WrittenNumber { num, den, unit } = split(text).ok_or(None)?;
    let known = units.iter().find(|(name, _)| *name == unit);
    let factor = known.ok_or(None)?.1;
    let product = u128::from(num) * u128::from(factor);
    if product % u128::from(den) != 0 {
        let (smallest, _) = units[0];
        return Err(Some(format!("is not a whole number of {smallest}")));
    }
    let most = format!("is too large: at most {}{unit}", u64::MAX / factor);
    u64::try_from(product / u128::from(den)).map_err(|_| Some(most))
}

/// "did you mean 4KiB or 4kB? " for a number with a unit that is nearly one, else nothing.
fn did_you_mean(text: &str, near: fn(&str) -> Vec<&'static str>) -> String {
    let text = text.trim();
    let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'));
    let Some((number, unit)) = at.map(|at| text.split_at(at)) else {
        return String::new();
    };
    let units = near(&unit.trim().to_lowercase());
    // With the right unit it is not the unit that is wrong.
    if number.is_empty() || units.is_empty() || units.contains(&unit.trim()) {
        return String::new();
    }
    let all: Vec<String> = units.iter().map(|u| format!("{number}{u}")).collect();
    format!("did you mean {}? ", all.join(" or "))
}

/// `k`, `K`, `kb`, `KIB` and the like: both readings, as they differ by 2 % (kilo) to 13 % (peta).
fn near_size(unit: &str) -> Vec<&'static str> {
    match unit {
        "k" | "kb" | "kib" | "ki" => vec!["KiB", "kB"],
        "m" | "mb" | "mib" | "mi" => vec!["MiB", "MB"],
        "g" | "gb" | "gib" | "gi" => vec!["GiB", "GB"],
        "t" | "tb" | "tib" | "ti" => vec!["TiB", "TB"],
        "p" | "pb" | "pib" | "pi" => vec!["PiB", "PB"],
        "b" | "byte" | "bytes" => vec!["B"],
        _ => Vec::new(),
    }
}

fn near_time(unit: &str) -> Vec<&'static str> {
    match unit.trim_end_matches('s') {
        "nsec" | "nanosecond" => vec!["ns"],
        "µ" | "usec" | "microsecond" => vec!["us"],
        "msec" | "millisecond" => vec!["ms"],
        "sec" | "second" => vec!["s"],
        "" if unit == "s" => vec!["s"],
        "m" if unit == "m" => vec!["min", "ms"],
        "min" | "minute" => vec!["min"],
        "h" | "hr" | "hour" => vec!["h"],
        _ => Vec::new(),
    }
}

impl FromStr for ByteSize {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        scaled(s, &SIZES).map(ByteSize).map_err(|why| match why {
            Some(why) => format!("`{s}` {why}"),
            None => format!(
                "`{s}` is not a size; {}write a number and a unit, B to PiB: 4KiB, 1GiB, 512B, 10GB",
                did_you_mean(s, near_size)
            ),
        })
    }
}

impl FromStr for Span {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        scaled(s, &TIMES).map(Span).map_err(|why| match why {
            Some(why) => format!("`{s}` {why}"),
            None => format!(
                "`{s}` is not a time; {}write a number and a unit: 500us, 10ms, 30s, 2min, 1h",
                did_you_mean(s, near_time)
            ),
        })
    }
}

impl FromStr for Rate {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let fail = || format!("`{s}` is not a rate; write 1000/s, 90/min, 100MiB/s or 0.5MB/s");
        let (amount, per) = s.trim().split_once('/').ok_or_else(fail)?;
        let per_ns = TIMES.iter().find(|(name, _)| *name == per.trim()).ok_or_else(fail)?.1;
        let amount = amount.trim();
        let bare = amount.ends_with(|c: char| c.is_ascii_digit());
        let text = if bare { format!("{amount}B") } else { amount.to_owned() };
        let WrittenNumber { num, den, unit } = split(&text).ok_or_else(fail)?;
        let factor = SIZES.iter().find(|(name, _)| *name == unit).ok_or_else(fail)?.1;
        let (mut num, mut den) = (num.checked_mul(factor).ok_or_else(fail)?, den);
        // One fraction for one rate: `0.50/s` equals `0.5/s` also after writing and reading back.
        while den > 1 && num % 10 == 0 {
            (num, den) = (num / 10, den / 10);
        }
        let unit = if bare { RateUnit::Ops } else { RateUnit::Bytes };
        if num == 0 {
            return Err(format!("`{s}` is a rate of zero; leave the rate out for full speed"));
        }
        Ok(Rate { unit, num, den, per_ns })
    }
}

impl Rate {
    /// Operations per second this asks for, when each operation moves `mean_bytes`.
    pub fn ops_per_s(&self, mean_bytes: f64) -> f64 {
        let amount = self.num as f64 / self.den as f64 * 1e9 / self.per_ns as f64;
        match self.unit {
            RateUnit::Ops => amount,
            RateUnit::Bytes => amount / mean_bytes,
        }
    }
}

fn write_fitting(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fit = units
        .iter()
        .filter(|(_, u)| value.is_multiple_of(*u) && value >= *u)
        .max_by_key(|(_, u)| *u);
    let (name, unit) = fit.unwrap_or(&units[0]);
    write!(f, "{}{name}", value / unit)
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_fitting(f, self.0, &SIZES)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return write!(f, "0s");
        }
        write_fitting(f, self.0, &TIMES)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = TIMES.iter().find(|(_, ns)| *ns == self.per_ns).map_or("s", |(name, _)| name);
        let whole = self.num / self.den;
        if self.num.is_multiple_of(self.den) && self.unit == RateUnit::Bytes {
            return write!(f, "{}/{per}", ByteSize(whole));
        }
        let unit = if self.unit == RateUnit::Bytes { "B" } else { "" };
        write!(f, "{whole}")?;
        if !self.num.is_multiple_of(self.den) {
            let digits = self.den.ilog10() as usize;
            let part = format!("{:0digits$}", self.num % self.den);
            write!(f, ".{}", part.trim_end_matches('0'))?;
        }
        write!(f, "{unit}/{per}")
    }
}

/// Reads text as `T`.
pub(crate) struct TextVisitor<T> {
    /// What is expected, in words.
    pub(crate) what: &'static str,
    pub(crate) parse: fn(&str) -> Result<T, String>,
    /// What to say about a bare number; else it is of the wrong type.
    pub(crate) number: Option<fn(&dyn fmt::Display) -> String>,
}

impl<T> TextVisitor<T> {
    fn bare<E: de::Error>(&self, n: &dyn fmt::Display, given: de::Unexpected<'_>) -> E {
        match self.number {
            Some(number) => E::custom(number(n)),
            None => E::invalid_type(given, &self.what),
        }
    }
}

impl<T> de::Visitor<'_> for TextVisitor<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
    fn visit_str<E: de::Error>(self, s: &str) -> Result<T, E> {
        (self.parse)(s).map_err(E::custom)
    }
    fn visit_i64<E: de::Error>(self, n: i64) -> Result<T, E> {
        Err(self.bare(&n, de::Unexpected::Signed(n)))
    }
    fn visit_u64<E: de::Error>(self, n: u64) -> Result<T, E> {
        Err(self.bare(&n, de::Unexpected::Unsigned(n)))
    }
    fn visit_f64<E: de::Error>(self, n: f64) -> Result<T, E> {
        Err(self.bare(&n, de::Unexpected::Float(n)))
    }
}

/// Writes a type as its text, reads it by `$parse`, and publishes its pattern.
macro_rules! as_text {
    ($type:ty, $name:literal, $what:literal, $pattern:literal, $parse:expr, $number:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                d.deserialize_any($crate::units::TextVisitor {
                    what: $what,
                    parse: $parse,
                    number: $number,
                })
            }
        }
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!(
                    { "type": "string", "pattern": $pattern, "description": $what }
                )
            }
        }
    };
}
pub(crate) use as_text;

/// A quantity as text; a bare number lacks its unit.
macro_rules! quantity {
    ($type:ty, $name:literal, $what:literal, $pattern:literal) => {
        impl $type {
            /// What to say about a bare number where this type is meant.
            pub(crate) fn unitless(n: &dyn fmt::Display) -> String {
                format!("`{n}` has no unit; expected {}", $what)
            }
        }
        as_text!($type, $name, $what, $pattern, str::parse, Some(<$type>::unitless));
    };
}
quantity!(
    ByteSize,
    "ByteSize",
    "a size with a unit, like \"4KiB\" or \"10GB\"",
    r"^[0-9][0-9_]*(\.[0-9]+)? *(B|[KMGTP]iB|[kMGTP]B)$"
);
quantity!(
    Span,
    "Span",
    "a time with a unit, like \"500us\" or \"30s\"",
    r"^[0-9][0-9_]*(\.[0-9]+)? *(ns|us|ms|s|min|h)$"
);
quantity!(
    Rate,
    "Rate",
    "a rate, like \"1000/s\" or \"100MiB/s\"",
    r"^[0-9][0-9_]*(\.[0-9]+)? *(B|[KMGTP]iB|[kMGTP]B)? */ *(ns|us|ms|s|min|h)$"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!("4KiB".parse(), Ok(ByteSize(4096)));
        assert_eq!("1.5 GiB".parse(), Ok(ByteSize(3 << 29)));
        assert_eq!("10GB".parse::<ByteSize>().unwrap().to_string(), "10GB");
        assert_eq!("0.5s".parse::<Span>().unwrap().to_string(), "500ms");
        assert_eq!("2min".parse(), Ok(Span(120_000_000_000)));
        for bad in ["4", "4K", "KiB", "-1s", "1.s", ".5s", "0.3B", "99999999999TiB", ""] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
        assert!("5m".parse::<Span>().is_err());
    }

    #[test]
    fn nearly_right_units_get_a_suggestion() {
        for (given, meant) in [
            ("4k", "did you mean 4KiB or 4kB?"),
            ("4K", "did you mean 4KiB or 4kB?"),
            ("1.5 GIB", "did you mean 1.5GiB or 1.5GB?"),
            ("512b", "did you mean 512B?"),
        ] {
            let said = given.parse::<ByteSize>().unwrap_err();
            assert!(said.contains(meant), "{said}");
        }
        for (given, meant) in [
            ("5m", "did you mean 5min or 5ms?"),
            ("30sec", "did you mean 30s?"),
            ("10µs", "did you mean 10us?"),
            ("2 Hours", "did you mean 2h?"),
        ] {
            let said = given.parse::<Span>().unwrap_err();
            assert!(said.contains(meant), "{said}");
        }
        for (bad, why) in
            [("99999PiB", "is too large: at most 16383PiB"), ("0.3B", "is not a whole number of B")]
        {
            let said = bad.parse::<ByteSize>().unwrap_err();
            assert!(said.ends_with(why), "{said}");
        }
        let said = "9999999999h".parse::<Span>().unwrap_err();
        assert!(said.ends_with("is too large: at most 5124095h"), "{said}");
        for bad in ["4x", "k", "4", "", "99999999999999999999999KiB"] {
            let said = bad.parse::<ByteSize>().unwrap_err();
            assert!(!said.contains("did you mean"), "{said}");
        }
    }

    #[test]
    fn rates_are_exact() {
        let r: Rate = "0.5MB/s".parse().unwrap();
        assert_eq!((r.unit, r.num, r.den), (RateUnit::Bytes, 500_000, 1));
        assert_eq!(r.to_string().parse::<Rate>().unwrap(), r);
        assert_eq!(r.to_string().parse::<Rate>().unwrap().ops_per_s(1000.0), 500.0);
        assert_eq!("3/s".parse::<Rate>().unwrap().to_string(), "3/s");
        assert_eq!("0.25/min".parse::<Rate>().unwrap().to_string(), "0.25/min");
        assert!("0/s".parse::<Rate>().is_err());
        assert!("10".parse::<Rate>().is_err());
    }

    proptest::proptest! {
        #[test]
        fn display_parses_back(n in 0u64..u64::MAX / 2) {
            assert_eq!(ByteSize(n).to_string().parse(), Ok(ByteSize(n)));
            assert_eq!(Span(n).to_string().parse(), Ok(Span(n)));
        }
    }
}
