//! Counters that somebody else keeps of the operations and bytes of a run (the kernel, a server, a library): a driver
//! states them ([`WitnessCount`]), the engine reads them around the load, the manifest keeps both counts
//! ([`Witness`]), and the report judges their ratio.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OpKind;

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WitnessUnit {
    /// Operations, whatever each covers.
    Operations,
    /// Records that operations covered.
    Records,
    /// Bytes that operations moved.
    Bytes,
}

/// A counter as it stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct WitnessCount {
    /// Who counts what: `/proc/diskstats of vda, bytes read`.
    pub source: String,
    pub unit: WitnessUnit,
    /// Kinds of operation that raise it.
    pub ops: Vec<OpKind>,
    /// Indices of the workloads whose operations raise it; `None` = all of the run.
    pub workloads: Option<Vec<u16>>,
    pub value: u64,
    /// What the kernel charged to this process of it, where it says that.
    pub own: Option<u64>,
    /// Why it may show less than was done.
    pub less: Option<&'static str>,
    /// Why it may show more, beside what others do.
    pub more: Option<&'static str>,
    /// Whether others can raise it.
    pub shared: bool,
}

impl WitnessCount {
    /// A counter that only these operations raise, each once.
    pub fn new(source: impl Into<String>, unit: WitnessUnit, ops: &[OpKind], value: u64) -> Self {
        WitnessCount {
            source: source.into(),
            unit,
            ops: ops.to_vec(),
            workloads: None,
            value,
            own: None,
            less: None,
            more: None,
            shared: false,
        }
    }
}

/// A counter of somebody else over the load of a run, warm-up included, beside the run's own count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Witness {
    /// Who counted what.
    pub source: String,
    /// What both counted.
    pub unit: WitnessUnit,
    /// Kinds of operation that were counted.
    pub ops: Vec<OpKind>,
    /// The run's own count of the whole load: warm-up and unmeasured workloads included, without failures.
    pub counted: u64,
    /// How much the counter rose.
    pub witnessed: u64,
    /// Part of the difference that may be either way: operations that failed, never ended, or ended in another phase
    /// than they began in.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncertain: u64,
    /// How much of it the kernel charged to this process, where it says that; the rest is of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<u64>,
    /// Why the counter may show less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub less: Option<String>,
    /// Why the counter may show more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<String>,
    /// Whether others can raise the counter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Difference between byte counts that is not judged, for pages of programs, the run directory and rounding to sectors:
/// so many bytes, or one part in `IGNORED_SHARE` where that is more.
const IGNORED_BYTES: u64 = 1 << 20;
const IGNORED_SHARE: u64 = 100;

impl Witness {
    /// Witnessed over counted; none where nothing was counted.
    pub fn ratio(&self) -> Option<f64> {
        (self.counted > 0).then(|| self.witnessed as f64 / self.counted as f64)
    }

    /// The ratio with as many decimals, up to three, as tell apart counts that differ by one, or by more than is
    /// uncertain; `none` without a ratio.
    pub fn ratio_text(&self) -> String {
        let Some(ratio) = self.ratio() else { return "none".to_owned() };
        let least = if self.unit == WitnessUnit::Bytes { IGNORED_BYTES } else { 1 };
        let steps = (self.counted / least.saturating_add(self.uncertain)).max(1);
        // The last decimal is the first one that a step changes: half of it is less than a step.
        let decimals = steps.saturating_mul(5).ilog10().min(3) as usize;
        format!("{ratio:.decimals$}")
    }

    /// How much of `witnessed` is this process's at most: what is charged to it, in part perhaps for other devices.
    pub fn charged(&self) -> u64 {
        self.own.map_or(self.witnessed, |own| own.min(self.witnessed))
    }

    /// How far two counts may be apart without a word.
    fn tolerance(&self) -> u64 {
        let exact = self.unit != WitnessUnit::Bytes;
        let usual = if exact { 0 } else { IGNORED_BYTES.max(self.counted / IGNORED_SHARE) };
        self.uncertain + usual
    }

    /// Whether something that is known explains that the counts differ.
    pub fn is_explained(&self) -> bool {
        let slack = self.tolerance();
        let below = self.charged() + slack < self.counted;
        // What is charged to this process is nobody else's; a counter alone may be raised by others.
        let above = self.charged() > self.counted + slack;
        let others = self.own.is_none() && self.shared;
        let missing = below && self.less.is_none();
        let surplus = above && self.more.is_none() && !others;
        !(missing || surplus)
    }

    /// Whether both counts are the same, up to what is never judged.
    pub fn is_equal(&self) -> bool {
        self.witnessed.abs_diff(self.counted) <= self.tolerance()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn witness(counted: u64, witnessed: u64) -> Witness {
        Witness {
            source: "a server".into(),
            unit: WitnessUnit::Operations,
            ops: vec![OpKind::Get],
            counted,
            witnessed,
            uncertain: 0,
            own: None,
            less: None,
            more: None,
            shared: false,
        }
    }

    #[test]
    fn only_a_reason_for_that_direction_explains() {
        assert!(witness(100, 100).is_explained() && witness(100, 100).is_equal());
        assert!(!witness(100, 99).is_explained() && !witness(100, 101).is_explained());
        let less = Witness { less: Some("a cache".into()), ..witness(100, 99) };
        assert!(less.is_explained() && !less.is_equal());
        assert!(!Witness { witnessed: 101, ..less.clone() }.is_explained());
        let more = Witness { more: Some("read-ahead".into()), ..witness(100, 101) };
        assert!(more.is_explained() && !Witness { witnessed: 99, ..more }.is_explained());
        let shared = Witness { shared: true, ..witness(100, 150) };
        assert!(shared.is_explained() && !Witness { witnessed: 50, ..shared }.is_explained());
        assert!(Witness { uncertain: 1, ..witness(100, 99) }.is_explained());
        assert_eq!(witness(0, 5).ratio(), None);
    }

    #[test]
    fn a_ratio_has_the_decimals_that_its_counts_support() {
        for (counted, witnessed, text) in [
            (0, 5, "none"),
            (1, 1, "1"),
            (7, 7, "1.0"),
            (7, 6, "0.9"),
            (150, 149, "0.99"),
            (999, 998, "0.999"),
            (1 << 40, 1 << 40, "1.000"),
        ] {
            assert_eq!(witness(counted, witnessed).ratio_text(), text, "{witnessed} of {counted}");
        }
        assert_eq!(Witness { uncertain: 99, ..witness(1000, 950) }.ratio_text(), "0.9");
        let bytes = |counted| Witness { unit: WitnessUnit::Bytes, ..witness(counted, counted) };
        assert_eq!(
            [4096, 40 << 20, 1 << 30].map(|n| bytes(n).ratio_text()),
            ["1", "1.00", "1.000"]
        );
    }

    #[test]
    fn what_is_charged_to_this_process_is_nobody_elses() {
        let gib = 1 << 30;
        let device = |witnessed: u64, own: u64| Witness {
            unit: WitnessUnit::Bytes,
            own: Some(own),
            shared: true,
            ..witness(gib, witnessed)
        };
        assert!(device(gib, gib).is_explained());
        assert!(device(2 * gib, gib).is_explained(), "others read as well");
        assert!(!device(2 * gib, 2 * gib).is_explained(), "more than was counted");
        assert!(!device(2 * gib, gib / 2).is_explained(), "others hide what was not done");
        assert!(!device(gib / 2, gib).is_explained(), "the device did not do it");
        assert!(device(gib, 9 * gib).is_explained(), "this process had other files as well");
        // Short runs are within what is never judged.
        let short = Witness { counted: 4096, own: Some(0), ..device(0, 0) };
        assert!(short.is_explained());
    }
}
