//! Which layers held the slow I/Os: a row for each run, a column for each layer.

use serde::Serialize;
use taillight_core::plan::{TraceMode, rank_name};
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::trace_info::TracingBackend;

use super::{AnalysedRun, sentences};
use crate::format;
use taillight_explain::{Layer, LayerShare, headline};

/// Shares of outliers by layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HoldersTable {
    /// Of one run: the same in a sentence.
    pub said: Option<String>,
    /// Layers that held any outlier, those that held most first; what is unknown comes last.
    pub layers: Vec<String>,
    pub rows: Vec<HoldersRow>,
    /// Runs that are not in it, and why; why there is none at all. On the first screen of one run, who was in the way and
    /// what to do next.
    pub note: Option<String>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HoldersRow {
    /// Its place among the runs, where each has a row.
    pub run: usize,
    pub name: String,
    pub cells: Vec<HoldersCell>,
    /// How many there are in all.
    pub outliers: String,
}

/// One layer of one run; no text where it held nothing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HoldersCell {
    pub text: String,
    /// Share of the run's outliers.
    pub percent: u32,
}

/// The layers of a traced run, and how many outliers it has.
type Traced = (Vec<LayerShare>, u64);

/// The table over the runs, always there where there is a run; `together` makes one row of all.
pub fn holders(runs: &[AnalysedRun], together: bool) -> Option<HoldersTable> {
    let mut named = named(runs);
    if together && named.len() > 1 {
        named = vec![("all runs".to_owned(), sum(named))];
    }
    let said = match runs {
        [one] => one.explanation.as_ref().and_then(|it| sentences(it).into_iter().next()),
        _ => None,
    };
    let made = table(&named, untraced(runs))?;
    let note = made.note.clone().filter(|_| said.is_none());
    Some(HoldersTable { said, note, ..made })
}

/// The same for the first screen: two sides of a comparison or up to three traced runs have a row each, more runs one
/// together.
pub fn held(runs: &[AnalysedRun], sides: &[Option<usize>]) -> Option<HoldersTable> {
    let named = named(runs);
    let of = |side: usize| -> Vec<(String, Option<Traced>)> {
        let both = named.iter().zip(sides);
        both.filter(|(_, its)| **its == Some(side)).map(|(run, _)| run.clone()).collect()
    };
    let traced = named.iter().filter(|(_, found)| found.is_some()).count();
    let rows = match traced {
        _ if sides.iter().any(Option::is_some) => {
            [(0, "base"), (1, "new")].map(|(side, name)| (name.to_owned(), sum(of(side)))).to_vec()
        }
        0..=FEW => named,
        n => vec![(format!("{n} runs together"), sum(named))],
    };
    let mut made = table(&rows, untraced(runs))?;
    if let ([one], true) = (runs, made.note.is_none()) {
        let said = one.explanation.as_ref().map(headline).unwrap_or_default();
        made.note = Some(said.join(" ")).filter(|said| !said.is_empty());
    }
    Some(made)
}

/// Runs with a row each on the first screen.
const FEW: usize = 3;

/// Each run with what was seen of it.
fn named(runs: &[AnalysedRun]) -> Vec<(String, Option<Traced>)> {
    let found = |run: &AnalysedRun| {
        let it = run.explanation.as_ref()?;
        let seen = it.info.backend != TracingBackend::None && it.tells();
        seen.then(|| (it.layers.clone(), it.outliers))
    };
    runs.iter().map(|run| (run.shown.clone(), found(run))).collect()
}

/// Why nothing is known: it was not asked for, it was not possible, or there is nothing to know.
fn untraced(runs: &[AnalysedRun]) -> String {
    let asked = runs.iter().find_map(|run| run.explanation.as_ref());
    if let Some(why) = asked.and_then(|it| sentences(it).into_iter().next()) {
        return why;
    }
    if runs.iter().all(|run| run.summary.origin.imported().is_some()) {
        return "Not known: the result of another tool does not say which layer held the slow I/Os."
            .to_owned();
    }
    if runs.iter().all(|run| run.summary.origin.is_watched()) {
        return "Not known: the watch did not end by itself, and what it had seen of layers is lost.".to_owned();
    }
    let in_ranks = |run: &AnalysedRun| {
        let merged = matches!(run.summary.origin, RunOrigin::Merged { .. });
        merged && run.analysis.manifest.plan.trace.mode != TraceMode::Off
    };
    if runs.iter().all(in_ranks) {
        let rank = rank_name(0);
        return format!(
            "In the directory of each rank: `taillight explain RUN/{rank}` shows who held its slow ones."
        );
    }
    match runs.iter().all(|run| run.analysis.manifest.clock.source == "virtual") {
        true => "A simulated target has no layers below it: nobody held these I/Os.".to_owned(),
        false => {
            let again = match runs.len() {
                1 => "The same command",
                _ => "Each run once more",
            };
            format!(
                "Not traced: which layer held the slow I/Os is unknown. {again} with `--trace outliers` tells it."
            )
        }
    }
}

/// Layers and outliers of all traced runs; none where none was.
fn sum(runs: Vec<(String, Option<Traced>)>) -> Option<Traced> {
    let mut all: Option<Traced> = None;
    for (layers, outliers) in runs.into_iter().filter_map(|(_, found)| found) {
        let (sum, count) = all.get_or_insert_default();
        *count += outliers;
        for share in layers {
            match sum.iter_mut().find(|l| l.layer == share.layer) {
                Some(known) => known.outliers += share.outliers,
                None => sum.push(share),
            }
        }
    }
    all
}

/// The same from each run's name, and its layers with the number of its outliers.
fn table(runs: &[(String, Option<Traced>)], untraced: String) -> Option<HoldersTable> {
    if runs.is_empty() {
        return None;
    }
    let traced = runs.iter().enumerate().filter_map(|(i, (_, found))| Some((i, found.as_ref()?)));
    let all: Vec<(usize, &Traced)> =
        traced.filter(|(_, (layers, outliers))| !layers.is_empty() && *outliers > 0).collect();
    if all.is_empty() {
        let note = match names(runs, true).as_str() {
            "" => untraced,
            _ if names(runs, false).is_empty() => {
                "No I/O was slow enough to be an outlier.".to_owned()
            }
            of => format!(
                "No I/O of {of} was slow enough to be an outlier; {} was not traced.",
                names(runs, false)
            ),
        };
        return Some(HoldersTable { note: Some(note), ..HoldersTable::default() });
    }
    let share = |(layers, outliers): &Traced, layer: Layer| {
        let held = layers.iter().filter(|l| l.layer == layer).map(|l| l.outliers).sum::<u64>();
        held as f64 / *outliers as f64
    };
    let sum = |layer: Layer| all.iter().map(|(_, it)| share(it, layer)).sum::<f64>();
    let mut layers: Vec<Layer> =
        all.iter().flat_map(|(_, (layers, _))| layers).map(|l| l.layer).collect();
    layers.sort_unstable();
    layers.dedup();
    layers.sort_by(|a, b| {
        let last = |l: &Layer| *l == Layer::Unknown;
        last(a).cmp(&last(b)).then(sum(*b).total_cmp(&sum(*a)))
    });
    let cell = |it: &Traced, layer: Layer| {
        let part = share(it, layer);
        let text = if part > 0.0 { format::percent(part) } else { String::new() };
        HoldersCell { text, percent: (part * 100.0).round() as u32 }
    };
    let row = |(run, it): &(usize, &Traced)| HoldersRow {
        run: *run,
        name: runs[*run].0.clone(),
        cells: layers.iter().map(|layer| cell(it, *layer)).collect(),
        outliers: format::count(it.1),
    };
    let calm = |(i, (_, found)): &(usize, &(String, Option<Traced>))| {
        found.is_some() && all.iter().all(|(run, _)| run != i)
    };
    let calm = runs.iter().enumerate().filter(calm).map(|(_, (name, _))| name.as_str());
    let missing = [
        ("Not traced", names(runs, false)),
        ("Without an outlier", calm.collect::<Vec<_>>().join(", ")),
    ];
    let missing = missing.into_iter().filter(|(_, names)| !names.is_empty());
    let missing: Vec<String> = missing.map(|(what, names)| format!("{what}: {names}.")).collect();
    Some(HoldersTable {
        said: None,
        rows: all.iter().map(row).collect(),
        layers: layers.iter().map(|l| l.words().to_owned()).collect(),
        note: (!missing.is_empty()).then(|| missing.join(" ")),
    })
}

/// Names of the runs that were traced, or that were not.
fn names(runs: &[(String, Option<Traced>)], traced: bool) -> String {
    let of = runs.iter().filter(|(_, found)| found.is_some() == traced);
    of.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_that_held_most_comes_first_and_what_is_unknown_last() {
        let share = |layer, outliers| LayerShare { layer, outliers, excess_ns: 1, sure: 0 };
        let a = vec![share(Layer::Unknown, 6), share(Layer::Device, 4)];
        let b = vec![share(Layer::Cpu, 3), share(Layer::Device, 1)];
        let named = |name: &str, found| (name.to_owned(), found);
        let runs = [named("a", Some((a, 10))), named("untraced", None), named("b", Some((b, 4)))];
        let made = table(&runs, "nobody looked".to_owned()).unwrap();
        assert_eq!(made.layers, ["waiting for a CPU", "device", "unknown"]);
        let cells = |n: usize| made.rows[n].cells.iter().map(|c| c.percent).collect::<Vec<_>>();
        assert_eq!((cells(0), cells(1)), (vec![0, 40, 60], vec![75, 25, 0]));
        assert_eq!((made.rows[1].run, made.rows[0].cells[0].text.as_str()), (2, ""));
        assert_eq!(made.note.unwrap(), "Not traced: untraced.");
        let calm = [named("calm", Some((Vec::new(), 0))), named("untraced", None)];
        let said = table(&calm, "nobody looked".to_owned()).unwrap().note.unwrap();
        assert_eq!(
            said,
            "No I/O of calm was slow enough to be an outlier; untraced was not traced."
        );
        let one = table(&runs[..1], "nobody looked".to_owned()).unwrap();
        assert_eq!((one.rows.len(), one.note), (1, None));
        let none = table(&runs[1..2], "nobody looked".to_owned()).unwrap();
        assert_eq!((none.rows.len(), none.note.as_deref()), (0, Some("nobody looked")));
        let all = sum(runs.to_vec()).unwrap();
        assert_eq!((all.1, all.0.iter().map(|l| l.outliers).sum::<u64>()), (14, 14));
    }
}
