//! What a series needs of this program: opening targets, single runs, reports, the console, as the
//! implementation of [`Host`]. The runner in `taillight-suite` decides the order of runs. Used by every command that
//! runs a series.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use taillight_core::exit::Exit;
use taillight_core::plan::{CaptureMode, Plan};
use taillight_core::{Error, Result};
use taillight_driver::identity::{contents, target};
use taillight_driver::{OpenSpec, Target};
use taillight_live::PlaceInSeries;
use taillight_machine::{Sys, block};
use taillight_report::{MadeReport, ReportContext};
use taillight_rundir::JsonFile;
use taillight_rundir::series::{ConfirmedTarget, SeriesFile};
use taillight_suite::host::{Host, Message, RunOutcome};
use taillight_suite::method::{Method, Point};
use taillight_suite::runner::{SeriesOutcome, SeriesSetup, run_series};
use taillight_trace::environment::target_facts;

use super::signals::Signals;
use super::targets::confirmed;
use super::{Live, LiveViews, RunRequest, directory, ranked, ranked_open, run_on_target, run_plan};
use crate::{output, problem, report};

/// This program, around a series.
pub struct RunHost<'a> {
    signals: &'a Signals,
    /// The targets that may be overwritten, as the command line names them.
    destroy: &'a [String],
    /// Views that show the runs while they go on.
    live: &'a LiveViews,
    /// How long the points after the next one take.
    rest: Option<Duration>,
}

/// Confirmed targets as they are now, without what is in them.
pub fn identified<'a>(names: impl Iterator<Item = &'a String>) -> Vec<ConfirmedTarget> {
    let of = |name: &String| ConfirmedTarget {
        name: name.clone(),
        identity: target::of(name),
        contents: None,
    };
    names.map(of).collect()
}

impl<'a> RunHost<'a> {
    pub fn new(signals: &'a Signals, destroy: &'a [String], live: &'a LiveViews) -> RunHost<'a> {
        RunHost { signals, destroy, live, rest: None }
    }
}

/// Runs a method into `dir`, or goes on with the series that is there. Errors: as [`run_series`].
pub fn run_method(
    method: &mut dyn Method,
    host: &mut RunHost<'_>,
    dir: &Path,
    resumed: Option<SeriesFile>,
) -> Result<SeriesOutcome> {
    let command = match &resumed {
        Some(file) => file.command.clone(),
        None => directory::arguments().skip(1).collect(),
    };
    let signals = host.signals;
    let _in_series = signals.in_series(dir);
    let setup = SeriesSetup { dir: dir.to_owned(), command, resumed };
    run_series(method, host, setup)
}

impl Host for RunHost<'_> {
    fn open(&mut self, plan: &Plan) -> Result<Box<dyn Target>> {
        if crate::ranks::several() {
            return ranked_open::open(plan, self.destroy, self.signals);
        }
        if !plan.targets.is_empty() {
            return Err(Error::usage("a series that shares its target has one")
                .hint("use one target, or one series for each"));
        }
        let mut live = Live::new(plan, false, None, false);
        let spec = OpenSpec {
            plan,
            run_id: &directory::fresh_id(),
            destroy: confirmed(self.destroy, plan, &plan.target),
            stop: self.signals.stop(),
            fits: &|_| Ok(()),
        };
        let target = taillight_driver::bind(&plan.target)?.open(&spec, &mut |p| {
            live.step(p);
            !self.signals.stop().stopped()
        });
        live.end();
        target
    }

    fn run(&mut self, point: &Point, target: Option<Box<dyn Target>>) -> Result<RunOutcome> {
        let confirmed_now = identified(self.destroy.iter());
        let place = PlaceInSeries { id: point.id.clone(), round: point.round };
        let request = RunRequest {
            plan: &point.plan,
            job: point.job.as_ref(),
            destroy: self.destroy,
            confirmed: &confirmed_now,
            signals: self.signals,
            live: self.live,
            place: Some(&place),
            quiet: point.quiet || !output::mode().verbose,
            rest: self.rest,
            // A round is shown by the report of its series; `taillight report` makes its own.
            pages: !(point.quiet && point.plan.capture.mode == CaptureMode::Off),
            rank: None,
        };
        match target {
            Some(target) if crate::ranks::several() => {
                let _in_run = ranked_open::InRun::begin();
                let first = point.shared.as_ref().map_or(0, |shared| shared.first_workload);
                ranked::run(&request, Some((target, first)))
            }
            Some(target) => run_on_target(&request, |_, _| Ok((target, 0))),
            None => {
                let output = point.plan.run.output.as_deref().filter(|_| point.plan.is_series());
                let resumed = output.map(|dir| SeriesFile::read(Path::new(dir))).transpose()?;
                run_plan(&request, resumed.flatten())
            }
        }
    }

    fn report(
        &mut self,
        runs: &[PathBuf],
        into: &Path,
        context: ReportContext,
    ) -> Result<MadeReport> {
        report::of_series(runs, into, context)
    }

    fn wants_detail(&self) -> bool {
        output::mode().verbose
    }

    fn rest(&mut self, left: Option<Duration>) {
        self.rest = left;
    }

    fn signal(&self) -> Option<Exit> {
        self.signals.exit()
    }

    fn confirmed(&self) -> Vec<ConfirmedTarget> {
        let mut all = identified(self.destroy.iter());
        all.iter_mut().for_each(|it| it.contents = contents::seen(&it.name));
        all
    }

    fn target_facts(&self, plan: &Plan) -> Map<String, Value> {
        let path = plan.target.path.as_deref().and_then(block::local);
        path.map(|path| target_facts(&Sys::default(), path)).unwrap_or_default()
    }

    fn show(&mut self, message: Message<'_>) {
        match message {
            Message::Line(text) => output::line(text),
            Message::Result(text) => output::result(text),
            Message::Note(text) => output::note(text),
            Message::Problem(e) => {
                problem::show(e);
            }
        }
    }
}
