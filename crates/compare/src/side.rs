//! The runs of one side: which run directories a path stands for, and what is read of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use taillight_core::{Error, OpKind, Result};
use taillight_rundir::history::LeftOutRun;
use taillight_rundir::intervals::{IntervalRow, read_intervals};
use taillight_rundir::origin::Fidelity;
use taillight_rundir::series::{PointStatus, SeriesFile, SeriesPoint};
use taillight_rundir::{JsonFile, Manifest, RunDir, Summary, check_is_dir, names, sums};

/// A run with what is compared: manifest, summary, and its rates over time.
#[derive(Debug, Clone)]
pub struct SideRun {
    pub dir: PathBuf,
    pub manifest: Manifest,
    pub summary: Summary,
    /// Measured successes a second, by interval of the measure phase: those of the usual length.
    pub rates: BTreeMap<OpKind, Vec<f64>>,
}

impl SideRun {
    /// Reads a run directory. Errors: `Unavailable` or `Corrupt` when it cannot be read; `Usage` when
    /// it has no summary, or is another tool's result without a distribution.
    pub fn read(dir: &Path) -> Result<SideRun> {
        let run = RunDir::open(dir)?;
        let Some(summary) = run.read::<Summary>()? else {
            return Err(Error::usage("the run has no summary yet")
                .with("run", dir.display())
                .hint("taillight report RUN makes it from what the run kept"));
        };
        if let Some(source) = run.manifest().origin.imported()
            && source.fidelity > Fidelity::Bins
        {
            return Err(Error::usage("this result of another tool has no distribution to compare")
                .hint("fio has one with --output-format=json+"));
        }
        let rates = match sums::believed(&run, names::INTERVALS)? {
            Some(path) => rates(&read_intervals(&path)?, run.manifest()),
            None => BTreeMap::new(),
        };
        Ok(SideRun { dir: dir.to_owned(), manifest: run.manifest().clone(), summary, rates })
    }
}

/// Successes a second of each interval of the usual length: the last one ends with the last completion, before or
/// after its time. Workloads that are load only do not count.
fn rates(rows: &[IntervalRow], manifest: &Manifest) -> BTreeMap<OpKind, Vec<f64>> {
    let is_load = |r: &IntervalRow| {
        manifest.plan.workloads.get(usize::from(r.workload)).is_some_and(|w| !w.measured)
    };
    let measured = || rows.iter().filter(|r| r.phase == "measure" && !is_load(r));
    let mut lengths: Vec<u64> = measured().map(|r| r.length_ns).collect();
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() / 2).copied();
    let mut sums: BTreeMap<(OpKind, i64), u64> = BTreeMap::new();
    for row in measured().filter(|r| Some(r.length_ns) == usual) {
        *sums.entry((row.op, row.start_ns)).or_default() += row.ops - row.errors.min(row.ops);
    }
    let mut rates: BTreeMap<OpKind, Vec<f64>> = BTreeMap::new();
    let seconds = usual.unwrap_or(1).max(1) as f64 / 1e9;
    sums.into_iter().for_each(|((op, _), n)| rates.entry(op).or_default().push(n as f64 / seconds));
    rates
}

/// Run directories, and what was met beside them that is none or did not end well.
#[derive(Debug, Default)]
pub struct FoundRuns {
    pub dirs: Vec<PathBuf>,
    pub left_out: Vec<LeftOutRun>,
}

impl FoundRuns {
    /// What a path stands for: one run, the runs of a series of one setting, or all in a folder and in
    /// folders in it down to `levels`, in order of their names. Errors: `Usage` where there is nothing of
    /// the kind, or a series has several settings; `Unavailable` or `Corrupt` where it cannot be read.
    pub fn of(path: &Path, levels: u32) -> Result<FoundRuns> {
        check_is_dir(path)?;
        let mut found = FoundRuns::default();
        found.collect(path, levels)?;
        match found.dirs.is_empty() && found.left_out.is_empty() {
            false => Ok(found),
            true => Err(Error::usage("no run in it")
                .with("path", path.display())
                .hint("name a run directory, a series of one setting, or a folder of runs")),
        }
    }

    /// Reads its runs by `read`; what cannot be read is left out. Errors: the first, or `Usage`, where no
    /// run is left.
    pub fn read(
        self,
        read: impl Fn(&Path) -> Result<SideRun>,
    ) -> Result<(Vec<SideRun>, Vec<LeftOutRun>)> {
        let (mut runs, mut left_out, mut first) = (Vec::new(), self.left_out, None);
        for dir in &self.dirs {
            match read(dir) {
                Ok(run) => runs.push(run),
                Err(e) => {
                    left_out.push(LeftOutRun::new(dir, e.to_string()));
                    first.get_or_insert(e.with("path", dir.display()));
                }
            }
        }
        match (runs.is_empty(), first) {
            (true, Some(e)) => Err(e),
            (true, None) => Err(Error::usage("no run counts")
                .with("because", left_out.first().map_or("", |l| l.why.as_str()))),
            _ => Ok((runs, left_out)),
        }
    }

    fn leave(&mut self, dir: &Path, why: impl Into<String>) {
        self.left_out.push(LeftOutRun::new(dir, why));
    }

    fn collect(&mut self, path: &Path, levels: u32) -> Result<()> {
        if path.join(names::MANIFEST).is_file() {
            self.dirs.push(path.to_owned());
            return Ok(());
        }
        if let Some(series) = SeriesFile::read(path)? {
            return self.of_series(path, &series);
        }
        if path.join(names::SUMMARY).is_file() {
            self.leave(path, format!("it has no {}", names::MANIFEST));
            return Ok(());
        }
        let unreadable = |e| {
            Error::unavailable("cannot read the directory").with("path", path.display()).source(e)
        };
        let mut inside: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?.path();
            // What a history left here links to runs that are somewhere else.
            if entry.is_dir() && !entry.join(names::CHANGES).is_file() {
                inside.push(entry);
            }
        }
        inside.sort();
        for entry in inside.iter().filter(|_| levels > 0) {
            if let Err(e) = self.collect(entry, levels - 1) {
                self.leave(entry, e.to_string());
            }
        }
        Ok(())
    }

    /// The complete runs of a series that measure; those that were begun and did not end well are left out.
    fn of_series(&mut self, dir: &Path, series: &SeriesFile) -> Result<()> {
        let begun = |p: &&SeriesPoint| !p.role.is_state() && p.status != PointStatus::Planned;
        let points: Vec<&SeriesPoint> = series.points.iter().filter(begun).collect();
        let first = points.first().map(|p| &p.coordinates);
        if points.iter().any(|p| Some(&p.coordinates) != first) {
            return Err(Error::usage("the series has runs of several settings")
                .with("path", dir.display())
                .hint("name the run directories of one setting, or put them into a folder"));
        }
        for point in points {
            let run = dir.join(&point.run);
            match point.status {
                PointStatus::Complete => self.dirs.push(run),
                PointStatus::Failed => self.leave(&run, "it failed"),
                _ => self.leave(&run, "it is not complete"),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::plan::WorkloadPlan;

    use super::*;

    /// A last interval that is longer or shorter than the others is left out alone; so is the warm-up.
    #[test]
    fn a_drain_in_the_last_interval_takes_no_other_away() {
        let row = |i: i64, length_ns, phase: &str| IntervalRow {
            start_ns: i * 1_000_000_000,
            length_ns,
            phase: phase.to_owned(),
            op: OpKind::Read,
            ops: 100 + i as u64,
            errors: 1,
            ..IntervalRow::default()
        };
        let mut rows: Vec<IntervalRow> =
            (1..10).map(|i| row(i, 1_000_000_000, "measure")).collect();
        let manifest = taillight_rundir::fixture::manifest("r");
        let nine: Vec<f64> = (100..109).map(f64::from).collect();
        for last in [1_000_200_000, 999_000_000] {
            rows.push(row(10, last, "measure"));
            rows.push(row(0, 1_000_000_000, "warmup"));
            assert_eq!(rates(&rows, &manifest)[&OpKind::Read], nine);
            rows.truncate(9);
        }
        assert!(rates(&[], &manifest).is_empty());
    }

    /// I/Os of a workload that only makes load are in no rate, and rates of half-second intervals are per second.
    #[test]
    fn load_is_no_rate_and_a_rate_is_a_second() {
        let mut manifest = taillight_rundir::fixture::manifest("r");
        let measured = manifest.plan.workloads[0].clone();
        let load = WorkloadPlan { measured: false, ..measured.clone() };
        manifest.plan.workloads = vec![measured, load];
        let row = |i: i64, workload, ops| IntervalRow {
            start_ns: i * 500_000_000,
            length_ns: 500_000_000,
            phase: "measure".to_owned(),
            workload,
            ops,
            ..IntervalRow::default()
        };
        let rows: Vec<IntervalRow> =
            (0..6).flat_map(|i| [row(i, 0, 10), row(i, 1, 1_000)]).collect();
        assert_eq!(rates(&rows, &manifest).into_values().collect::<Vec<_>>(), [[20.0; 6]]);
    }
}
