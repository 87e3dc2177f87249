//! The one runner of series: opens shared targets, runs the points that a [`Method`] asks for through
//! [`Host`], keeps `series.json`, resumes, and concludes with one report. A new series that measured nothing
//! removes its directory, unless that holds something else.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use taillight_core::exit::Exit;
use taillight_core::units::readable::in_line;
use taillight_core::{Error, Result};
use taillight_driver::AdminAction;
use taillight_driver::identity::target;
use taillight_report::table;
use taillight_rundir::series::{PointStatus, SeriesFile, SeriesPoint};
use taillight_rundir::{JsonFile, RunDir, RunStatus, SCHEMA_VERSION, atomic, names};

use crate::console_line::{own_line, point_line};
use crate::exit::worst;
use crate::figures;
use crate::host::{Host, Message, RunOutcome};
use crate::method::{
    Method, Next, Point, PointResult, SeriesReport, SeriesState, SeriesView, SharedUse,
};
use crate::points;
pub use crate::resume::check_targets;
use crate::resume::{Earlier, after_point, check_device, check_series, check_state, is_done};
use crate::saved;
use crate::shared_target::SharedTarget;
use crate::suites::load_ns;

/// Where runs go when nothing is said: relative to the working directory.
pub const DEFAULT_PARENT: &str = "taillight-runs";

/// Where a series goes and what it goes on from.
#[derive(Debug)]
pub struct SeriesSetup {
    /// The directory of the series: new or empty, or that of `resumed`.
    pub dir: PathBuf,
    /// Arguments of the command, without the program's name.
    pub command: Vec<String>,
    /// What an earlier attempt left, for a series that is resumed.
    pub resumed: Option<SeriesFile>,
}

/// How a series ended.
#[derive(Debug)]
pub struct SeriesOutcome {
    pub exit: Exit,
    /// The points that were run or read.
    pub done: Vec<PointResult>,
}

/// Runs a series to its end. Errors: `Usage`, `Unavailable` or `Corrupt` where it cannot be resumed, and as the first
/// run when that cannot begin: nothing was measured then. Later errors are shown and end the series; what was
/// measured is kept.
pub fn run_series(
    method: &mut dyn Method,
    host: &mut dyn Host,
    setup: SeriesSetup,
) -> Result<SeriesOutcome> {
    let mut runner = Runner::new(method, host, setup)?;
    let ended = match runner.points() {
        Ok(ended) => ended,
        Err(e) => {
            runner.close_shared().ok();
            runner.discard();
            return Err(e);
        }
    };
    let closed = runner.close_shared();
    runner.look_again();
    let exit = runner.conclude(ended)?;
    let exit = match closed {
        Err(e) => worst(exit, runner.problem(&e)),
        Ok(()) => exit,
    };
    let done = runner.done;
    Ok(SeriesOutcome { exit, done })
}

/// A target that is open, and how the last point used it.
struct OpenTarget {
    last_use: SharedUse,
    target: SharedTarget,
}

struct Runner<'a> {
    method: &'a mut dyn Method,
    host: &'a mut dyn Host,
    dir: PathBuf,
    file: SeriesFile,
    earlier: Earlier,
    done: Vec<PointResult>,
    /// Points that an earlier attempt had completed, and that were read.
    read: usize,
    shared: Option<OpenTarget>,
    /// Time and number of the points that were run now.
    spent: (Duration, u32),
    /// Where the last point stands, in words.
    place: String,
    /// The directory, held against other sessions once it is there.
    lock: Option<File>,
    /// When this attempt began.
    began: SystemTime,
}

/// The directory, held: two sessions on one series would move each other's runs away. A file system
/// without locks goes without.
fn locked(dir: &Path) -> Result<File> {
    let unreadable = |e| {
        Error::unavailable("cannot open the directory of the series")
            .with("path", dir.display())
            .source(e)
    };
    let held = File::open(dir).map_err(unreadable)?;
    if let Err(TryLockError::WouldBlock) = held.try_lock() {
        return Err(Error::unavailable("another process works on this series")
            .with("path", dir.display())
            .hint("wait until it ends, then give the command again"));
    }
    Ok(held)
}

impl<'a> Runner<'a> {
    fn new(
        method: &'a mut dyn Method,
        host: &'a mut dyn Host,
        setup: SeriesSetup,
    ) -> Result<Runner<'a>> {
        let head = method.head();
        let mut lock = None;
        if let Some(began) = &setup.resumed {
            check_series(began, head, &setup.dir)?;
            lock = Some(locked(&setup.dir)?);
        }
        let directory = std::env::current_dir().unwrap_or_default();
        let file = SeriesFile {
            schema: SCHEMA_VERSION,
            taillight: env!("CARGO_PKG_VERSION").to_owned(),
            method: head.method.clone(),
            job: head.job.clone(),
            seed: head.seed,
            resumed: setup.resumed.as_ref().map_or(0, |r| r.resumed.saturating_add(1)),
            status: RunStatus::Running,
            command: setup.command,
            directory: directory.to_string_lossy().into_owned(),
            axes: head.axes.clone(),
            confirmed: host.confirmed(),
            // A resumed series keeps them even if it is killed before it has read them.
            points: complete_points(setup.resumed.as_ref()),
            decisions: Vec::new(),
            answer: None,
            exit: None,
        };
        let mut earlier = Earlier::new(setup.resumed, &setup.dir);
        let done = earlier.replay(method)?;
        let mut seen = Vec::new();
        for result in &done {
            let target = &result.point.plan.target;
            if !seen.contains(&target) {
                check_device(result, &host.target_facts(&result.point.plan), &setup.dir)?;
                seen.push(target);
            }
        }
        Ok(Runner {
            method,
            host,
            dir: setup.dir,
            file,
            earlier,
            read: done.len(),
            done,
            shared: None,
            spent: (Duration::ZERO, 0),
            place: String::new(),
            lock,
            began: SystemTime::now(),
        })
    }

    /// Runs points until the method has no more; the exit code of what ended it before.
    fn points(&mut self) -> Result<Option<Exit>> {
        for line in &self.method.head().introduction {
            self.host.show(Message::Line(line));
        }
        if !self.done.is_empty() {
            self.record(SeriesState::Running)?;
            for read in 1..=self.done.len() {
                self.show_line(read);
            }
        }
        loop {
            let ended = match self.next_point() {
                Ok(SeriesStep::Next) => continue,
                Ok(SeriesStep::End) => None,
                Ok(SeriesStep::EndEarly(exit)) => Some(exit),
                Err(e) if self.results().is_empty() && self.host.signal().is_none() => {
                    return Err(e);
                }
                Err(e) => Some(self.problem(&e)),
            };
            // A signal that ended a run is the cause, whatever the run's own code was.
            return Ok(ended.map(|exit| self.host.signal().unwrap_or(exit)));
        }
    }

    fn next_point(&mut self) -> Result<SeriesStep> {
        let Next::Point(point) = self.method.next(&self.done)? else {
            let last = self.done.last().filter(|r| self.method.ended_by(r));
            return Ok(last.map_or(SeriesStep::End, |r| SeriesStep::EndEarly(r.exit)));
        };
        if let Some(result) = self.earlier.take(self.method, &self.done, &point)? {
            self.read += 1;
            self.begun(&point);
            self.add(result)?;
            self.place = format!("{} of {}", self.done.len(), self.method.head().planned.len());
            self.show_line(self.done.len());
            return Ok(SeriesStep::Next);
        }
        if let Some(exit) = self.host.signal() {
            return Ok(SeriesStep::EndEarly(exit));
        }
        self.announce(&point);
        let began = Instant::now();
        let before = self.done.len();
        let step = self.run_point(*point)?;
        self.spent.0 += began.elapsed();
        self.spent.1 += 1;
        if self.done.len() > before {
            self.show_line(self.done.len());
        }
        Ok(step)
    }

    fn run_point(&mut self, mut point: Point) -> Result<SeriesStep> {
        check_state(&point, &self.done, self.shared.as_ref().map(|open| &open.last_use))?;
        check_targets(&self.file.confirmed, &self.host.confirmed())?;
        // Before a target is touched: a name that cannot be used must not cost its data.
        self.make_directory()?;
        let target = match &point.shared {
            Some(shared) => Some(self.shared_view(shared)?),
            None => self.close_shared().map(|()| None)?,
        };
        let dir = self.dir.join(&point.id);
        self.earlier.move_aside(&dir, &point.plan)?;
        self.earlier.unreached.retain(|r| r.point.id != point.id);
        point.plan.run.output = Some(dir.to_string_lossy().into_owned());
        self.begun(&point);
        self.file.write(&self.dir)?;
        let same = check_targets(&self.file.confirmed, &self.host.confirmed());
        let outcome = same.and_then(|()| self.host.run(&point, target));
        self.look_again();
        if outcome.as_ref().map_or(true, |o| o.path.is_none()) {
            self.file.points.retain(|p| p.id != point.id);
        }
        let outcome = outcome?;
        let Some(path) = outcome.path.clone() else {
            return Ok(SeriesStep::EndEarly(outcome.exit));
        };
        let flush = point.shared.as_ref().is_some_and(|s| s.flush);
        self.add(result(point, path, outcome)?)?;
        if self.done.len() == 1
            && let Some(job) = &self.method.head().job_text
        {
            atomic::write(&self.dir, names::JOB, job.as_bytes())?;
        }
        let goes_on = self.done.last().is_some_and(|r| !self.method.ended_by(r));
        if let Some(open) = self.shared.as_ref().filter(|_| flush && goes_on) {
            open.target.target().admin(AdminAction::Flush)?;
        }
        Ok(SeriesStep::Next)
    }

    /// Takes note of what the confirmed targets are now.
    fn look_again(&mut self) {
        let own = |name: &str| target::is_own_since(name, self.began);
        self.file.confirmed = after_point(&self.file.confirmed, self.host.confirmed(), own);
    }

    fn make_directory(&mut self) -> Result<()> {
        std::fs::create_dir_all(&self.dir).map_err(|e| {
            Error::unavailable("cannot make the directory of the runs")
                .with("path", self.dir.display())
                .source(e)
                .hint("name another one with --output")
        })?;
        if self.lock.is_none() {
            self.lock = Some(locked(&self.dir)?);
        }
        Ok(())
    }

    /// Keeps a result: in memory, in `series.json`, in `report.json`.
    fn add(&mut self, result: PointResult) -> Result<()> {
        let id = &result.point.id;
        if let Some(entry) = self.file.points.iter_mut().find(|p| p.id == *id) {
            entry.status = result.status;
            entry.values = result.values.clone();
            entry.exit = Some(result.exit.code());
        }
        self.done.push(result);
        self.record(SeriesState::Running)?;
        // Whatever happens from here on, the series can be shown.
        self.kept_report(SeriesState::Running)?;
        Ok(())
    }

    /// Shows the console's line for the last of the first `points` results.
    fn show_line(&mut self, points: usize) {
        let left = self.left_ns().filter(|_| points == self.done.len());
        let announced = self.method.head().announced;
        if announced {
            let place = if points == self.done.len() { self.place.as_str() } else { "" };
            let line = point_line(&self.done[points - 1], place, left);
            self.host.show(Message::Line(&line));
        }
        if let Some(line) = self.method.line(&self.done[..points]) {
            let line = if announced { line } else { own_line(&line, left) };
            self.host.show(Message::Line(&line));
        }
    }

    /// Every result there is: those of this attempt, and those it has yet to come to again.
    fn results(&self) -> Vec<PointResult> {
        let reached = |r: &&PointResult| self.done.iter().any(|d| d.point.id == r.point.id);
        let unreached = self.earlier.unreached.iter().filter(|r| !reached(r));
        self.done.iter().chain(unreached).cloned().collect()
    }

    fn begun(&mut self, point: &Point) {
        let entry = SeriesPoint {
            id: point.id.clone(),
            round: point.round,
            role: point.role,
            coordinates: point.coordinates.clone(),
            status: PointStatus::Running,
            run: point.id.clone(),
            values: Default::default(),
            exit: None,
        };
        match self.file.points.iter_mut().find(|p| p.id == point.id) {
            Some(known) => *known = entry,
            None => self.file.points.push(entry),
        }
    }

    fn record(&mut self, state: SeriesState) -> Result<()> {
        let done = self.results();
        let view = SeriesView { dir: &self.dir, done: &done, state };
        let conclusion = self.method.record(&view)?;
        self.file.decisions = conclusion.decisions;
        self.file.answer = conclusion.answer;
        self.file.status = match state {
            SeriesState::Running => RunStatus::Running,
            SeriesState::Ended => RunStatus::Complete,
            SeriesState::EndedEarly => RunStatus::Partial,
        };
        self.file.write(&self.dir)
    }

    /// What the console may show while a point runs: how long those after it take, and for those who
    /// want detail its heading.
    fn announce(&mut self, point: &Point) {
        let own = load_ns(&point.plan).unwrap_or(0);
        let left = self.left_ns().map(|(_, most)| most.saturating_sub(own));
        self.host.rest(left.map(|ns| Duration::from_nanos(ns.try_into().unwrap_or(u64::MAX))));
        let head = self.method.head();
        if !head.announced {
            return;
        }
        let all = head.planned.len();
        let place = self.method.progress(&self.done, point);
        self.place = place.unwrap_or_else(|| format!("{} of {all}", self.done.len() + 1));
        if self.host.wants_detail() {
            // The runs of a phase are described once.
            let told = self.done.last().filter(|_| self.spent.1 > 0);
            let told = told.is_some_and(|last| last.point.about == point.about);
            let about = Some(&point.about).filter(|about| !about.is_empty() && !told);
            let about = about.map_or(String::new(), |about| format!(": {about}"));
            let text = format!("\n== {} ({}){about}", point.id, self.place);
            self.host.show(Message::Line(&text));
        }
    }

    /// Load that is still to come: as the plans say, else at the pace so far.
    fn left_ns(&self) -> Option<(u128, u128)> {
        let (spent, runs) = self.spent;
        let left = self.method.to_run(&self.done).len() as u128;
        let paced = || (runs > 0).then(|| spent.as_nanos() / u128::from(runs) * left);
        self.method.left_ns(&self.done).or_else(|| paced().map(|ns| (ns, ns)))
    }

    /// A view of the shared target, opened now or by a point before, and emptied for a point that prepares another
    /// state. Errors: `Refused` when a store opened now holds records.
    fn shared_view(&mut self, shared: &SharedUse) -> Result<Box<dyn taillight_driver::Target>> {
        if self.shared.as_ref().is_some_and(|o| o.last_use.group != shared.group) {
            self.close_shared()?;
        }
        if let Some(open) = &mut self.shared {
            // Points that prepare one state together build on each other.
            if shared.prepares && open.last_use.state != shared.state {
                open.target.target().admin(AdminAction::Purge)?;
            }
            open.last_use = shared.clone();
            return Ok(open.target.view(shared.first_workload));
        }
        let plan = &shared.opened_with;
        let target = self.host.open(plan).map_err(|e| self.method.refused(e))?;
        let target = SharedTarget::new(target);
        let records = target.target().keyed().map_or(0, |k| k.records());
        if records > 0 {
            target.close()?;
            return Err(Error::refused("the store holds records of a former run")
                .with("path", plan.target.path.as_deref().unwrap_or_default())
                .with("records", records)
                .hint(
                    "a suite loads its own: delete them, name another --path, or confirm that \
                     they may go with --set target.destroy=true --destroy PATH",
                ));
        }
        let view = target.view(shared.first_workload);
        self.shared = Some(OpenTarget { last_use: shared.clone(), target });
        Ok(view)
    }

    fn close_shared(&mut self) -> Result<()> {
        self.shared.take().map_or(Ok(()), |open| open.target.close())
    }

    /// The last `series.json`, the report, what was not run, the exit code.
    fn conclude(&mut self, ended: Option<Exit>) -> Result<Exit> {
        let all = self.results();
        if all.is_empty() {
            self.discard();
            return Ok(self.method.exit(&all, ended));
        }
        let state = match ended {
            None => SeriesState::Ended,
            Some(_) => SeriesState::EndedEarly,
        };
        let made =
            self.record(state).and_then(|()| self.tables(&all)).and_then(|()| self.report(state));
        // Only now: what a method concludes from all points decides its exit code.
        let exit = self.method.exit(&all, ended);
        self.file.exit = Some(exit.code());
        let made = made.and_then(|()| self.file.write(&self.dir));
        if ended.is_some_and(resumable) {
            let line =
                format!("go on with: taillight suite --resume {}", in_line(self.dir.display()));
            self.host.show(Message::Note(&line));
        }
        // What was found is kept: a report that cannot be made must not hide how it ended.
        Ok(match made {
            Err(e) => match (self.problem(&e), exit) {
                (problem, Exit::Ok) => problem,
                (_, exit) => exit,
            },
            Ok(()) => exit,
        })
    }

    /// The results as a table, where points differ in fields.
    fn tables(&self, all: &[PointResult]) -> Result<()> {
        match self.file.axes.is_empty() {
            true => Ok(()),
            false => points::write(&self.dir, &self.file.job, &self.file.axes, all),
        }
    }

    /// The report over the points so far, kept as `report.json`.
    fn kept_report(&self, state: SeriesState) -> Result<Option<SeriesReport>> {
        let done = self.results();
        let view = SeriesView { dir: &self.dir, done: &done, state };
        let Some(mut report) = self.method.report(&view)? else {
            return Ok(None);
        };
        if let Some(words) = self.resumed_words(done.len()) {
            let text = format!("{} {words}", report.context.text);
            report.context.text = text.trim().to_owned();
        }
        if state == SeriesState::EndedEarly {
            report.context.partial = self.partial_words(&done);
        }
        saved::keep(&self.dir, &report)?;
        Ok(Some(report))
    }

    /// That the series ended early, and what of it was not run.
    fn partial_words(&self, all: &[PointResult]) -> String {
        let complete = self.file.points.iter().filter(|p| is_done(p)).map(|p| &p.id);
        let ran: Vec<&String> = all.iter().map(|r| &r.point.id).chain(complete).collect();
        let mut left = self.method.to_run(&self.done);
        left.retain(|id| !ran.contains(&id));
        match left.is_empty() {
            true => "Partial: the series ended early.".to_owned(),
            false => format!("Partial: the series ended early; not run: {}.", left.join(", ")),
        }
    }

    fn resumed_words(&self, points: usize) -> Option<String> {
        let read = self.read;
        (self.file.resumed > 0).then(|| {
            format!(
                "Resumed: of {points} points {read} were measured before and read, not run again."
            )
        })
    }

    fn report(&mut self, state: SeriesState) -> Result<()> {
        if state == SeriesState::EndedEarly {
            self.host.show(Message::Note(&self.partial_words(&self.results())));
        }
        let Some(report) = self.kept_report(state)? else {
            return Ok(());
        };
        if let Some(words) = self.resumed_words(self.results().len()) {
            self.host.show(Message::Note(&words));
        }
        let SeriesReport { context, runs, before, show_text, after, details, files } = report;
        let runs = runs.iter().map(|dir| saved::run_directories(dir));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        let made = self.host.report(&runs.concat(), &self.dir, context)?;
        let detail = self.host.wants_detail();
        let show_text = show_text || detail;
        match show_text {
            true => self.line_unless_empty(&format!("\n{}", made.text.trim_end())),
            false => self.line_unless_empty(&format!("\n{}", paragraph_of(&made.about))),
        }
        for text in [Some(&before), Some(&after), Some(&details).filter(|_| detail)] {
            text.into_iter().for_each(|text| self.line_unless_empty(text.trim_matches('\n')));
        }
        let mut places: Vec<(&str, PathBuf)> = Vec::new();
        places.extend(made.html.filter(|_| !show_text).map(|page| ("Report", page)));
        places.extend(files.iter().map(|(what, name)| (*what, self.dir.join(name))));
        places.push(("Runs", self.dir.clone()));
        for (what, path) in places {
            let text = format!("{what:<7} {}", in_line(path.display()));
            self.host.show(Message::Result(&text));
        }
        Ok(())
    }

    fn line_unless_empty(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.host.show(Message::Result(text));
        }
    }

    /// Shows an error; the exit code it asks for. "Not possible here" is for series that measured nothing.
    fn problem(&mut self, e: &Error) -> Exit {
        self.host.show(Message::Problem(e));
        match e.exit() {
            Exit::Unavailable if !self.results().is_empty() => Exit::TargetFailed,
            exit => exit,
        }
    }

    /// Nothing was measured: the directory goes, unless it holds something else.
    fn discard(&self) {
        if self.earlier.any() {
            return;
        }
        let _ = std::fs::remove_file(self.dir.join(names::SERIES));
        let _ = std::fs::remove_dir(&self.dir);
        let default = |p: &&Path| p.ends_with(DEFAULT_PARENT);
        if let Some(parent) = self.dir.parent().filter(default) {
            let _ = std::fs::remove_dir(parent);
        }
    }
}

/// Words in lines of the terminal.
fn paragraph_of(text: &str) -> String {
    table::wrap(text, table::width()).join("\n")
}

/// Whether what ended a series early leaves something to go on with.
fn resumable(exit: Exit) -> bool {
    !matches!(exit, Exit::Ok | Exit::Usage | Exit::Refused | Exit::Internal)
}

fn complete_points(file: Option<&SeriesFile>) -> Vec<SeriesPoint> {
    let points = file.map_or(&[][..], |f| &f.points);
    points.iter().filter(|p| is_done(p)).cloned().collect()
}

/// What follows one step of a series.
enum SeriesStep {
    Next,
    End,
    EndEarly(Exit),
}

/// The result of a run that measured something, or of a point that is a series itself. Errors:
/// `Corrupt` when such a series cannot be read.
fn result(point: Point, dir: PathBuf, outcome: RunOutcome) -> Result<PointResult> {
    let mut values = outcome.summary.as_ref().map(figures::values).unwrap_or_default();
    let status = match SeriesFile::read(&dir)? {
        Some(series) => {
            values = figures::of_series(&series);
            series.status
        }
        None => RunDir::open(&dir)?.manifest().status,
    };
    let (exit, summary) = (outcome.exit, outcome.summary);
    Ok(PointResult { point, dir, exit, status: status.into(), values, summary })
}
