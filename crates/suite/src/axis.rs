//! Values of an axis as numbers: sizes, times and rates with their unit, or bare numbers.

use std::str::FromStr;

use serde_json::Value;
use taillight_core::units::{ByteSize, Rate, RateUnit, Span};

/// What the numbers of an axis count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisUnit {
    Plain,
    Bytes,
    Ns,
    OpsPerS,
    BytesPerS,
}

impl AxisUnit {
    /// What a column of these numbers is called after its field; none where the values are numbers.
    pub fn suffix(self) -> Option<&'static str> {
        match self {
            AxisUnit::Plain => None,
            AxisUnit::Bytes => Some("_bytes"),
            AxisUnit::Ns => Some("_ns"),
            AxisUnit::OpsPerS => Some("_per_s"),
            AxisUnit::BytesPerS => Some("_bytes_per_s"),
        }
    }
}

/// The values as numbers of one unit; none where one is something else.
pub fn numbers<'a>(values: impl Iterator<Item = &'a Value>) -> Option<(AxisUnit, Vec<f64>)> {
    let all: Option<Vec<(AxisUnit, f64)>> = values.map(number).collect();
    let all = all?;
    let unit = all.first()?.0;
    let same = all.iter().all(|(other, _)| *other == unit);
    same.then(|| (unit, all.into_iter().map(|(_, n)| n).collect()))
}

fn number(value: &Value) -> Option<(AxisUnit, f64)> {
    if let Some(n) = value.as_f64() {
        return Some((AxisUnit::Plain, n));
    }
    let text = value.as_str()?;
    if let Ok(size) = ByteSize::from_str(text) {
        return Some((AxisUnit::Bytes, size.0 as f64));
    }
    if let Ok(time) = Span::from_str(text) {
        return Some((AxisUnit::Ns, time.0 as f64));
    }
    let rate = Rate::from_str(text).ok()?;
    let unit = match rate.unit {
        RateUnit::Ops => AxisUnit::OpsPerS,
        RateUnit::Bytes => AxisUnit::BytesPerS,
    };
    Some((unit, rate.ops_per_s(1.0)))
}

/// A value for people: text without its quotes.
pub fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_one_unit_are_numbers() {
        let of = |values: &[Value]| numbers(values.iter());
        assert_eq!(of(&[json!(1), json!(2.5)]), Some((AxisUnit::Plain, vec![1.0, 2.5])));
        let sizes = of(&[json!("4KiB"), json!("1kB")]);
        assert_eq!(sizes, Some((AxisUnit::Bytes, vec![4096.0, 1000.0])));
        assert_eq!(of(&[json!("2ms")]), Some((AxisUnit::Ns, vec![2e6])));
        assert_eq!(of(&[json!("90/min")]), Some((AxisUnit::OpsPerS, vec![1.5])));
        assert_eq!(of(&[json!("1kB/s")]), Some((AxisUnit::BytesPerS, vec![1000.0])));
        assert_eq!(of(&[json!("4KiB"), json!("2ms")]), None, "two units");
        assert_eq!(of(&[json!("random")]), None);
        assert_eq!(of(&[]), None);
    }
}
