//! What is shown while a run goes on: a line per interval, and a bar on a terminal.
//!
//! Lines go to standard output, the bar to standard error. Nothing is drawn between intervals:
//! a display that wakes up on its own would disturb what is measured.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use taillight_core::plan::{Arrival, Plan};
use taillight_core::progress::Progress;
use taillight_engine::{IntervalView, Observer};
use taillight_report::format::{bytes, count};

use super::numbers::Columns;
use crate::output;

/// The header is repeated after this many lines.
const HEADER_EVERY: u32 = 20;
/// Shorter intervals are not all shown.
const SHOWN_NS: u64 = 900_000_000;
/// Least time between two lines of progress, or of short intervals.
const PAUSE: Duration = Duration::from_secs(1);

/// Shows a run.
pub struct Live {
    columns: Columns,
    bar: Option<ProgressBar>,
    terminal: bool,
    lines: u32,
    last_line: Option<Instant>,
    last_note: Option<Instant>,
    doing: String,
}

impl Live {
    /// For this plan.
    pub fn new(plan: &Plan) -> Live {
        let several = plan.workloads.len() > 1;
        let ops = plan.workloads.iter().flat_map(|w| {
            w.mix.iter().map(move |part| match several {
                true => format!("{} {}", w.name, part.op.name()),
                false => part.op.name().to_owned(),
            })
        });
        let open_loop = plan.workloads.iter().any(|w| w.arrival != Arrival::Burst);
        Live {
            columns: Columns::new(ops.collect(), open_loop),
            bar: None,
            terminal: std::io::stderr().is_terminal(),
            lines: 0,
            last_line: None,
            last_note: None,
            doing: String::new(),
        }
    }

    /// A step of work before or after measuring.
    pub fn show_progress(&mut self, p: Progress<'_>) {
        if self.terminal {
            let bar = self.bar(&p);
            bar.set_position(p.done.min(p.total));
            return;
        }
        let due = self.last_note.is_none_or(|t| t.elapsed() >= PAUSE);
        // Work that is over at once needs no line of its own.
        if due && (self.doing == p.what || p.done < p.total) {
            self.last_note = Some(Instant::now());
            let percent = 100.0 * p.done as f64 / p.total.max(1) as f64;
            let amount = |n| match p.unit {
                "bytes" => bytes(n),
                unit => format!("{} {unit}", count(n)),
            };
            output::note(&format!(
                "{}: {percent:.0} % ({} of {})",
                p.what,
                amount(p.done),
                amount(p.total)
            ));
        }
        p.what.clone_into(&mut self.doing);
    }

    /// The work before measuring is over.
    pub fn end_progress(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.doing.clear();
    }

    /// Everything is over.
    pub fn finish(&mut self) {
        self.end_progress();
    }

    /// The bar of this kind of work, made when it begins.
    fn bar(&mut self, p: &Progress<'_>) -> &ProgressBar {
        if self.doing != p.what {
            self.end_progress();
            p.what.clone_into(&mut self.doing);
        }
        self.bar.get_or_insert_with(|| {
            let amounts = match p.unit {
                "bytes" => "{binary_bytes} of {binary_total_bytes}",
                _ => "{human_pos} of {human_len}",
            };
            new_bar(p.total, p.what, &format!("{amounts}, {{eta}} left"))
        })
    }

    /// Moves the bar of the measure phase: by time, or by operations.
    fn measured(&mut self, view: &IntervalView) {
        let (position, length, rest) = match (view.planned_ns, view.operations) {
            (_, (done, Some(all))) => {
                let per_op = view.elapsed_ns as f64 / done.max(1) as f64;
                (done, all, per_op * all.saturating_sub(done) as f64)
            }
            (Some(all), _) => {
                let rest = all.saturating_sub(view.elapsed_ns);
                (view.elapsed_ns, all, rest as f64)
            }
            (None, _) => return,
        };
        if self.doing != view.phase {
            self.end_progress();
            view.phase.clone_into(&mut self.doing);
        }
        let bar = self
            .bar
            .get_or_insert_with(|| new_bar(length, view.phase, "{msg}"));
        bar.set_position(position.min(length));
        bar.set_message(format!("{:.0} s left", rest / 1e9));
    }

    /// Whether an interval of this length gets a line now.
    fn due(&self, length_ns: u64) -> bool {
        length_ns >= SHOWN_NS || self.last_line.is_none_or(|t| t.elapsed() >= PAUSE)
    }
}

fn new_bar(length: u64, what: &str, rest: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    let template = format!("{{prefix}} {{wide_bar}} {rest}");
    // The templates above are fixed; the default style is a fair stand-in.
    let style = ProgressStyle::with_template(&template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
    bar.set_style(style);
    bar.set_prefix(what.to_owned());
    bar
}

impl Observer for Live {
    fn phase(&mut self, name: &str) {
        if self.doing != name {
            self.end_progress();
        }
    }

    fn interval(&mut self, view: &IntervalView) {
        if self.due(view.length_ns) {
            let mut text = String::new();
            if self.lines % HEADER_EVERY == 0 {
                text = self.columns.header() + "\n";
            }
            text += &self.columns.row(view);
            match &self.bar {
                Some(bar) => bar.suspend(|| output::line(&text)),
                None => output::line(&text),
            }
            self.lines += 1;
            self.last_line = Some(Instant::now());
        }
        if self.terminal && view.phase == "measure" {
            self.measured(view);
        }
    }

    fn progress(&mut self, progress: Progress<'_>) {
        self.show_progress(progress);
    }
}
