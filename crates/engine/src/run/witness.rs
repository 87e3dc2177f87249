//! Reads counters that somebody else keeps of the target, before and after the load, and puts them beside what the
//! workers counted: see [`taillight_core::witness`].

use taillight_core::plan::Plan;
use taillight_core::witness::{Witness, WitnessCount, WitnessUnit};
use taillight_driver::Target;

use crate::collector::{Collected, LoadCount};

/// What the target's counters said before the load, and after it.
#[derive(Debug, Default)]
pub struct WitnessReadings {
    before: Vec<WitnessCount>,
    after: Vec<WitnessCount>,
}

impl WitnessReadings {
    /// Reads the counters right before the load.
    pub fn before(target: &dyn Target) -> WitnessReadings {
        WitnessReadings { before: target.witness(), after: Vec::new() }
    }

    /// Reads the counters again, once every session is gone; not of a target that had none before.
    pub fn after(&mut self, target: &dyn Target) {
        if !self.before.is_empty() {
            self.after = target.witness();
        }
    }

    /// Both counts of what the load did, for each counter. Left out is a counter that went back or is not there any
    /// more, and one that no operation of the load raises. Failed operations, those that crossed from the warm-up, and
    /// `unfinished` ones, of which nobody knows how they ended, make a count uncertain.
    pub fn compare(&self, plan: &Plan, collected: &Collected, unfinished: u64) -> Vec<Witness> {
        let pairs = self.before.iter().filter_map(|before| {
            let same = |it: &&WitnessCount| (&it.source, &it.ops) == (&before.source, &before.ops);
            let after = self.after.iter().find(same)?;
            let own = after.own.zip(before.own).and_then(|(to, from)| to.checked_sub(from));
            let witnessed = after.value.checked_sub(before.value)?;
            counted(before, plan, collected, unfinished).map(|(counted, uncertain)| Witness {
                source: before.source.clone(),
                unit: before.unit,
                ops: before.ops.clone(),
                counted,
                witnessed,
                uncertain,
                own,
                less: before.less.map(str::to_owned),
                more: before.more.map(str::to_owned),
                shared: before.shared,
            })
        });
        pairs.collect()
    }
}

/// The load's own count of what raises a counter, in the counter's unit and without failures, and how much the two may
/// differ for operations of unknown effect: each at most its largest block, or its batch. `None` where the load has no
/// such operation.
fn counted(
    count: &WitnessCount,
    plan: &Plan,
    collected: &Collected,
    unfinished: u64,
) -> Option<(u64, u64)> {
    let among = |workload: usize| {
        let named = count.workloads.as_ref();
        named.is_none_or(|named| named.iter().any(|w| usize::from(*w) == workload))
    };
    let workloads = || collected.whole.iter().enumerate().filter(|(w, _)| among(*w));
    let of = |pick: fn(&LoadCount) -> u64| -> u64 {
        let all = workloads().flat_map(|(_, kinds)| count.ops.iter().map(|op| kinds[*op as usize]));
        all.map(|kind| pick(&kind)).sum()
    };
    let sizes = workloads().filter_map(|(w, _)| plan.workloads.get(w));
    let largest = sizes.clone().map(|w| w.block_size.max()).max().unwrap_or(0);
    let batch = sizes.map(|w| u64::from(w.batch.max(1))).max().unwrap_or(1);
    let (counted, each) = match count.unit {
        WitnessUnit::Operations => (of(|k| k.ops), 1),
        WitnessUnit::Records => (of(|k| k.records), batch),
        WitnessUnit::Bytes => (of(|k| k.bytes), largest.saturating_mul(batch)),
    };
    let failed = of(|k| k.failed);
    // Of operations that crossed from the warm-up the kind is not known.
    let unsure = failed + collected.stragglers + unfinished;
    (of(|k| k.ops) + failed > 0).then_some((counted, unsure.saturating_mul(each)))
}
