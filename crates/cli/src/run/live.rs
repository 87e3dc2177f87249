//! What is shown on the console while a run goes on: a line per interval and a bar on a terminal, or a screen in their
//! place. Passes the same on to the feed of the live view. Numbers of a line are `numbers`'s.

use std::time::{Duration, Instant};

use taillight_core::plan::Plan;
use taillight_core::progress::Progress;
use taillight_core::units::Span;
use taillight_engine::{IntervalView, Observer};
use taillight_live::screen::Screen;
use taillight_live::{LiveFeed, Progressed, progressed};

use taillight_report::format::{count, duration_ns};
use taillight_report::table;

use super::numbers::Columns;
use crate::output;
use crate::progress::Shown;

/// The header is repeated after this many lines.
const HEADER_EVERY: u32 = 20;
/// Of intervals shorter than this, at most one a second is shown; all are in the report.
const SHOWN_NS: u64 = 900_000_000;
/// Least time between two lines of such intervals.
const PAUSE: Duration = Duration::from_secs(1);

/// Shows a run.
pub struct Live {
    columns: Columns,
    shown: Shown,
    interval_ns: u64,
    lines: u32,
    last_line: Option<Instant>,
    /// No line per interval.
    quiet: bool,
    /// How long later points of the series take, where that is known.
    rest: Option<Duration>,
    /// What is said when the time is over and the load is not.
    overtime: Overtime,
    /// The live view, which gets all that is shown here.
    feed: Option<LiveFeed>,
    /// In place of lines.
    screen: Option<Screen>,
}

/// The limits of what comes after the measured time, in words.
struct Overtime {
    time: String,
    late: String,
    drain: String,
}

impl Overtime {
    fn of(plan: &Plan) -> Overtime {
        let words = |span: Span| span.to_string();
        Overtime {
            time: plan.planned_ns().map_or("the time".to_owned(), |ns| words(Span(ns))),
            late: words(plan.run.interval.min(plan.run.drain_timeout)),
            drain: words(plan.run.drain_timeout),
        }
    }

    fn text(&self, backlog: Option<u64>) -> String {
        let Overtime { time, late, drain } = self;
        match backlog.filter(|n| *n > 0) {
            Some(n) => format!(
                "the time ({time}) is over, with a backlog ({} operations when last counted): it is sent for \
                 {late} more at most",
                count(n)
            ),
            None => {
                format!("the time ({time}) is over: waiting for I/Os in flight, {drain} at most")
            }
        }
    }
}

impl Live {
    /// For this plan; a quiet one has no line per interval, and one with a `screen` shows that instead.
    pub fn new(plan: &Plan, quiet: bool, feed: Option<LiveFeed>, screen: bool) -> Live {
        let several = plan.workloads.len() > 1;
        let ops = plan.workloads.iter().flat_map(|w| {
            w.mix.iter().map(move |part| match several {
                true => format!("{} {}", w.name, part.op.name()),
                false => part.op.name().to_owned(),
            })
        });
        let open_loop = plan.workloads.iter().any(|w| !w.arrival.is_closed());
        Live {
            columns: Columns::new(ops.collect(), open_loop, plan.run.interval.0, table::width())
                .of(plan.workloads.iter().map(|w| w.measured)),
            shown: Shown::new(),
            interval_ns: plan.run.interval.0,
            lines: 0,
            last_line: None,
            quiet,
            rest: None,
            overtime: Overtime::of(plan),
            screen: feed.clone().filter(|_| screen).map(Screen::new),
            feed,
        }
    }

    /// The same run as one of a series whose later points take so long.
    pub fn before(self, rest: Option<Duration>) -> Live {
        Live { rest, ..self }
    }

    /// The feed of the live view, if there is one.
    pub fn feed(&self) -> Option<LiveFeed> {
        self.feed.clone()
    }

    /// A step of work before or after measuring.
    pub fn step(&mut self, p: Progress<'_>) {
        self.screen.iter_mut().for_each(Screen::hide);
        self.feed.iter_mut().for_each(|feed| feed.progress(p));
        self.shown.step(p);
    }

    /// Takes down the bar and the screen: the work shown so far is over.
    pub fn end(&mut self) {
        self.screen.iter_mut().for_each(Screen::hide);
        self.shown.end();
    }

    /// Moves the bar of the measure phase: by operations, or by time.
    fn measured(&mut self, view: &IntervalView) {
        let Some(Progressed { done, all, left }) = progressed(view) else { return };
        let all_left = self.rest.filter(|rest| !rest.is_zero());
        let all_left =
            all_left.map(|rest| format!(", {:.0} s of the series", (left + rest).as_secs_f64()));
        let rest = format!("{:.0} s left{}", left.as_secs_f64(), all_left.unwrap_or_default());
        self.shown.part(view.phase, (done, all), rest);
    }

    /// Whether an interval gets a line now.
    fn due(&self) -> bool {
        if self.quiet {
            return false;
        }
        self.interval_ns >= SHOWN_NS || self.last_line.is_none_or(|t| t.elapsed() >= PAUSE)
    }
}

impl Observer for Live {
    fn note(&mut self, text: &str) {
        output::note(text);
    }

    fn phase(&mut self, name: &str) {
        self.feed.iter_mut().for_each(|feed| feed.phase(name));
        self.shown.end();
        if matches!(name, "warmup" | "measure") {
            self.screen.iter_mut().for_each(Screen::show);
        }
    }

    fn interval(&mut self, view: &IntervalView) {
        self.feed.iter_mut().for_each(|feed| feed.interval(view));
        if let Some(screen) = &mut self.screen {
            return screen.show();
        }
        if self.due() {
            if self.lines.is_multiple_of(HEADER_EVERY) {
                self.shown.line(&self.columns.header());
            }
            self.shown.line(&self.columns.row(view));
            self.lines += 1;
            self.last_line = Some(Instant::now());
        }
        if view.phase == "measure" {
            self.measured(view);
        }
    }

    fn overtime(&mut self, backlog: Option<u64>) {
        self.feed.iter_mut().for_each(|feed| feed.overtime(backlog));
        if let Some(screen) = &mut self.screen {
            screen.show();
        } else if !self.quiet {
            self.shown.line(&self.overtime.text(backlog));
        }
    }

    fn stalled(&mut self, ns: u64) {
        self.feed.iter_mut().for_each(|feed| feed.stalled(ns));
        if let Some(screen) = &mut self.screen {
            screen.show();
        } else if self.due() {
            let age = duration_ns(ns);
            self.shown.line(&format!("a worker has been inside an I/O for {age} at least"));
            self.last_line = Some(Instant::now());
        }
    }

    fn progress(&mut self, progress: Progress<'_>) {
        self.step(progress);
    }
}
