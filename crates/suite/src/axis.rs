//! Values of an axis of a series, a field in which its runs differ: as numbers of one unit (sizes, times, rates, bare
//! numbers), and as words.

use std::str::FromStr;

use serde_json::{Map, Value};
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
    /// What the name of a column of these numbers has behind the name of the field; none for bare numbers.
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

/// The values as numbers of one unit; none where one is no number, two have different units, or there is no value.
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

/// A value for people: text without its quotes, a mix as `65/35`, else JSON. Unless a mix is of `read` and `write` in
/// this order, all its operations are named behind it: `65/35 get/update`.
pub fn value_text(value: &Value) -> String {
    value.as_object().and_then(mix).unwrap_or_else(|| as_given(value))
}

/// A value for programs: text without its quotes, all else as JSON.
pub fn as_given(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Shares of two operations or more as people write them; none for a table of one, or with a share that is no number.
pub fn mix(shares: &Map<String, Value>) -> Option<String> {
    let numbers: Option<Vec<String>> =
        shares.values().map(|share| share.is_number().then(|| share.to_string())).collect();
    let numbers = numbers.filter(|n| n.len() > 1)?.join("/");
    let ops: Vec<&str> = shares.keys().map(String::as_str).collect();
    Some(if ops == ["read", "write"] { numbers } else { format!("{numbers} {}", ops.join("/")) })
}

/// Paths and their values for people, each path by its `name` among these: `mix 5/95, queue_depth 8`.
pub fn setting_text<'a>(setting: impl Iterator<Item = (&'a str, &'a Value)>) -> String {
    let all: Vec<(&str, &Value)> = setting.collect();
    let paths: Vec<&str> = all.iter().map(|(path, _)| *path).collect();
    let word =
        |(path, value): &(&str, &Value)| format!("{} {}", name(path, &paths), value_text(value));
    all.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The shortest end of a path, in whole parts between dots, that no other of these paths ends with; else all of it.
pub fn name(path: &str, all: &[&str]) -> String {
    let parts: Vec<&str> = path.split('.').collect();
    let mut ends = (1..=parts.len()).map(|n| parts[parts.len() - n..].join("."));
    let alone = |end: &String| all.iter().filter(|p| p.ends_with(end.as_str())).count() < 2;
    ends.find(alone).unwrap_or_else(|| path.to_owned())
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

    #[test]
    fn a_mix_reads_as_people_write_it() {
        assert_eq!(value_text(&json!({ "read": 65, "write": 35 })), "65/35");
        assert_eq!(value_text(&json!({ "get": 65, "update": 35 })), "65/35 get/update");
        assert_eq!(
            value_text(&json!({ "kind": "constant", "time": "1ms" })).chars().next(),
            Some('{')
        );
        let (mix, depth) = (json!({ "read": 5, "write": 95 }), json!(8));
        let both = [("workload.0.mix", &mix), ("workload.0.queue_depth", &depth)];
        assert_eq!(setting_text(both.into_iter()), "mix 5/95, queue_depth 8");
        let two = [("workload.0.workers", &depth), ("workload.1.workers", &depth)];
        assert_eq!(setting_text(two.into_iter()), "0.workers 8, 1.workers 8");
    }
}
