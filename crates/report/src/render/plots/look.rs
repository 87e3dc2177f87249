//! How the lines of a run's operations and workloads look: colour, dash and legend group, alike in the charts that
//! ask here; and what is hidden together.

use taillight_core::OpKind;

use crate::model::charts::{ChartModel, RunCharts};
use crate::render::palette;

/// How one line is drawn.
#[derive(Debug, Clone)]
pub struct LineLook {
    /// Colour, `#RRGGBB`.
    pub colour: &'static str,
    /// Which line style (`palette::dash`).
    pub dash: usize,
    /// Legend group and its heading, when several runs are shown.
    pub group: Option<(String, String)>,
    /// Lines of one key are hidden and shown together; mostly `run|series`.
    pub key: String,
}

impl ChartModel {
    /// The colour of a run; of a comparison that of its side.
    pub fn hue(&self, run: usize) -> &'static str {
        match self.sides.get(run) {
            None => palette::of_run(run),
            Some(Some(side)) => palette::of_run(*side),
            // Of neither side.
            Some(None) => palette::HUES[6],
        }
    }

    /// Colour and line style of one operation of one run; `name` is that of its series.
    pub fn line_look(&self, run: usize, op: OpKind, name: &str) -> LineLook {
        let Some(data) = self.runs.get(run) else {
            return LineLook { colour: palette::HUES[6], dash: 0, group: None, key: String::new() };
        };
        let names = data.names();
        let nth = names.iter().position(|n| *n == name).unwrap_or(0);
        let several = self.runs.len() > 1;
        // Workloads that share an operation would share its colour: then names get the colours.
        let crowded = names.len() > data.ops().len();
        LineLook {
            colour: match (several, crowded) {
                (true, _) => self.hue(run),
                (false, true) => palette::of_run(nth),
                (false, false) => palette::of_op(op),
            },
            dash: if several { nth } else { 0 },
            group: several.then(|| (format!("{run}"), escape(&data.label))),
            key: format!("{run}|{name}"),
        }
    }
}

impl ChartModel {
    /// What `pick` finds in each run, with the number of the run.
    pub fn each<'a, T: 'a>(
        &'a self,
        pick: fn(&'a RunCharts) -> &'a [T],
    ) -> impl Iterator<Item = (usize, &'a T)> {
        let runs = self.runs.iter().enumerate();
        runs.flat_map(move |(run, data)| pick(data).iter().map(move |one| (run, one)))
    }

    /// Colour and line style of the `nth` workload of a run.
    pub fn look_of_workload(&self, run: usize, nth: usize) -> LineLook {
        let several = self.runs.len() > 1;
        let label = self.runs.get(run).map_or("", |data| data.label.as_str());
        LineLook {
            colour: if several { self.hue(run) } else { palette::of_run(nth) },
            dash: if several { nth } else { 0 },
            group: several.then(|| (format!("{run}"), escape(label))),
            key: format!("{run}|workload {nth}"),
        }
    }
}

/// Makes text safe where plotly would read markup.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace("%{", "% {")
}
