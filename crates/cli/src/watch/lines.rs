//! Lines while a program is watched: one for each slow operation once it is judged, at most [`LINES_MAX`] at a time and
//! the number of the others, and one for each second with what each kind of operation did.

use std::sync::{Arc, Mutex, PoisonError};

use taillight_core::OpKind;
use taillight_core::units::readable::in_line;
use taillight_explain::{Culprit, SlowNow, SlowSoFar};
use taillight_report::format::{bytes, count, duration_ns};
use taillight_rundir::layers::LayerRow;
use taillight_rundir::manifest::ClockInfo;
use taillight_trace::watch::{KnownCalls, lower_edge};

use super::counts::Second;
use super::live::WatchLive;
use super::waits::called;
use crate::output;

/// Slow operations that have a line of their own each time that some were judged, which is once a second.
const LINES_MAX: usize = 20;

/// Writes the lines.
pub struct WatchLines {
    so_far: SlowSoFar,
    known: Arc<Mutex<KnownCalls>>,
    clock: ClockInfo,
    /// On standard error, because a program that was started writes to standard output.
    aside: bool,
    titled: bool,
    /// From which latency on an operation is slow, ns; None where that is not fixed (`--top`).
    slower_ns: Option<u64>,
    /// The live view, which is told the layers of slow operations as well.
    pub shown: Option<WatchLive>,
}

impl WatchLines {
    pub fn new(
        known: Arc<Mutex<KnownCalls>>,
        clock: ClockInfo,
        aside: bool,
        slower_ns: Option<u64>,
    ) -> WatchLines {
        let so_far = SlowSoFar::new(slower_ns.map(|ns| ns.saturating_sub(1)), false).telling();
        WatchLines { so_far, known, clock, aside, titled: false, slower_ns, shown: None }
    }

    fn say(&self, text: &str) {
        match self.aside {
            true => output::note(text),
            false => output::line(text),
        }
    }

    /// Takes up `rows` seen since the last time, and `more` slow operations that have none; writes a line for each slow
    /// operation before these that can be judged now.
    pub fn seen(&mut self, rows: Vec<LayerRow>, more: u64) {
        let causes = self.so_far.look(rows, more, i64::MIN);
        if let Some(live) = &self.shown {
            live.slow(causes);
        }
        let mut judged = self.so_far.judged();
        judged.sort_by_key(|j| j.verdict.slow.complete_ns);
        let hidden = judged.len().saturating_sub(LINES_MAX) as u64 + more;
        if !judged.is_empty() && !self.titled {
            self.titled = true;
            self.say(&line(&TITLE.map(str::to_owned)));
        }
        // The slowest of many.
        let mut slowest: Vec<u64> = judged.iter().map(latency).collect();
        slowest.sort_unstable_by(|a, b| b.cmp(a));
        let least = slowest.get(LINES_MAX - 1).copied().unwrap_or(0);
        for one in judged.iter().filter(|one| latency(one) >= least).take(LINES_MAX) {
            self.say(&self.line(one));
        }
        if hidden > 0 {
            self.say(&format!("... and {} more slow operations", count(hidden)));
        }
    }

    fn line(&self, one: &SlowNow) -> String {
        let slow = &one.verdict.slow;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let call = known.get(slow.worker, slow.submit_ns);
        let who = call.map_or_else(String::new, |call| called(&call.facts.who));
        let file = call.and_then(|call| known.files.get(call.file?)).map(|file| file.words());
        let size = call.filter(|_| slow.op as u8 <= 1).and_then(|call| call.size);
        let layer = one.verdict.layer.words();
        let layer = match one.verdict.certainty() {
            Some("likely") => format!("{layer}, likely"),
            _ => layer.to_owned(),
        };
        line(&[
            self.time(slow.complete_ns),
            who,
            call.map_or(slow.op.name(), |call| call.facts.call()).to_owned(),
            file.map_or("-".to_owned(), in_line),
            size.map_or("-".to_owned(), bytes),
            duration_ns(latency(one)),
            layer,
            one.culprit().map(|who| named(who, slow.op)).unwrap_or_default(),
        ])
    }

    /// Hours, minutes, seconds and milliseconds (UTC) of a stamp.
    fn time(&self, at_ns: i64) -> String {
        let ns =
            self.clock.realtime_ns.saturating_add(at_ns.saturating_sub(self.clock.monotonic_ns));
        let ms = ns.max(0) / 1_000_000;
        let (s, ms) = (ms / 1000, ms % 1000);
        format!("{:02}:{:02}:{:02}.{ms:03}", s / 3600 % 24, s / 60 % 60, s % 60)
    }

    /// Writes the line of a second that ended at `at_ns`: of each kind its rate, its longest latency, and slow ones.
    pub fn second(&self, at_ns: i64, length_ns: i64, second: &Second) {
        let per_s = |n: u64| (n as f64 * 1e9 / length_ns.max(1) as f64).round() as u64;
        let of = |(op, tally): &(OpKind, taillight_trace::watch::CallTally)| {
            let up_to =
                |(place, _): &(u16, u64)| format!("up to {}", duration_ns(lower_edge(place + 1)));
            let most = tally.places.last().map_or("of unknown latency".to_owned(), up_to);
            let slow = match self.slower_ns.map_or(0, |ns| tally.at_least(ns)) {
                0 => String::new(),
                n => format!(", {} slow", count(n)),
            };
            let rate = count(per_s(tally.count));
            format!("{} {rate}/s {most}{slow}", op.name())
        };
        let all: Vec<String> = second.iter().map(of).collect();
        let all = if all.is_empty() { "nothing".to_owned() } else { all.join("; ") };
        self.say(&format!("{} seen: {all}", self.time(at_ns)));
    }
}

const TITLE: [&str; 8] =
    ["TIME (UTC)", "PROCESS", "CALL", "FILE", "SIZE", "LATENCY", "LAYER", "WHO"];

fn line(cells: &[String; 8]) -> String {
    let [time, who, call, file, size, latency, layer, culprit] = cells;
    let text = format!(
        "{time:<12} {who:<22} {call:<12} {latency:>9} {size:>9} {layer:<28} {file} {culprit}"
    );
    text.trim_end().to_owned()
}

fn latency(one: &SlowNow) -> u64 {
    let slow = &one.verdict.slow;
    slow.complete_ns.saturating_sub(slow.submit_ns).max(0) as u64
}

fn named(culprit: &Culprit, op: OpKind) -> String {
    match culprit.tid.filter(|_| op == OpKind::Wait).or(culprit.pid) {
        Some(tid) if op == OpKind::Wait => format!("(for {}[{tid}])", in_line(&culprit.name)),
        Some(pid) => format!("({}, pid {pid})", in_line(&culprit.name)),
        None => format!("({})", in_line(&culprit.name)),
    }
}
