//! Who held the slow I/Os: a row a run, a column a layer.

use serde::Serialize;
use taillight_rundir::trace_info::TracingBackend;

use super::{AnalysedRun, labels, sentences};
use crate::attribution::{Layer, LayerShare};
use crate::format;

/// Shares of outliers by layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HoldersTable {
    /// Of one run: the same in a sentence.
    pub said: Option<String>,
    /// Layers that held any outlier, those that held most first; what is unknown comes last.
    pub layers: Vec<String>,
    pub rows: Vec<HoldersRow>,
    /// Runs that are not in it, and why; why there is none at all.
    pub note: Option<String>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HoldersRow {
    /// Its place among the runs.
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
    let found = |run: &AnalysedRun| {
        let it = run.explanation.as_ref()?;
        if it.info.backend == TracingBackend::None {
            return None;
        }
        Some((it.layers.clone(), it.outliers))
    };
    let label = |run: &AnalysedRun| labels::run(&run.label);
    let mut named: Vec<(String, Option<Traced>)> =
        runs.iter().map(|run| (label(run), found(run))).collect();
    if together && named.len() > 1 {
        named = vec![("all runs".to_owned(), sum(named))];
    }
    let said = match runs {
        [one] => one.explanation.as_ref().and_then(|it| sentences(it).into_iter().next()),
        _ => None,
    };
    let is_virtual = runs.iter().all(|run| run.analysis.manifest.clock.source == "virtual");
    let untraced = match is_virtual {
        true => "A simulated target has no layers below it: nobody held these I/Os.",
        false => {
            "Not traced: which layer held the slow I/Os is unknown. The same command with \
             `--trace outliers` tells it."
        }
    };
    let made = table(&named, untraced)?;
    let note = made.note.clone().filter(|_| said.is_none());
    Some(HoldersTable { said, note, ..made })
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
fn table(runs: &[(String, Option<Traced>)], untraced: &str) -> Option<HoldersTable> {
    if runs.is_empty() {
        return None;
    }
    let traced = runs.iter().enumerate().filter_map(|(i, (_, found))| Some((i, found.as_ref()?)));
    let all: Vec<(usize, &Traced)> =
        traced.filter(|(_, (layers, outliers))| !layers.is_empty() && *outliers > 0).collect();
    if all.is_empty() {
        let note = match runs.iter().any(|(_, found)| found.is_some()) {
            true => "No I/O was slow enough to be an outlier.",
            false => untraced,
        };
        return Some(HoldersTable { note: Some(note.to_owned()), ..HoldersTable::default() });
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
    let shown = |i: &usize| all.iter().any(|(run, _)| run == i);
    let missing: Vec<&str> =
        (0..runs.len()).filter(|i| !shown(i)).map(|i| runs[i].0.as_str()).collect();
    Some(HoldersTable {
        said: None,
        rows: all.iter().map(row).collect(),
        layers: layers.iter().map(|l| l.words().to_owned()).collect(),
        note: (!missing.is_empty())
            .then(|| format!("Not traced, or without an outlier: {}.", missing.join(", "))),
    })
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
        let made = table(&runs, "nobody looked").unwrap();
        assert_eq!(made.layers, ["waiting for a CPU", "device", "unknown"]);
        let cells = |n: usize| made.rows[n].cells.iter().map(|c| c.percent).collect::<Vec<_>>();
        assert_eq!((cells(0), cells(1)), (vec![0, 40, 60], vec![75, 25, 0]));
        assert_eq!((made.rows[1].run, made.rows[0].cells[0].text.as_str()), (2, ""));
        assert!(made.note.unwrap().ends_with("untraced."));
        let one = table(&runs[..1], "nobody looked").unwrap();
        assert_eq!((one.rows.len(), one.note), (1, None));
        let none = table(&runs[1..2], "nobody looked").unwrap();
        assert_eq!((none.rows.len(), none.note.as_deref()), (0, Some("nobody looked")));
        let all = sum(runs.to_vec()).unwrap();
        assert_eq!((all.1, all.0.iter().map(|l| l.outliers).sum::<u64>()), (14, 14));
    }
}
