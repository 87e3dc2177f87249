//! The method `import`: plans that are all known beforehand, run in order until one of them ends the series,
//! and a report over all; independent ones go on after a failed one and end with a signal only. Used by
//! `taillight run` for the jobs of another benchmark's file; suites whose points are known beforehand use
//! [`Sequence`] and say more of them.

use std::path::PathBuf;

use taillight_core::Result;
use taillight_core::exit::Exit;
use taillight_report::{ReportContext, ReportSummary};
use taillight_rundir::names;

use crate::exit::ends_series;
use crate::method::{
    Conclusion, Method, Next, Point, PointResult, SeriesHead, SeriesReport, SeriesView,
};
use crate::saved::MOST_IN_FULL;
use crate::suites::load_ns;

/// Its name in `series.json`.
pub const IMPORT: &str = "import";

/// Points in order.
pub struct Sequence {
    head: SeriesHead,
    points: Vec<Point>,
    independent: bool,
}

impl Sequence {
    /// `head.planned` is made from the points.
    pub fn new(head: SeriesHead, points: Vec<Point>) -> Sequence {
        let planned = points.iter().map(|p| p.id.clone()).collect();
        Sequence { head: SeriesHead { planned, ..head }, points, independent: false }
    }

    /// Points that do not need each other: one whose target failed says nothing about the next.
    pub fn independent(head: SeriesHead, points: Vec<Point>) -> Sequence {
        Sequence { independent: true, ..Sequence::new(head, points) }
    }
}

impl Method for Sequence {
    fn head(&self) -> &SeriesHead {
        &self.head
    }

    fn next(&mut self, done: &[PointResult]) -> Result<Next> {
        let ended = done.last().is_some_and(|r| self.ended_by(r));
        let next = self.points.get(done.len()).filter(|_| !ended);
        Ok(next.map_or(Next::End, |point| Next::Point(Box::new(point.clone()))))
    }

    fn ended_by(&self, result: &PointResult) -> bool {
        match self.independent {
            true => matches!(result.exit, Exit::Interrupted | Exit::Terminated),
            false => ends_series(result.exit),
        }
    }

    fn record(&mut self, _: &SeriesView<'_>) -> Result<Conclusion> {
        Ok(Conclusion::default())
    }

    fn left_ns(&self, done: &[PointResult]) -> Option<(u128, u128)> {
        let left = self.points.iter().skip(done.len()).map(|point| load_ns(&point.plan));
        left.sum::<Option<u128>>().map(|ns| (ns, ns))
    }

    /// One page over all points, and its answer with its table on the console.
    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        let runs: Vec<PathBuf> = series.done.iter().map(|r| r.dir.clone()).collect();
        let links = |dir: &PathBuf| {
            let inside = dir.strip_prefix(series.dir).unwrap_or(dir);
            inside.join(names::REPORT).to_string_lossy().into_owned()
        };
        let context = ReportContext {
            title: Some(self.head.job.clone()),
            summary: (runs.len() > MOST_IN_FULL).then(|| ReportSummary {
                links: runs.iter().map(links).collect(),
                ..ReportSummary::default()
            }),
            ..ReportContext::default()
        };
        Ok(Some(SeriesReport { context, runs, show_text: true, ..SeriesReport::default() }))
    }
}
