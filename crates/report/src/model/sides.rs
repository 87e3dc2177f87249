//! What only the I/Os of two sides tell: where the time of one goes more than of the other, and how often
//! I/Os were slow together.

use taillight_core::{LatencyKind, OpKind, Percentile};
use taillight_rundir::compare::{
    CompareFile, CompareVerdict, ComparedEpisodes, ComparedPhases, EpisodeCount, PhaseDifference,
};
use taillight_rundir::latency::NineEntry;
use taillight_stats::compare::rate_ratio;
use taillight_stats::episodes::DEFAULT_GAP_NS;
use taillight_stats::group_episodes;

use super::AnalysedRun;
use crate::analyse::dists::headline_kind;
use crate::analyse::{KEPT, SlowestIos};
use crate::format;
use crate::table::{Cell, Table};
use taillight_explain::{Explanation, Phase, PhaseLevel};

/// What is found out from the I/Os of two sides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SideDetails {
    pub phases: Vec<ComparedPhases>,
    pub episodes: Vec<ComparedEpisodes>,
    /// Why phases are not there, where some run was traced.
    pub untraced: Option<String>,
}

/// Which side each run is of, 0 that of base, and its place there; none of a run of neither, such as one
/// whose pair is not complete.
pub fn sides_of<'a>(
    ids: impl Iterator<Item = &'a str>,
    found: &CompareFile,
) -> Vec<Option<(usize, usize)>> {
    let sides = [&found.base, &found.new];
    let place = |id: &str| {
        let at = |side: usize| sides[side].iter().position(|run| run.run_id == id);
        (0..sides.len()).find_map(|side| Some((side, at(side)?)))
    };
    ids.map(place).collect()
}

/// What the I/Os of these runs tell about the sides of `found`.
pub fn side_details(runs: &[AnalysedRun], found: &CompareFile) -> SideDetails {
    let sides = sides_of(runs.iter().map(|run| run.summary.run_id.as_str()), found);
    let of = |side: usize| -> Vec<&AnalysedRun> {
        let all = runs.iter().zip(&sides);
        all.filter(|(_, it)| it.is_some_and(|it| it.0 == side)).map(|(run, _)| run).collect()
    };
    let (base, new) = (&of(0)[..], &of(1)[..]);
    if base.is_empty() || new.is_empty() {
        return SideDetails::default();
    }
    let explained = |side: &[&AnalysedRun]| side.iter().all(|run| levels(run).is_some());
    let any = runs.iter().any(|run| run.explanation.is_some());
    let both = explained(base) && explained(new);
    let untraced = (any && !both).then(|| {
        "Not every run of both sides was traced: by layer the difference is unknown.".to_owned()
    });
    let phases = if both { phases(base, new) } else { Vec::new() };
    SideDetails { phases, episodes: episodes(base, new), untraced }
}

fn levels(run: &AnalysedRun) -> Option<&[PhaseLevel]> {
    let explanation: &Explanation = run.explanation.as_ref()?;
    Some(explanation.levels.as_slice()).filter(|levels| !levels.is_empty())
}

/// Percentiles that every run has levels of.
fn phases(base: &[&AnalysedRun], new: &[&AnalysedRun]) -> Vec<ComparedPhases> {
    let of = |run: &AnalysedRun, op: OpKind, p: &str| {
        levels(run)?.iter().find(|l| l.op == op && l.p == p).cloned()
    };
    let side = |side: &[&AnalysedRun], op: OpKind, p: &str| -> Option<Vec<PhaseLevel>> {
        side.iter().map(|run| of(run, op, p)).collect()
    };
    let all = base.first().and_then(|run| levels(run)).unwrap_or(&[]).iter();
    all.filter_map(|level| {
        let a = side(base, level.op, level.p)?;
        let b = side(new, level.op, level.p)?;
        Some(compared_phases(&a, &b))
    })
    .collect()
}

/// One percentile of both sides, of at least one run each.
fn compared_phases(base: &[PhaseLevel], new: &[PhaseLevel]) -> ComparedPhases {
    fn mean(side: &[PhaseLevel], of: impl Fn(&PhaseLevel) -> u64) -> f64 {
        side.iter().map(|level| of(level) as f64).sum::<f64>() / side.len() as f64
    }
    let phase = |phase: Phase| PhaseDifference {
        phase: phase.name().to_owned(),
        base_ns: mean(base, |level| level.phases.get(phase)),
        new_ns: mean(new, |level| level.phases.get(phase)),
    };
    let mut phases: Vec<PhaseDifference> = Phase::ALL.map(phase).to_vec();
    phases.retain(|it| it.base_ns > 0.0 || it.new_ns > 0.0);
    phases.sort_by(|a, b| more(b).abs().total_cmp(&more(a).abs()));
    ComparedPhases {
        op: base[0].op,
        p: base[0].p.to_owned(),
        base_ns: mean(base, |level| level.ns),
        new_ns: mean(new, |level| level.ns),
        base_ios: base.iter().map(|level| level.ios).sum(),
        new_ios: new.iter().map(|level| level.ios).sum(),
        phases,
    }
}

fn more(phase: &PhaseDifference) -> f64 {
    phase.new_ns - phase.base_ns
}

fn episodes(base: &[&AnalysedRun], new: &[&AnalysedRun]) -> Vec<ComparedEpisodes> {
    let Some(first) = base.first() else { return Vec::new() };
    let ops = first.summary.ops.keys().copied().filter(|op| !op.is_part());
    ops.filter_map(|op| episodes_of(op, base, new)).collect()
}

fn episodes_of(
    op: OpKind,
    base: &[&AnalysedRun],
    new: &[&AnalysedRun],
) -> Option<ComparedEpisodes> {
    let (p, above_ns) = threshold(op, base)?;
    let (a, b) = (counted(op, base, above_ns)?, counted(op, new, above_ns)?);
    let found = rate_ratio((a.episodes, a.seconds), (b.episodes, b.seconds));
    let finite = |v: f64| Some(v).filter(|v| v.is_finite());
    Some(ComparedEpisodes {
        op,
        above_ns,
        p: p.to_string(),
        base: a,
        new: b,
        ratio: found.and_then(|f| finite(f.0)),
        lo: found.and_then(|f| finite(f.1)),
        hi: found.and_then(|f| finite(f.2)),
    })
}

/// The last nine but one that every run of base resolves, and the median of the runs' latencies there.
fn threshold(op: OpKind, base: &[&AnalysedRun]) -> Option<(Percentile, u64)> {
    fn nines(run: &AnalysedRun, op: OpKind) -> Option<&[NineEntry]> {
        Some(&run.summary.ops.get(&op)?.latencies.main().nines)
    }
    let deepest = |run: &AnalysedRun| {
        nines(run, op)?.iter().filter(|nine| nine.ns.is_some()).map(|nine| nine.k).max()
    };
    let k = base.iter().map(|run| deepest(run)).collect::<Option<Vec<_>>>()?.into_iter().min()?;
    let k = k.checked_sub(1).filter(|k| *k > 0)?;
    let at = |run: &AnalysedRun| nines(run, op)?.iter().find(|nine| nine.k == k)?.ns;
    let mut values: Vec<u64> = base.iter().map(|run| at(run)).collect::<Option<_>>()?;
    values.sort_unstable();
    Some((Percentile::nines(u8::try_from(k).ok()?)?, values[values.len() / 2]))
}

/// Episodes of the I/Os above `above_ns` in the runs of a side; none where slow I/Os are not known one by one.
fn counted(op: OpKind, side: &[&AnalysedRun], above_ns: u64) -> Option<EpisodeCount> {
    let mut sum = EpisodeCount::default();
    for run in side {
        let groups = run.analysis.groups.iter().filter(|group| group.op == op);
        // The slowest are known by response time.
        if groups.clone().any(|g| headline_kind(&g.latencies) == LatencyKind::EndToEnd) {
            return None;
        }
        let slowest = SlowestIos::merged(groups.map(|group| &group.slowest));
        let slow = slowest.kept_above(above_ns);
        let count = run.summary.ops.get(&op)?.count;
        // All that is kept is slow, and there are more: how many episodes they make is unknown.
        if slow.len() == KEPT || (slow.is_empty() && count > 0 && slowest.span_ns() == 0) {
            return None;
        }
        let found = group_episodes(&slow, DEFAULT_GAP_NS);
        sum.episodes += found.list().len() as u64;
        sum.ios += found.exceedances();
        sum.largest = sum.largest.max(found.largest().map_or(0, |episode| episode.count));
        sum.seconds += run.analysis.duration_ns as f64 / 1e9;
    }
    Some(sum)
}

/// The two tables, those that have a row.
pub fn side_tables(found: &SideDetails) -> Vec<Table> {
    let mut tables = Vec::new();
    if !found.phases.is_empty() {
        let columns = ["service time", "base", "new", "difference", "I/Os", "of it"];
        let mut table = Table::of_words("layers", "Where the difference lies", &columns);
        table.rows = found.phases.iter().map(phase_row).collect();
        table.note =
            Some("Mean phases of the traced I/Os within 5 % of each percentile, so many on each side; few say little.".to_owned());
        tables.push(table);
    }
    if !found.episodes.is_empty() {
        let columns = ["I/Os slower than", "base", "new", "episodes, new over base"];
        let mut table = Table::of_words("episodes", "Episodes of slow I/Os", &columns);
        table.rows = found.episodes.iter().map(episode_row).collect();
        table.note = Some(
            "Slow I/Os no further apart than 10 ms are one episode. The 95 % interval takes episodes for \
             independent and says nothing of how runs vary."
                .to_owned(),
        );
        tables.push(table);
    }
    tables
}

/// `+1.70 ms`.
fn difference(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "+" };
    format!("{sign}{}", format::duration(ns.abs()))
}

fn phase_label(phase: &str) -> &str {
    Phase::ALL.into_iter().find(|p| p.name() == phase).map_or(phase, |p| p.words())
}

/// Phases with at least a twentieth of the difference.
fn main_phases(it: &ComparedPhases) -> impl Iterator<Item = &PhaseDifference> {
    let least = (it.new_ns - it.base_ns).abs() / 20.0;
    it.phases.iter().filter(move |phase| more(phase).abs() >= least.max(1.0))
}

fn phase_row(it: &ComparedPhases) -> Vec<Cell> {
    let time = |ns: f64| format::duration(ns);
    let parts =
        main_phases(it).map(|p| format!("{} {}", phase_label(&p.phase), difference(more(p))));
    let cells = [
        format!("{} p{}", it.op.name(), it.p),
        time(it.base_ns),
        time(it.new_ns),
        difference(it.new_ns - it.base_ns),
        format!("{}, {}", format::count(it.base_ios), format::count(it.new_ios)),
        parts.collect::<Vec<_>>().join(", "),
    ];
    cells.map(Cell::new).to_vec()
}

fn episode_row(it: &ComparedEpisodes) -> Vec<Cell> {
    let side = |count: &EpisodeCount| {
        format!(
            "{} in {}, {} I/Os, largest {}",
            format::counted(count.episodes, "episode"),
            format::duration(count.seconds * 1e9),
            format::count(count.ios),
            format::count(count.largest)
        )
    };
    let ratio = match (it.ratio, it.lo) {
        (Some(ratio), Some(lo)) => {
            let hi = it.hi.map_or("unknown".to_owned(), format::factor);
            format!("{} ({} to {hi})", format::factor(ratio), format::factor(lo))
        }
        (None, Some(lo)) => format!("at least {}", format::factor(lo)),
        _ => "-".to_owned(),
    };
    let above = format::duration_ns(it.above_ns);
    let cells = [
        format!("{} {above} (p{} of base)", it.op.name(), it.p),
        side(&it.base),
        side(&it.new),
        ratio,
    ];
    cells.map(Cell::new).to_vec()
}

/// One sentence about the deepest percentile that is shown to differ: "Of the 1.90 ms more at read p99.9
/// (service time), 1.70 ms are: device." Else why that is not known, where some run was traced.
pub fn side_words(details: &SideDetails, found: &CompareFile) -> Option<String> {
    let told = details.phases.iter().rev().filter(|it| differs(it, found)).find_map(phase_sentence);
    told.or_else(|| details.untraced.clone())
}

/// Whether the comparison claims a difference in this direction.
fn differs(it: &ComparedPhases, found: &CompareFile) -> bool {
    let name = format!("p{}", it.p);
    let figure = found.figures.iter().find(|f| f.op == it.op && f.figure == name);
    figure.is_some_and(|f| {
        let claimed = matches!(f.verdict, CompareVerdict::Worse | CompareVerdict::Better);
        claimed && f.ratio.is_some_and(|ratio| (ratio > 1.0) == (it.new_ns > it.base_ns))
    })
}

fn phase_sentence(it: &ComparedPhases) -> Option<String> {
    let all = it.new_ns - it.base_ns;
    let first = main_phases(it).next()?;
    let time = |ns: f64| format::duration(ns.abs());
    let way = if all > 0.0 { "more" } else { "less" };
    let at = format!("{} p{} (service time)", it.op.name(), it.p);
    // What is larger than the whole, or goes the other way, is no part of it.
    Some(match more(first) / all {
        part if (0.0..=1.05).contains(&part) => format!(
            "Of the {} {way} at {at}, {} are: {}.",
            time(all),
            time(more(first)),
            phase_label(&first.phase)
        ),
        _ => {
            let sign = |ns: f64| if ns < 0.0 { "-" } else { "+" };
            let parts = main_phases(it).take(3).map(|phase| {
                let ns = more(phase);
                format!("{} {}{}", phase_label(&phase.phase), sign(ns), time(ns))
            });
            let parts = parts.collect::<Vec<_>>().join(", ");
            format!("At {at} new takes {} {way}: {parts}.", time(all))
        }
    })
}

#[cfg(test)]
mod tests {
    use taillight_rundir::compare::ComparedRun;

    use super::*;
    use taillight_explain::Phases;

    fn level(ns: u64, parts: &[(Phase, u64)]) -> PhaseLevel {
        let mut phases = Phases::default();
        parts.iter().for_each(|(phase, ns)| phases.0[*phase as usize] = *ns);
        PhaseLevel { op: OpKind::Read, p: "99.9", ns, ios: 9, phases }
    }

    #[test]
    fn the_layer_that_makes_the_difference_is_named_first() {
        let base = [
            level(2_000_000, &[(Phase::Device, 1_900_000), (Phase::Cpu, 100_000)]),
            level(2_200_000, &[(Phase::Device, 2_100_000), (Phase::Cpu, 100_000)]),
        ];
        let new = [level(4_000_000, &[(Phase::Device, 2_200_000), (Phase::FileSystem, 1_800_000)])];
        let it = compared_phases(&base, &new);
        assert_eq!((it.base_ns, it.new_ns), (2_100_000.0, 4_000_000.0));
        let names: Vec<&str> = it.phases.iter().map(|p| p.phase.as_str()).collect();
        assert_eq!(names, ["file_system", "device", "cpu"]);
        let found = SideDetails { phases: vec![it], ..SideDetails::default() };
        let said = phase_sentence(&found.phases[0]).expect("a sentence");
        assert_eq!(
            said,
            "Of the 1.90 ms more at read p99.9 (service time), 1.80 ms are: file system."
        );
        let table = &side_tables(&found)[0];
        assert!(table.rows[0][5].text.starts_with("file system +1.80 ms, device +200 us"));
    }

    #[test]
    fn runs_find_their_side_by_id() {
        let run = |id: &str| ComparedRun { run_id: id.to_owned(), dir: String::new() };
        let base = vec![run("a"), run("b")];
        let found: CompareFile = serde_json::from_value(serde_json::json!({
            "schema": 1, "taillight": "", "base": base, "new": [run("c"), run("d")],
            "comparable": {"verdict": "yes", "reasons": []}, "unit": "runs", "figures": []
        }))
        .expect("a comparison");
        let sides = |ids: [&str; 4]| sides_of(ids.into_iter(), &found);
        let at = |side, nth| Some((side, nth));
        assert_eq!(sides(["a", "b", "c", "d"]), [at(0, 0), at(0, 1), at(1, 0), at(1, 1)]);
        assert_eq!(sides(["a", "c", "d", "b"]), [at(0, 0), at(1, 0), at(1, 1), at(0, 1)]);
        assert_eq!(sides(["a", "c", "x", "b"])[2], None);
    }

    /// More than all of the difference is no part of it.
    #[test]
    fn phases_that_go_both_ways_are_listed() {
        let base = [level(4_000_000, &[(Phase::Device, 3_000_000), (Phase::Cpu, 1_000_000)])];
        let new = [level(4_300_000, &[(Phase::Device, 1_100_000), (Phase::Cpu, 3_200_000)])];
        assert_eq!(
            phase_sentence(&compared_phases(&base, &new)).expect("a sentence"),
            "At read p99.9 (service time) new takes 300 us more: waiting for a CPU +2.20 ms, \
             device -1.90 ms."
        );
    }

    #[test]
    fn episodes_of_one_side_alone_have_a_lower_end_only() {
        let count = |episodes| EpisodeCount { episodes, ios: 9, largest: 4, seconds: 60.0 };
        let it = ComparedEpisodes {
            op: OpKind::Read,
            above_ns: 10_000_000,
            p: "99.9".to_owned(),
            base: count(0),
            new: count(5),
            ratio: None,
            lo: Some(1.2),
            hi: None,
        };
        assert_eq!(episode_row(&it)[3].text, "at least 1.20");
    }
}
