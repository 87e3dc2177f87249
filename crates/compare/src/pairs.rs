//! Pairs of runs, one of each side: the order in which sides take turns, the rule by which pairs are
//! dropped, and what a comparison of pairs has beside that of two sides. The method `ab` of
//! `taillight-suite` runs the pairs.

use taillight_rundir::Manifest;
use taillight_rundir::compare::{ComparedPairs, DroppedPair, GateStatus, PairsEnd};
use taillight_stats::compare::{FEWEST_PAIRS, LookPlan};

use crate::SideRun;

/// Time of the CPUs that the hypervisor gave to others, or that other programs took, from which a run does
/// not count, per cent.
const STOLEN_PERCENT: f64 = 5.0;
const OTHERS_PERCENT: f64 = 20.0;
/// Largest share of dropped pairs with which the others still say something.
const MOST_DROPPED: f64 = 0.2;

/// A pair.
#[derive(Debug, Clone)]
pub struct RunPair {
    pub base: SideRun,
    pub new: SideRun,
    /// Whether the run of base was the first.
    pub base_first: bool,
}

/// What was fixed before the first pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairPlan {
    /// Pairs at most.
    pub planned: u32,
    pub drop: DropRule,
}

/// By what a pair is dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DropRule {
    /// All count.
    None,
    /// The hypervisor took time.
    #[default]
    Stolen,
    /// That, or other programs did.
    Busy,
}

/// Whether base is the first of the pair with this number, from 1 up: ABBA BAAB BAAB ABBA ... (Thue and
/// Morse), so that what drifts evenly meets both sides alike.
pub fn base_first(pair: u32) -> bool {
    pair.wrapping_sub(1).count_ones().is_multiple_of(2)
}

impl DropRule {
    /// In words; none where all count.
    pub fn words(self) -> Option<String> {
        let stolen = format!(
            "during one of its runs the hypervisor took {STOLEN_PERCENT} % of the CPU time"
        );
        match self {
            DropRule::None => None,
            DropRule::Stolen => Some(stolen),
            DropRule::Busy => Some(format!("{stolen}, or other programs {OTHERS_PERCENT} %")),
        }
    }

    /// Why a run does not count, if so. Virtual time passes as it does whatever the machine does.
    fn disturbed(self, manifest: &Manifest) -> Option<String> {
        let during = manifest.environment.get("load")?.get("during")?;
        let share = |name: &str| during.get(name)?.as_f64();
        let (stolen, others) = (share("steal_percent"), share("others_percent"));
        if self == DropRule::None || manifest.clock.source == "virtual" {
            return None;
        }
        let id = &manifest.run_id;
        if let Some(share) = stolen.filter(|s| *s >= STOLEN_PERCENT) {
            return Some(format!("the hypervisor took {share:.1} % of the CPU during {id}"));
        }
        let others = others.filter(|s| self == DropRule::Busy && *s >= OTHERS_PERCENT)?;
        Some(format!("other programs took {others:.0} % of the CPUs during {id}"))
    }
}

impl PairPlan {
    /// The pairs that count, and what is said of all of them. `ended` is what it is before a gate is
    /// judged.
    pub(crate) fn sorted<'a>(&self, pairs: &'a [RunPair]) -> (Vec<&'a RunPair>, ComparedPairs) {
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for (number, pair) in (1..).zip(pairs) {
            let runs = [&pair.base.manifest, &pair.new.manifest];
            match runs.into_iter().find_map(|m| self.drop.disturbed(m)) {
                Some(why) => dropped.push(DroppedPair { pair: number, why }),
                None => kept.push(pair),
            }
        }
        let run = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
        let order = |pair: &RunPair| if pair.base_first { "ab" } else { "ba" };
        let said = ComparedPairs {
            planned: self.planned,
            run,
            order: pairs.iter().map(|pair| order(pair).to_owned()).collect(),
            ended: if run < self.planned { PairsEnd::Partial } else { PairsEnd::Planned },
            alpha: LookPlan::new(self.planned).alpha_after(run),
            rule: self.drop.words(),
            dropped,
        };
        (kept, said)
    }
}

/// Why pairs decide nothing, if they do not: there are too few, or too many were dropped.
pub(crate) fn why_undecided(pairs: &ComparedPairs) -> Option<String> {
    let dropped = pairs.dropped.len();
    let kept = pairs.run.saturating_sub(u32::try_from(dropped).unwrap_or(u32::MAX));
    if dropped as f64 > MOST_DROPPED * f64::from(pairs.run) {
        return Some(format!("{dropped} of {} pairs were dropped, more than a fifth", pairs.run));
    }
    (kept < FEWEST_PAIRS).then(|| "fewer than three pairs".to_owned())
}

/// How a series ended, given what its gate says: a decided gate ends it.
pub(crate) fn ended(pairs: &ComparedPairs, gate: Option<GateStatus>) -> PairsEnd {
    match (pairs.ended, gate) {
        (PairsEnd::Partial, Some(GateStatus::Pass | GateStatus::Fail)) => PairsEnd::Early,
        (ended, _) => ended,
    }
}
