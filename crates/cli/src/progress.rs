//! How far long work is, on standard error: a bar on a terminal, else at most one plain line per second.
//!
//! Nothing is drawn on its own time: a display that wakes up by itself would disturb what is measured.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use taillight_core::progress::Progress;
use taillight_report::format::{bytes, count, duration_ns};

use crate::output;

/// Least time between two plain lines.
const PAUSE: Duration = Duration::from_secs(1);

/// Shows one piece of work after the other; lines of results can be printed beside the bar.
pub struct Shown {
    terminal: bool,
    bar: Option<ProgressBar>,
    doing: String,
    last_note: Option<Instant>,
    /// The work that goes on, since when, and how much of it was done then.
    began: Option<(String, Instant, u64)>,
}

impl Shown {
    /// With nothing shown yet. No bar where standard error is no terminal, and with `-q`.
    pub fn new() -> Shown {
        Shown {
            terminal: output::redraws() && !output::mode().quiet,
            bar: None,
            doing: String::new(),
            last_note: None,
            began: None,
        }
    }

    /// Shows how far `p` is, and how long the rest takes.
    pub fn step(&mut self, p: Progress<'_>) {
        if self.began.as_ref().is_none_or(|(what, ..)| what != p.what) {
            self.began = Some((p.what.to_owned(), Instant::now(), p.done));
            // Without a bar, work that is over within the first pause has no line.
            self.last_note = Some(Instant::now());
        }
        if self.terminal {
            let amounts = match p.unit {
                "bytes" => "{binary_bytes} of {binary_total_bytes}",
                _ => "{human_pos} of {human_len}",
            };
            let left = self.left(p);
            let bar = self.bar(p.what, p.total, &format!("{amounts}{{msg}}"));
            bar.set_message(left);
            bar.set_position(p.done.min(p.total));
        } else if self.last_note.is_none_or(|t| t.elapsed() >= PAUSE) {
            self.last_note = Some(Instant::now());
            let left = self.left(p);
            output::note(&(plain(p) + &left));
        }
    }

    /// How long the rest takes at the pace of this work so far, in words; empty before there is a pace, and at the end.
    fn left(&self, p: Progress<'_>) -> String {
        let Some((_, began, before)) = self.began.as_ref().filter(|_| p.done < p.total) else {
            return String::new();
        };
        let (done, rest) = (p.done.saturating_sub(*before), p.total - p.done);
        if done == 0 {
            return String::new();
        }
        let seconds = (began.elapsed().as_secs_f64() * rest as f64 / done as f64).ceil();
        format!(", about {} left", duration_ns((seconds * 1e9) as u64))
    }

    /// On a terminal, shows that `position` of `total` of the work `what` is done, with the words `rest` beside the
    /// bar.
    pub fn part(&mut self, what: &str, (position, total): (u64, u64), rest: String) {
        if self.terminal {
            let bar = self.bar(what, total, "{msg}");
            bar.set_position(position.min(total));
            bar.set_message(rest);
        }
    }

    /// The bar of this work, made when it begins.
    fn bar(&mut self, what: &str, total: u64, rest: &str) -> &ProgressBar {
        if self.doing != what {
            self.end();
            what.clone_into(&mut self.doing);
        }
        self.bar.get_or_insert_with(|| new_bar(what, total, rest))
    }

    /// Prints a line by [`output::line`] without tearing the bar.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::line(text)),
            None => output::line(text),
        }
    }

    /// The work is over: the bar goes.
    pub fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.doing.clear();
    }
}

fn plain(p: Progress<'_>) -> String {
    let percent = 100.0 * p.done as f64 / p.total.max(1) as f64;
    let amounts = match p.unit {
        "bytes" => format!("{} of {}", bytes(p.done), bytes(p.total)),
        unit => format!("{} of {} {unit}", count(p.done), count(p.total)),
    };
    format!("{}: {percent:.0} % ({amounts})", p.what)
}

fn new_bar(what: &str, total: u64, rest: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let template = format!("{{prefix}} [{{wide_bar}}] {rest}");
    // The templates are fixed and right; the default style is a fair stand-in.
    let style = ProgressStyle::with_template(&template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
    bar.set_style(style);
    bar.set_prefix(what.to_owned());
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_that_of_the_pace_so_far() {
        let p = |done| Progress { what: "loading", done, total: 100, unit: "records" };
        let mut shown = Shown::new();
        shown.step(p(10));
        assert_eq!(shown.left(p(10)), "", "no pace yet");
        shown.began = Some(("loading".to_owned(), Instant::now() - PAUSE, 10));
        assert!(shown.left(p(20)).ends_with(" s left"), "{}", shown.left(p(20)));
        assert_eq!(shown.left(p(100)), "");
    }

    #[test]
    fn each_work_has_a_pause_before_its_first_line() {
        let p = |what| Progress { what, done: 1, total: 2, unit: "chunks" };
        let mut shown = Shown::new();
        shown.step(p("reading"));
        let begun = Instant::now() - 2 * PAUSE;
        shown.last_note = Some(begun);
        shown.step(p("writing"));
        assert!(shown.last_note > Some(begun), "not told: it has just begun");
    }

    #[test]
    fn plain_lines_say_what_and_how_far() {
        let p = |unit| Progress { what: "laying out", done: 1 << 20, total: 4 << 20, unit };
        assert_eq!(plain(p("bytes")), "laying out: 25 % (1.00 MiB of 4.00 MiB)");
        assert_eq!(plain(p("I/Os")), "laying out: 25 % (1,048,576 of 4,194,304 I/Os)");
    }
}
