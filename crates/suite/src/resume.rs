//! What an earlier attempt at a series left: its complete points, which are read and not run again.
//!
//! What it is: the check that a point is complete and of the same plan, and which points must be run
//! again all the same because they make the state of a target that a later point needs. What it is
//! not: the salvage of a killed run (`taillight_rundir::salvage`). Called by the series runner.

use std::path::{Path, PathBuf};

use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_rundir::RunDir;
use taillight_rundir::series::{PointStatus, SeriesFile, SeriesPoint};

use crate::exit::{ends_series, from_code};
use crate::figures;
use crate::method::{Method, Next, Point, PointResult};

/// Whether a point needs no other run: it came to its end, and nothing ended the series with it. A
/// signal or a full disk while its results were written leaves a complete run that did.
pub(crate) fn is_done(point: &SeriesPoint) -> bool {
    let ended = point.exit.and_then(from_code).is_none_or(ends_series);
    point.status == PointStatus::Complete && !ended
}

/// The points of an earlier attempt.
pub(crate) struct Earlier {
    dir: PathBuf,
    points: Vec<SeriesPoint>,
    resumed: bool,
    /// The state of a shared target that has to be made again.
    lost_state: Option<u32>,
}

impl Earlier {
    pub fn new(file: Option<SeriesFile>, dir: &Path) -> Earlier {
        Earlier {
            dir: dir.to_owned(),
            resumed: file.is_some(),
            points: file.map(|f| f.points).unwrap_or_default(),
            lost_state: None,
        }
    }

    /// Whether the series is resumed.
    pub fn any(&self) -> bool {
        self.resumed
    }

    /// Follows the method over the complete points to the first one that is to be run: the state
    /// it needs was lost with the process. Errors: as [`Earlier::take`].
    pub fn replay(&mut self, method: &mut dyn Method) -> Result<()> {
        let mut done = Vec::new();
        while self.resumed
            && let Next::Point(point) = method.next(&done)?
        {
            match self.take(&point)? {
                Some(result) => done.push(result),
                None => {
                    self.lost_state = point.shared.map(|s| s.state);
                    break;
                }
            }
        }
        Ok(())
    }

    /// The result of a point that is complete already; none for one that is to be run. Errors:
    /// `Usage` when the job has changed since; `Corrupt` when the run cannot be read.
    pub fn take(&self, point: &Point) -> Result<Option<PointResult>> {
        let done = |p: &&SeriesPoint| p.id == point.id && is_done(p);
        let Some(entry) = self.points.iter().find(done) else {
            return Ok(None);
        };
        let lost = |s: &crate::method::SharedUse| s.prepares && Some(s.state) == self.lost_state;
        if point.shared.as_ref().is_some_and(lost) {
            return Ok(None);
        }
        let dir = self.dir.join(&entry.run);
        let run = RunDir::open(&dir)?;
        if normal(&run.manifest().plan) != normal(&point.plan) {
            return Err(Error::usage("the job is not the one this series began with")
                .with("point", &point.id)
                .with("series", self.dir.display())
                .hint("begin a new series, or undo the change"));
        }
        let summary = run.summary()?;
        Ok(Some(PointResult {
            point: point.clone(),
            dir,
            exit: entry.exit.and_then(from_code).unwrap_or(Exit::Internal),
            status: entry.status,
            values: summary.as_ref().map(figures::values).unwrap_or_default(),
            summary,
        }))
    }

    /// Gives a run directory that an earlier attempt did not finish another name, so that the point
    /// can be run again. Errors: `Unavailable` when it cannot be renamed.
    pub fn move_aside(&self, dir: &Path) -> Result<()> {
        if !self.resumed || !dir.exists() {
            return Ok(());
        }
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let numbered = |n: u32| dir.with_file_name(format!("{name}.earlier-{n}"));
        let other = (1..).map(numbered).find(|p| !p.exists());
        let other = other.ok_or_else(|| Error::internal("no free name"))?;
        std::fs::rename(dir, &other).map_err(|e| {
            Error::unavailable("cannot rename an unfinished run directory")
                .with("path", dir.display())
                .source(e)
        })
    }
}

/// A plan without what may differ between two attempts: where it goes, and the memory that was free.
fn normal(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.run.output = None;
    plan.capture.budget = taillight_core::units::ByteSize(0);
    plan
}
