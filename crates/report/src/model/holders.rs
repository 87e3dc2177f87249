//! Who held the slow I/Os, over several runs: a row a run, a column a layer.

use serde::Serialize;

use super::AnalysedRun;
use crate::attribution::{Layer, LayerShare};
use crate::format;

/// Shares of outliers by layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HoldersTable {
    pub title: &'static str,
    /// Layers that held any outlier, those that held most first; what is unknown comes last.
    pub layers: Vec<String>,
    pub rows: Vec<HoldersRow>,
    /// Runs that are not in it, and why.
    pub note: Option<String>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HoldersRow {
    /// Its place among the runs.
    pub run: usize,
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
type Traced<'a> = (&'a [LayerShare], u64);

/// The table over the traced runs; none for a single run, or when none was traced.
pub fn holders(runs: &[AnalysedRun]) -> Option<HoldersTable> {
    let found = runs.iter().map(|run| run.explanation.as_ref());
    let found = found.map(|it| it.map(|it| (it.layers.as_slice(), it.outliers)));
    let named: Vec<_> = runs.iter().map(|run| run.label.as_str()).zip(found).collect();
    table(&named)
}

/// The same from each run's name, and its layers with the number of its outliers.
fn table(runs: &[(&str, Option<Traced<'_>>)]) -> Option<HoldersTable> {
    let traced = runs.iter().enumerate().filter_map(|(i, (_, found))| Some((i, (*found)?)));
    let all: Vec<(usize, Traced<'_>)> =
        traced.filter(|(_, (layers, outliers))| !layers.is_empty() && *outliers > 0).collect();
    if runs.len() < 2 || all.is_empty() {
        return None;
    }
    let share = |(layers, outliers): &Traced<'_>, layer: Layer| {
        let held = layers.iter().filter(|l| l.layer == layer).map(|l| l.outliers).sum::<u64>();
        held as f64 / *outliers as f64
    };
    let sum = |layer: Layer| all.iter().map(|(_, it)| share(it, layer)).sum::<f64>();
    let mut layers: Vec<Layer> =
        all.iter().flat_map(|(_, (layers, _))| *layers).map(|l| l.layer).collect();
    layers.sort_unstable();
    layers.dedup();
    layers.sort_by(|a, b| {
        let last = |l: &Layer| *l == Layer::Unknown;
        last(a).cmp(&last(b)).then(sum(*b).total_cmp(&sum(*a)))
    });
    let cell = |it: &Traced<'_>, layer: Layer| {
        let part = share(it, layer);
        let text = if part > 0.0 { format::percent(part) } else { String::new() };
        HoldersCell { text, percent: (part * 100.0).round() as u32 }
    };
    let row = |(run, it): &(usize, Traced<'_>)| HoldersRow {
        run: *run,
        cells: layers.iter().map(|layer| cell(it, *layer)).collect(),
        outliers: format::count(it.1),
    };
    let shown = |i: &usize| all.iter().any(|(run, _)| run == i);
    let missing: Vec<&str> = (0..runs.len()).filter(|i| !shown(i)).map(|i| runs[i].0).collect();
    Some(HoldersTable {
        title: "Who held the slow ones",
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
        let runs =
            [("a", Some((a.as_slice(), 10))), ("untraced", None), ("b", Some((b.as_slice(), 4)))];
        let made = table(&runs).unwrap();
        assert_eq!(made.layers, ["waiting for a CPU", "device", "unknown"]);
        let cells = |n: usize| made.rows[n].cells.iter().map(|c| c.percent).collect::<Vec<_>>();
        assert_eq!((cells(0), cells(1)), (vec![0, 40, 60], vec![75, 25, 0]));
        assert_eq!((made.rows[1].run, made.rows[0].cells[0].text.as_str()), (2, ""));
        assert!(made.note.unwrap().ends_with("untraced."));
        assert_eq!(table(&runs[..1]), None, "one run has its own section");
    }
}
