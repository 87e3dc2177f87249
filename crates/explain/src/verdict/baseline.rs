//! What I/Os of a run usually take, by kind of operation: what is beyond makes one slow.

use std::collections::BTreeMap;

use taillight_core::OpKind;
use taillight_rundir::latency::Latency;
use taillight_rundir::summary::Summary;

use crate::phase::{Phase, Phases};
use crate::time_line::phased::PhasedIo;

/// Fewest I/Os of the random sample from which what is usual counts as known.
const FEWEST: usize = 20;

/// Fewest I/Os past the page cache that make a usual time of such.
const FEWEST_MISSES: usize = 5;

/// What each phase usually takes, by kind of operation: its median; 0 where nothing tells.
#[derive(Debug, Clone, Default)]
pub struct Baseline(BTreeMap<OpKind, Times>);

#[derive(Debug, Clone, Copy, Default)]
struct Times {
    usual: Phases,
    /// The usual latency, ns.
    service_ns: u64,
    /// Enough I/Os say so. The median of fewer is a first guess: it may be that of the slow ones.
    known: bool,
    /// Where most are answered by the page cache: those that were not.
    missed: Option<Phases>,
    /// These are of the sample. Else it has too few, and most were kept for being slow.
    knows_missed: bool,
}

impl Baseline {
    /// From the sample: what else was traced was kept for being slow, and says nothing of what is usual. Nor does a
    /// single I/O, which may be the slow one itself.
    pub fn of(traced: &[PhasedIo]) -> Baseline {
        let mut by_op: BTreeMap<OpKind, Vec<&PhasedIo>> = BTreeMap::new();
        // A wait is told for being one: there are no usual ones.
        for one in traced.iter().filter(|one| one.op != OpKind::Wait) {
            by_op.entry(one.op).or_default().push(one);
        }
        let times = |list: Vec<&PhasedIo>| {
            let sample: Vec<&PhasedIo> = list.iter().copied().filter(|u| u.sample).collect();
            let sample = if sample.len() > 1 { sample } else { Vec::new() };
            let hits = sample.iter().filter(|u| !u.block).count();
            let knows_missed = sample.len() - hits >= FEWEST_MISSES;
            let of = if knows_missed { &sample } else { &list };
            let missed: Vec<&PhasedIo> = of.iter().copied().filter(|u| u.block).collect();
            Times {
                usual: medians(&sample),
                service_ns: median(sample.iter().map(|u| u.service_ns)),
                known: sample.len() >= FEWEST,
                missed: (hits * 2 > sample.len() && missed.len() >= FEWEST_MISSES)
                    .then(|| medians(&missed)),
                knows_missed,
            }
        };
        Baseline(by_op.into_iter().map(|(op, l)| (op, times(l))).collect())
    }

    /// From the median latency of all I/Os, where none was traced.
    pub fn of_medians(summary: &Summary) -> Baseline {
        let each = summary.ops.iter().filter_map(|(op, totals)| {
            Some(Baseline::of_median(*op, median_ns(&totals.latencies.service)?))
        });
        Baseline(each.flat_map(|one| one.0).collect())
    }

    /// From that of one kind of operation, ns.
    pub fn of_median(op: OpKind, service_ns: u64) -> Baseline {
        let mut times = Times { service_ns, known: true, ..Times::default() };
        times.usual.0[Phase::Unobserved as usize] = service_ns;
        Baseline(BTreeMap::from([(op, times)]))
    }

    /// Whether it is known what is usual for a kind of operation. Of waits it is: no wait at all.
    pub fn knows(&self, op: OpKind) -> bool {
        op == OpKind::Wait || self.0.get(&op).is_some_and(|times| times.known)
    }

    /// The usual times of a kind of operation.
    pub fn get(&self, op: OpKind) -> Phases {
        self.0.get(&op).copied().unwrap_or_default().usual
    }

    /// The usual latency of a kind of operation, ns.
    pub fn service_ns(&self, op: OpKind) -> u64 {
        self.0.get(&op).map_or(0, |times| times.service_ns)
    }

    /// The usual times of a read that the page cache cannot answer, where it answers most.
    pub fn missed(&self, op: OpKind) -> Option<Phases> {
        self.0.get(&op)?.missed
    }

    /// Whether these are known: what was kept for being slow says nothing of them either.
    pub fn knows_missed(&self, op: OpKind) -> bool {
        self.0.get(&op).is_some_and(|times| times.knows_missed)
    }
}

/// The median of this run's own I/Os, whichever percentiles were asked for.
fn median_ns(latency: &Latency) -> Option<u64> {
    latency.observed.as_ref().map(|own| own.p50_ns)
}

fn medians(list: &[&PhasedIo]) -> Phases {
    let mut phases = Phases::default();
    for (i, ns) in phases.0.iter_mut().enumerate() {
        *ns = median(list.iter().map(|u| u.phases.0[i]));
    }
    phases
}

/// The middle value, of two the smaller one: of a few I/Os the larger one is the slow one's. 0 of none.
fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    match values.len().checked_sub(1) {
        Some(last) => *values.select_nth_unstable(last / 2).1,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_for_being_slow_says_nothing_of_what_is_usual() {
        let io = |sample: bool, ns: u64| {
            let mut phases = Phases::default();
            phases.0[Phase::Device as usize] = ns;
            let (op, block) = (OpKind::Read, true);
            let (place, after_flush_ns) = (None, None);
            PhasedIo { op, service_ns: ns, sample, block, place, after_flush_ns, phases }
        };
        let of = |list: &[PhasedIo]| {
            let base = Baseline::of(list);
            let device = base.get(OpKind::Read).get(Phase::Device);
            assert_eq!(base.service_ns(OpKind::Read), device);
            (device, base.knows(OpKind::Read))
        };
        assert_eq!(of(&[]), (0, false));
        assert_eq!(of(&[io(false, 900); 100]), (0, false));
        assert_eq!(of(&[io(true, 900)]), (0, false));
        assert_eq!(of(&[io(true, 900), io(true, 100), io(false, 800)]), (100, false));
        let many = [vec![io(true, 100); FEWEST], vec![io(false, 900); 100]].concat();
        assert_eq!(of(&many), (100, true));
        assert!(Baseline::default().knows(OpKind::Wait));
    }

    #[test]
    fn the_median_is_known_where_other_percentiles_were_asked_for() {
        let latency = |observed: &str| -> Latency {
            let text = r#"{"count":3,"source":"capture","error":0,"percentiles":[],"nines":[]"#;
            serde_json::from_str(&format!("{text}{observed}}}")).unwrap()
        };
        let own = r#","observed":{"p50_ns":7,"p99_ns":9,"p99_9_ns":9,"max_ns":9}"#;
        assert_eq!(median_ns(&latency(own)), Some(7));
        assert_eq!(
            median_ns(&latency("")),
            None,
            "nothing was measured: no latency is the usual one"
        );
    }
}
