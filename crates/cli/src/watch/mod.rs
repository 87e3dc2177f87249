//! `taillight watch`: why operations of another program are slow, while it runs: processes, a unit or control group, or
//! a command that is started for it. Trace programs (`taillight_trace::watch`) see its operations; slow ones get lines
//! with their layers, and at the end there is a run directory with a report, as after a run.

mod alone;
mod counts;
mod ending;
mod exact;
mod lines;
mod live;
mod plan;
mod record;
mod said;
mod subject;
mod sys;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use taillight_core::exit::Exit;
use taillight_core::units::readable::in_line;
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Clock, Error, MonoClock, OpKind, Result};
use taillight_machine::Sys;
use taillight_rundir::RunDir;
use taillight_rundir::layers::LayerRow;
use taillight_rundir::watched::WatchedOp;
use taillight_suite::runner::DEFAULT_PARENT;
use taillight_trace::Environment;
use taillight_trace::watch::{JUDGED, WatchedRequest, Watching, call_named};

use crate::args::WatchArgs;
use crate::run::{Signals, ceiling_parts, directory};
use crate::{outcome, output, problem, report};
use alone::Alone;
use counts::{Counts, io_of};
use lines::WatchLines;
use live::WatchLive;
use subject::{Started, Subject, started_at};

/// Without `--slower` and `--top`, operations that take as long or longer are slow: kept and explained, ns.
const SLOWER_NS: u64 = 10_000_000;
/// The same with `--top`, until the slowest part is known, ns.
const TOP_FROM_NS: u64 = 100_000;
/// Memory and disk for kept operations without `--keep`, bytes.
const KEEP: u64 = 1 << 30;
/// Time between two looks whether the watch, or the program, is over.
const PAUSE: Duration = Duration::from_millis(50);
/// A unit or control group may be empty for so long, as while it restarts, before the watch ends.
const EMPTY: Duration = Duration::from_secs(10);
/// From one line of figures to the next.
const SECOND: Duration = Duration::from_secs(1);

/// A latency that must hold.
#[derive(Clone)]
pub struct AskedCeiling {
    time: String,
    at: String,
    op: Option<OpKind>,
}

impl AskedCeiling {
    /// Kinds of operation that the ceiling is of: the one named; else those of reads, writes and syncs that were seen.
    fn kinds(&self, seen: &[OpKind]) -> Vec<OpKind> {
        let judged = JUDGED.into_iter().filter(|op| seen.contains(op));
        self.op.map_or_else(|| judged.collect(), |op| vec![op])
    }
}

/// The kind of operation of `--op`, and the call where `--op` names one: then no other call of its kind is looked at.
fn judged(word: &String) -> Result<(OpKind, Option<&'static str>)> {
    if let Some(kind) = JUDGED.into_iter().find(|op| op.name() == word) {
        return Ok((kind, None));
    }
    let unknown = match call_named(word) {
        Some((kind, call)) if JUDGED.contains(&kind) => return Ok((kind, Some(call))),
        Some(_) => "of such calls only those that block are seen: no ceiling can be decided",
        None => "there is no such operation",
    };
    Err(Error::usage(unknown)
        .with("--op", word)
        .hint("read, write or fsync, or one call of these like fdatasync"))
}

/// The flags, read.
#[derive(Clone)]
pub struct Asked {
    slower_ns: u64,
    /// Share of the operations that is slow, where it was given.
    top: Option<f64>,
    length: Option<Duration>,
    ceiling: Option<AskedCeiling>,
    keep: u64,
    /// Of the calls of its kind only this one is looked at.
    only: Option<&'static str>,
    /// Paths of a record are hashed.
    hashed: bool,
    /// Most that the trace programs may take, as a share of a CPU.
    max_cost: Option<f64>,
    /// Share of the time in which every call is looked at.
    exact: Option<f64>,
}

impl Asked {
    fn of(args: &WatchArgs) -> Result<Asked> {
        let slower = value::<Span>("--slower", args.slower.as_deref())?;
        let length = value::<Span>("--for", args.length.as_deref())?;
        for (flag, time) in [("--slower", &slower), ("--for", &length)] {
            if time.as_ref().is_some_and(|time| time.0 == 0) {
                return Err(Error::usage("the time must be longer than nothing").with(flag, "0"));
            }
        }
        let keep = value::<ByteSize>("--keep", args.keep.as_deref())?;
        let op = args.op.as_ref().map(judged).transpose()?;
        let only = op.and_then(|(_, call)| call);
        let ceiling = args.ceiling.as_deref().map(ceiling_parts).transpose()?;
        let top = ("the slowest part is a share of at most 10%", "like --top 0.1%");
        let cost = ("what it may cost is a share of a CPU", "like --max-cost 2%");
        let exact =
            ("every call is looked at in a share of the time, of at most 50%", "like --exact 5%");
        let unsaid = if args.top.is_some() { TOP_FROM_NS } else { SLOWER_NS };
        Ok(Asked {
            slower_ns: slower.map_or(unsaid, |s| s.0.max(1)),
            top: args.top.as_deref().map(|t| share(t, ("--top", 10.0), top)).transpose()?,
            length: length.map(|l| Duration::from_nanos(l.0)),
            ceiling: ceiling.map(|(time, at)| AskedCeiling {
                time: time.into(),
                at: at.into(),
                op: op.map(|(kind, _)| kind),
            }),
            keep: keep.map_or(KEEP, |k| k.0),
            only,
            hashed: args.record && !args.names,
            exact: args.exact.as_deref().map(|t| share(t, ("--exact", 50.0), exact)).transpose()?,
            max_cost: args
                .max_cost
                .as_deref()
                .map(|t| share(t, ("--max-cost", 100.0), cost))
                .transpose()?,
        })
    }
}

/// The value of a flag, if it was given.
fn value<T: FromStr<Err = String>>(flag: &'static str, text: Option<&str>) -> Result<Option<T>> {
    let read = |text: &str| text.parse().map_err(|e: String| Error::usage(e).with(flag, text));
    text.map(read).transpose()
}

/// A share like `0.1%`, above 0 and at most `most` percent, as a fraction. Errors: `Usage` with `what` and `like`.
fn share(
    text: &str,
    (flag, most): (&'static str, f64),
    (what, like): (&'static str, &'static str),
) -> Result<f64> {
    let number = text.strip_suffix('%').and_then(|n| n.parse::<f64>().ok());
    let number = number.filter(|n| *n > 0.0 && *n <= most).map(|n| n / 100.0);
    number.ok_or_else(|| Error::usage(what).with(flag, text).hint(like))
}

/// What the collector has seen since it told last: rows, and how many slow operations more there are without a row.
type Told = (Vec<LayerRow>, u64);

/// Runs the command. The exit code is that of a program that was started where it is not 0; else that of a signal; else
/// that of the report, in which failed I/Os count as 0. Errors: `Usage` and `Unavailable` for what cannot be watched,
/// which leaves no run directory; those of the report, by which what was seen is kept.
pub fn main(args: &WatchArgs) -> Result<u8> {
    let asked = Asked::of(args)?;
    let subject = Subject::of(args)?;
    let name = subject.name();
    let sys = Sys::default();
    let first = plan::plan(&name, &asked, &JUDGED, 0)?;
    Watching::allowed(&sys)?;
    let (tell, told) = channel();
    let signals = Signals::install(false)?;
    let _only = Alone::with(&subject.pids())?;
    let live = args.live.as_deref().map(WatchLive::start).transpose()?;
    let path = directory::series_directory(args.output.as_deref(), &name, false)?;
    let environment = Environment::before(&sys, None);
    let mut manifest = plan::manifest(first, subject.label(), &path);
    manifest.environment = environment.map().clone();
    let dir = RunDir::create(&path, &manifest)?;
    let request = WatchedRequest {
        watch: Box::new(move |rows, more| drop(tell.send((rows, more)))),
        slow_ns: asked.slower_ns,
        spill: dir.path(),
        keep: usize::try_from(asked.keep).unwrap_or(usize::MAX),
        record: args.record,
        max_cost: asked.max_cost,
        exact: asked.exact,
        only: asked.only,
    };
    let watching = match Watching::start(request, &sys) {
        Ok(watching) => watching,
        Err(e) => return Err(nothing_seen(dir, e)),
    };
    let mut watch = ActiveWatch {
        watching,
        counts: Counts::default(),
        subject,
        started: None,
        exit_code: None,
        pids: Vec::new(),
        began_ns: 0,
        added: BTreeMap::new(),
        unwatched: BTreeSet::new(),
        slower_ns: asked.slower_ns,
    };
    if let Err(e) = watch.begin() {
        drop(watch);
        return Err(nothing_seen(dir, e));
    }
    manifest.phases.iter_mut().for_each(|phase| phase.start_ns = watch.began_ns);
    let _named = signals.in_run(dir.path());
    watch.announce(&path);
    if let Some(call) = asked.only {
        output::note(&format!("of its kind of calls only {call} is looked at, for --op"));
    }
    let aside = matches!(watch.subject, Subject::Command(_));
    let clock = manifest.clock.clone();
    let slower_ns = asked.top.is_none().then_some(asked.slower_ns);
    let mut lines = WatchLines::new(watch.watching.known(), clock, aside, slower_ns);
    lines.shown = live.map(|live| live.begin(&manifest, &dir)).transpose()?;
    let why = watch.go_on(&asked, &signals, &told, &mut lines);
    output::note(&format!("watching ended: {why}"));
    let (started, exit_code) = (watch.started.take(), watch.exit_code);
    let reported = watch
        .end((dir, manifest), &asked, &told, &mut lines)
        .and_then(|kept| show_report(&kept, aside));
    if let Some(live) = lines.shown.take() {
        live.end(reported.is_ok(), &path);
    }
    let exit_code = exit_code.or_else(|| waited(started?, &signals));
    ended_with(exit_code, reported, &signals)
}

/// The exit code of the command. Errors: those of the report, where the program did not end with a code of its own.
fn ended_with(program: Option<u8>, reported: Result<Exit>, signals: &Signals) -> Result<u8> {
    let exit = match reported {
        Ok(exit) => signals.exit().unwrap_or(exit),
        Err(e) if program.is_some_and(|code| code != 0) => problem::show(&e),
        Err(e) => return Err(e),
    };
    Ok(match program {
        Some(code) if code != 0 => code,
        // What failed is the program's own to judge.
        _ if exit == Exit::IoErrors => 0,
        _ => exit.code(),
    })
}

/// Waits for the exit code of a program that was started, after the watch has ended. None where a signal came and the
/// program has not ended within a second of it.
fn waited(mut started: Started, signals: &Signals) -> Option<u8> {
    let told = started.exit_code();
    if told.is_none() && !signals.stop().stopped() {
        output::note("the program goes on: waiting for its exit code (Ctrl-C ends the wait)");
    }
    // A signal from the terminal comes to both.
    let mut left = if signals.stop().stopped() { 20 } else { u32::MAX };
    let mut code = told;
    while code.is_none() && left > 0 {
        std::thread::sleep(PAUSE);
        left = if signals.stop().stopped() { left.min(20) - 1 } else { left };
        code = started.exit_code();
    }
    code
}

/// Makes the report of a run directory and shows it; the exit that its summary asks for.
fn show_report(kept: &Path, aside: bool) -> Result<Exit> {
    let report = report::of_run(kept, None, true)?;
    let text = format!("\n{}", report.text.trim_end());
    if aside {
        output::note(&text)
    } else {
        output::result(&text)
    }
    Ok(report.summaries.first().map_or(Exit::Ok, outcome::exit_code))
}

/// Nothing was watched: no run directory stays.
fn nothing_seen(dir: RunDir, e: Error) -> Error {
    let path = dir.path().to_owned();
    drop(dir);
    let _ = std::fs::remove_file(path.join(taillight_rundir::names::MANIFEST));
    // Both are left alone when they hold anything.
    let _ = std::fs::remove_dir(&path);
    if let Some(parent) = path.parent().filter(|p| p.ends_with(DEFAULT_PARENT)) {
        let _ = std::fs::remove_dir(parent);
    }
    e
}

/// Watching, under way.
struct ActiveWatch {
    watching: Watching,
    counts: Counts,
    subject: Subject,
    started: Option<Started>,
    exit_code: Option<u8>,
    /// Processes watched from the start.
    pids: Vec<u32>,
    /// When watching began.
    began_ns: i64,
    /// Processes that were added by number.
    added: BTreeMap<u32, AddedProcess>,
    /// Processes that found no room among those that are watched.
    unwatched: BTreeSet<u32>,
    /// The largest latency that operations were kept from so far, ns: as long or longer ones were kept all the time.
    slower_ns: u64,
}

/// A process that was there before it was watched.
struct AddedProcess {
    /// When it was started, in ticks since boot.
    start: u64,
    /// Calls that read and that wrote which the kernel had counted of it by then, where it tells them.
    before: Option<[u64; 2]>,
}

impl ActiveWatch {
    /// Begins to watch the processes that are there, or starts the program. Errors: `Unavailable` where there is no
    /// process, or the program cannot be started.
    fn begin(&mut self) -> Result<()> {
        self.began_ns = MonoClock.now().0;
        self.counts = Counts::begin(self.began_ns);
        // Twice: the first ones may have started others before they were watched.
        self.take_up()?;
        self.take_up()?;
        self.pids = self.watching.pids();
        if let Subject::Command(words) = &self.subject {
            let (watching, counts, pids) = (&self.watching, &mut self.counts, &mut self.pids);
            self.started = Some(Started::start(words, |pid| {
                // So far it has only said its number; who has capabilities by a file may not look at it before it is the
                // program.
                counts.count(Some(io_of(pid).unwrap_or_default()));
                pids.push(pid);
                watching.add(pid)
            })?);
        } else if self.pids.is_empty() {
            return Err(Error::unavailable("there is no process to watch")
                .hint("it has ended, or the control group is empty: start the program first"));
        }
        Ok(())
    }

    /// Watches processes that are there and are not watched yet. Errors: those of one that cannot be watched, which does
    /// not keep the others from it.
    fn take_up(&mut self) -> Result<()> {
        let there = self.subject.pids();
        // Read later: whom a watched one has forked meanwhile the programs know by then, with all that it did.
        let (known, mut all) = (self.watching.pids(), Ok(()));
        let new = |pid: &u32| known.binary_search(pid).is_err();
        for pid in there.into_iter().filter(new) {
            let Some(start) = started_at(pid) else { continue };
            // What it does from here on is in the kernel's later count, and may be missed; never the other way round.
            let before = io_of(pid);
            match self.watching.add(pid) {
                Ok(()) => {
                    self.counts.count(before);
                    self.added.insert(pid, AddedProcess { start, before });
                }
                Err(e) => {
                    self.unwatched.insert(pid);
                    all = Err(e);
                }
            }
        }
        self.drop_ended();
        all
    }

    /// Stops watching processes that are not there any more: the end of one that ended before it was added is not seen,
    /// and whoever gets its number later would be watched.
    fn drop_ended(&mut self) {
        let ended = |(pid, process): (&u32, &AddedProcess)| {
            (started_at(*pid) != Some(process.start)).then_some(*pid)
        };
        let gone: Vec<u32> = self.added.iter().filter_map(ended).collect();
        if gone.is_empty() {
            return;
        }
        let known = self.watching.pids();
        for pid in gone {
            let Some(process) = self.added.remove(&pid) else { continue };
            // The programs know no more whom they saw end, and have the kernel's count of these.
            if known.binary_search(&pid).is_ok() {
                self.watching.remove(pid);
                self.counts.take_back(process.before);
            }
        }
    }

    /// Called once a second: takes up processes that came into the control group (those without room are counted), and
    /// drops those that are not there any more.
    fn follow_up(&mut self) {
        if matches!(self.subject, Subject::Group(_)) {
            let _ = self.take_up();
        } else {
            self.drop_ended();
        }
    }

    fn announce(&self, path: &std::path::Path) {
        self.watching.missing().iter().for_each(|m| output::note(m));
        if self.counts.untold() {
            output::note(
                "how often a program of another user reads and writes the kernel tells with CAP_SYS_PTRACE alone: without \
                 it there are rates and percentiles of its requests and syncs, and with --exact of every call",
            );
        }
        output::note(&format!(
            "watching {} ({}); loaded in {} ms, attached in {} ms; run directory: {}",
            in_line(self.subject.label()),
            listed(&self.pids),
            self.watching.loaded_in.as_millis(),
            self.watching.attached_in.as_millis(),
            in_line(path.display())
        ));
    }

    /// Why it is over, if it is; `empty` is since when a control group has nobody.
    fn over(&self, empty: &mut Option<Instant>) -> Option<&'static str> {
        // The exit code of a program that was started is still to come.
        if self.started.is_some() || !self.watching.is_empty() {
            *empty = None;
            return None;
        }
        if !matches!(self.subject, Subject::Group(_)) {
            return Some("the program has ended");
        }
        let since = *empty.get_or_insert_with(|| {
            output::note("nobody is left in the control group: waiting 10 s for a restart");
            Instant::now()
        });
        (since.elapsed() >= EMPTY).then_some("nobody came back to the control group")
    }

    /// Shows what is seen until the program, the time of `--for`, a signal or `--max-cost` ends the watch. Returns why.
    fn go_on(
        &mut self,
        asked: &Asked,
        signals: &Signals,
        told: &Receiver<Told>,
        lines: &mut WatchLines,
    ) -> &'static str {
        let (began, mut empty) = (Instant::now(), None);
        let (mut last, mut at_ns) = (Instant::now(), MonoClock.now().0);
        loop {
            match told.recv_timeout(PAUSE) {
                Ok((rows, more)) => lines.seen(rows, more),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return "the collector ended",
            }
            if let Some(code) = self.started.as_mut().and_then(Started::exit_code) {
                self.exit_code = Some(code);
                self.started = None;
            }
            if signals.stop().stopped() {
                return "by a signal";
            }
            if asked.length.is_some_and(|length| began.elapsed() >= length) {
                return "the time of --for is over";
            }
            if self.watching.is_too_dear() {
                return "it cost more than --max-cost, with all left out that can be";
            }
            if let Some(why) = self.over(&mut empty) {
                return why;
            }
            if last.elapsed() >= SECOND {
                last = Instant::now();
                let now = MonoClock.now().0;
                let second = self.counts.close(now, &self.watching);
                lines.second(now, now - at_ns, &second);
                if let Some(live) = &mut lines.shown {
                    live.second((at_ns, now), &second, &self.ops(asked));
                }
                at_ns = now;
                self.follow_up();
                if let Some(top) = asked.top {
                    self.follow(top);
                }
            }
        }
    }

    /// From now on operations are slow from the latency on that the share `top` of them lies above so far.
    fn follow(&mut self, top: f64) {
        if let Some(ns) = self.counts.above(top) {
            self.watching.keep_from(ns);
            self.slower_ns = self.slower_ns.max(ns);
        }
    }

    /// Each kind of operation so far, and whether it was counted whole.
    fn ops(&self, asked: &Asked) -> Vec<WatchedOp> {
        let live: Option<Vec<[u64; 2]>> = self.watching.pids().into_iter().map(io_of).collect();
        // Read later than those of the living: who ends in between is there twice, and not missing.
        let ended = self.watching.of_ended();
        let add = |sum: [u64; 2], one: &[u64; 2]| [sum[0] + one[0], sum[1] + one[1]];
        let kernel = live.map(|live| live.iter().fold(ended, add));
        let mut ops = match self.watching.no_room() + self.unwatched.len() as u64 {
            0 => self.counts.ops(self.watching.counted(), kernel, asked.slower_ns),
            _ => self.counts.ops_of_a_part(kernel, asked.slower_ns),
        };
        // A ceiling is of all of its kind: a part decides nothing.
        let seen: Vec<OpKind> = ops.iter().map(|op| op.op).collect();
        let judged = asked.ceiling.as_ref().map_or_else(Vec::new, |ceiling| ceiling.kinds(&seen));
        let judged = ops.iter_mut().filter(|op| judged.contains(&op.op));
        judged.for_each(|op| op.requests_alone = false);
        ops
    }
}

/// Numbers of processes, the first few of many.
fn listed(pids: &[u32]) -> String {
    const NAMED: usize = 8;
    let named: Vec<String> = pids.iter().take(NAMED).map(u32::to_string).collect();
    let more = pids.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(", ") + &more
}
