//! The method `import`: plans that are all known beforehand, run one after another.
//!
//! What it is: the points of a list, in order, until one of them ends the series; independent ones
//! go on after a failed one and end with a signal only. What it is not:
//! the making of the plans, or a report; suites whose points are known beforehand use [`Sequence`]
//! and add theirs. Used by `taillight run` for the jobs of another benchmark's file.

use taillight_core::Result;
use taillight_core::exit::Exit;

use crate::exit::ends_series;
use crate::method::{
    Conclusion, Method, Next, Point, PointResult, SeriesHead, SeriesReport, SeriesView,
};

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

    fn report(&self, _: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        Ok(None)
    }
}
