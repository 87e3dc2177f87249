//! `taillight watch`: why the tail of a program that others wrote is slow, while it runs. Who is watched is
//! `subject`, how much was seen `counts`; the run directory is one like that of a run, and its report as well.

mod counts;
mod lines;
mod plan;
mod subject;
mod sys;

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use taillight_core::exit::Exit;
use taillight_core::units::readable::in_line;
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Clock, Error, MonoClock, OpKind, Result};
use taillight_machine::Sys;
use taillight_report::format;
use taillight_rundir::layers::LayerRow;
use taillight_rundir::watched::{WatchedFile, WatchedOp, write_counts};
use taillight_rundir::{RunDir, RunStatus, SCHEMA_VERSION, sums};
use taillight_suite::runner::DEFAULT_PARENT;
use taillight_trace::Environment;
use taillight_trace::watch::{WatchResult, WatchedRequest, Watching, op_of};

use crate::args::WatchArgs;
use crate::run::{Signals, ceiling_parts, directory};
use crate::{outcome, output, report};
use counts::{Counts, io_of};
use lines::WatchLines;
use subject::{Started, Subject};

/// Operations that take as long are explained, ns.
const SLOWER_NS: u64 = 10_000_000;
/// Memory and disk for them, bytes.
const KEEP: u64 = 1 << 30;
/// How often somebody looks whether it is over.
const PAUSE: Duration = Duration::from_millis(50);
/// From one line of figures to the next.
const SECOND: Duration = Duration::from_secs(1);

/// A latency that must hold.
#[derive(Clone)]
pub struct AskedCeiling {
    time: String,
    at: String,
    op: Option<OpKind>,
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
}

impl Asked {
    fn of(args: &WatchArgs) -> Result<Asked> {
        let slower = value::<Span>("--slower", args.slower.as_deref())?;
        let length = value::<Span>("--for", args.length.as_deref())?;
        let keep = value::<ByteSize>("--keep", args.keep.as_deref())?;
        let op = |word: &String| {
            op_of(word).ok_or_else(|| {
                Error::usage("there is no such operation")
                    .with("--op", word)
                    .hint("read, write, fsync, or a system call like pread64 or fdatasync")
            })
        };
        let op = args.op.as_ref().map(op).transpose()?;
        let ceiling = args.ceiling.as_deref().map(ceiling_parts).transpose()?;
        Ok(Asked {
            slower_ns: slower.map_or(SLOWER_NS, |s| s.0.max(1)),
            top: args.top.as_deref().map(share).transpose()?,
            length: length.map(|l| Duration::from_nanos(l.0)),
            ceiling: ceiling.map(|(time, at)| AskedCeiling {
                time: time.into(),
                at: at.into(),
                op,
            }),
            keep: keep.map_or(KEEP, |k| k.0),
        })
    }
}

/// The value of a flag, if it was given.
fn value<T: FromStr<Err = String>>(flag: &'static str, text: Option<&str>) -> Result<Option<T>> {
    let read = |text: &str| text.parse().map_err(|e: String| Error::usage(e).with(flag, text));
    text.map(read).transpose()
}

/// A share like `0.1%`.
fn share(text: &str) -> Result<f64> {
    let number = text.strip_suffix('%').and_then(|n| n.parse::<f64>().ok());
    number.filter(|n| *n > 0.0 && *n <= 10.0).map(|n| n / 100.0).ok_or_else(|| {
        Error::usage("the slowest part is a share of at most 10%")
            .with("--top", text)
            .hint("like --top 0.1%")
    })
}

/// What was seen since, as the collector tells it.
type Told = (Vec<LayerRow>, u64);

/// Runs the command. Errors: `Usage` and `Unavailable` for what cannot be watched. What was seen is kept.
pub fn main(args: &WatchArgs) -> Result<u8> {
    let asked = Asked::of(args)?;
    let subject = Subject::of(args)?;
    let name = subject.name();
    let sys = Sys::default();
    let every = [OpKind::Read, OpKind::Write, OpKind::Fsync];
    let first = plan::plan(&name, &asked, &every, 0)?;
    let (tell, told) = channel();
    let signals = Signals::install(false)?;
    let _only = Alone::with(&subject.pids())?;
    let path = directory::series_directory(args.output.as_deref(), &name, false)?;
    let environment = Environment::before(&sys, None);
    let mut manifest = plan::manifest(first, subject.words(), &path);
    manifest.environment = environment.map().clone();
    let dir = RunDir::create(&path, &manifest)?;
    let request = WatchedRequest {
        watch: Box::new(move |rows, more| drop(tell.send((rows, more)))),
        slow_ns: asked.slower_ns,
        spill: dir.path(),
        keep: usize::try_from(asked.keep).unwrap_or(usize::MAX),
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
    };
    if let Err(e) = watch.begin() {
        drop(watch);
        return Err(nothing_seen(dir, e));
    }
    manifest.phases.iter_mut().for_each(|phase| phase.start_ns = watch.began_ns);
    let _named = signals.in_run(dir.path());
    watch.announce(&path);
    let aside = matches!(watch.subject, Subject::Command(_));
    let clock = manifest.clock.clone();
    let slower_ns = asked.top.is_none().then_some(asked.slower_ns);
    let mut lines = WatchLines::new(watch.watching.known(), clock, aside, slower_ns);
    watch.go_on(&asked, &signals, &told, &mut lines);
    let exit_code = watch.exit_code;
    let kept = watch.end(dir, manifest, &asked, &told, &mut lines)?;
    let report = report::of_run(&kept, None, true)?;
    let text = format!("\n{}", report.text.trim_end());
    if aside {
        output::note(&text)
    } else {
        output::result(&text)
    }
    let summary = report.summaries.first();
    let exit = signals.exit().or_else(|| summary.map(outcome::exit_code)).unwrap_or(Exit::Ok);
    Ok(match exit_code {
        Some(code) if code != 0 => code,
        // What failed is the program's own to judge.
        _ if exit == Exit::IoErrors => 0,
        _ => exit.code(),
    })
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
    /// Watched from the start.
    pids: Vec<u32>,
    /// When that was.
    began_ns: i64,
}

impl ActiveWatch {
    /// Begins with those who are there, or starts the program.
    fn begin(&mut self) -> Result<()> {
        self.began_ns = MonoClock.now().0;
        self.counts = Counts::begin(self.began_ns);
        self.take_up()?;
        self.pids = self.watching.pids();
        if let Subject::Command(words) = &self.subject {
            let (watching, counts, pids) = (&self.watching, &mut self.counts, &mut self.pids);
            self.started = Some(Started::start(words, |pid| {
                counts.count(pid);
                pids.push(pid);
                watching.add(pid)
            })?);
        } else if self.pids.is_empty() {
            return Err(Error::unavailable("there is no process to watch")
                .hint("the control group is empty: start the program first"));
        }
        Ok(())
    }

    /// Watches processes that have come, too: those that others moved into the control group.
    fn take_up(&mut self) -> Result<()> {
        let known = self.watching.pids();
        for pid in self.subject.pids().into_iter().filter(|pid| !known.contains(pid)) {
            self.counts.count(pid);
            self.watching.add(pid)?;
        }
        Ok(())
    }

    fn announce(&self, path: &std::path::Path) {
        self.watching.missing().iter().for_each(|m| output::note(m));
        output::note(&format!(
            "watching {} ({}); attached in {} ms; run directory: {}",
            in_line(self.subject.words()),
            self.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
            self.watching.attached_in.as_millis(),
            in_line(path.display())
        ));
    }

    /// Until the end: of the program, of the time, or by a signal.
    fn go_on(
        &mut self,
        asked: &Asked,
        signals: &Signals,
        told: &Receiver<Told>,
        lines: &mut WatchLines,
    ) {
        let began = Instant::now();
        let (mut last, mut at_ns) = (Instant::now(), MonoClock.now().0);
        loop {
            match told.recv_timeout(PAUSE) {
                Ok((rows, more)) => lines.seen(rows, more),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if let Some(code) = self.started.as_mut().and_then(Started::ended) {
                self.exit_code = Some(code);
                self.started = None;
            }
            let over = asked.length.is_some_and(|length| began.elapsed() >= length);
            if over || signals.stop().stopped() || self.watching.pids().is_empty() {
                return;
            }
            if last.elapsed() >= SECOND {
                last = Instant::now();
                let now = MonoClock.now().0;
                let second = self.counts.close(now, &self.watching);
                lines.second(now, now - at_ns, &second);
                at_ns = now;
                // Those beyond what can be watched are told at the start.
                let _ = self.take_up();
                if let Some(top) = asked.top {
                    self.follow(top);
                }
            }
        }
    }

    /// The latency that so many lie above is slow from now on.
    fn follow(&self, top: f64) {
        self.slowest(top).iter().for_each(|ns| self.watching.keep_from(*ns));
    }

    /// The latency that so many of a kind lie above so far, ns: the least of all kinds.
    fn slowest(&self, top: f64) -> Option<u64> {
        self.counts.all().values().filter_map(|tally| tally.above(top)).min()
    }

    /// Ends watching and finishes the run directory.
    fn end(
        mut self,
        mut dir: RunDir,
        mut manifest: taillight_rundir::Manifest,
        asked: &Asked,
        told: &Receiver<Told>,
        lines: &mut WatchLines,
    ) -> Result<PathBuf> {
        let now = MonoClock.now().0;
        self.counts.close(now, &self.watching);
        let slower_ns = asked.top.and_then(|top| self.slowest(top)).unwrap_or(asked.slower_ns);
        let asked = &Asked { slower_ns, ..asked.clone() };
        let live: Vec<[u64; 2]> = self.watching.pids().into_iter().map(io_of).collect();
        let ended = self.watching.of_ended();
        let kernel = live.iter().fold(ended, |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        let ops = self.counts.ops(self.watching.counted(), kernel, asked.slower_ns);
        let mut kinds: Vec<OpKind> = ops.iter().map(|op| op.op).collect();
        if kinds.is_empty() {
            kinds.push(OpKind::Read);
        }
        let ns = (now - self.began_ns).max(1) as u64;
        let ActiveWatch { watching, counts, exit_code, pids, .. } = self;
        let result = watching.finish(&dir, &kinds)?;
        // What was told last, and once more for the verdicts on it.
        told.try_iter().for_each(|(rows, more)| lines.seen(rows, more));
        lines.seen(Vec::new(), 0);
        manifest.plan = plan::plan(&manifest.plan.run.name, asked, &kinds, ns)?;
        if ops.iter().any(|op| op.whole) {
            write_counts(&dir, &manifest.clock, &counts.whole(&ops, &kinds))?;
        }
        said(&ops, &result);
        let seen = ops.iter().map(|op| op.seen).sum();
        manifest.phases.iter_mut().for_each(|p| (p.end_ns, p.ios) = (Some(now), seen));
        manifest.status = RunStatus::Complete;
        manifest.capture.kept = result.slow;
        manifest.losses.ios = result.info.ios_lost;
        manifest.losses.trace_events = Some(result.info.events_lost + result.info.ios_lost);
        manifest.overhead.trace_ns_per_op = result.info.program_ns_per_op;
        manifest.overhead.collector_ns_per_op = result.info.collector_ns_per_op;
        let file = WatchedFile {
            schema: SCHEMA_VERSION,
            pids,
            exit_code,
            slower_ns: asked.slower_ns,
            ops,
            files: result.files.iter().map(|file| file.words()).collect(),
            attach_ns: result.attached_in.as_nanos() as u64,
            detach_ns: result.detached_in.as_nanos() as u64,
            programs_share: result.programs_share,
            no_room: result.no_room,
        };
        manifest.trace = Some(result.info);
        dir.write(&file)?;
        manifest.files = sums::file_sums(&dir)?;
        dir.write_manifest(&manifest)?;
        Ok(dir.path().to_owned())
    }
}

/// What was seen and what it cost, after the lines.
fn said(ops: &[WatchedOp], result: &WatchResult) {
    let slower = format::duration_ns(result.info.threshold_ns.unwrap_or_default());
    if ops.is_empty() {
        output::note("no I/O was seen: the program blocked in no call that reads, writes or syncs");
    } else if result.slow == 0 {
        output::note(&format!(
            "no operation on a file or disk took {slower} or longer: a longer wait of the program was its own, \
             not the storage's"
        ));
    }
    for op in ops.iter().filter(|op| !op.whole) {
        let kernel = op.kernel.map_or(String::new(), |n| format!(" of about {n} calls"));
        output::note(&format!(
            "{}: {} seen{kernel}, those that blocked; no percentiles of a part",
            op.op.name(),
            op.seen
        ));
    }
    let share = result
        .programs_share
        .map(|share| format!("; trace programs took {:.2} % of a CPU", share * 100.0));
    output::note(&format!(
        "detached in {} ms{}",
        result.detached_in.as_millis(),
        share.unwrap_or_default()
    ));
    if result.no_room > 0 {
        output::note(&format!(
            "{} operations or threads found no room and were not watched",
            result.no_room
        ));
    }
}

/// Held by the one who watches a process.
struct Alone(#[expect(dead_code, reason = "held open")] Vec<UnixListener>);

impl Alone {
    /// Errors: `Unavailable` while another one watches one of these.
    fn with(pids: &[u32]) -> Result<Alone> {
        let hold = |pid: &u32| {
            let address = SocketAddr::from_abstract_name(format!("taillight-watch-{pid}"));
            address.and_then(|address| UnixListener::bind_addr(&address)).map_err(|_| {
                Error::unavailable("another `taillight watch` watches this process")
                    .with("pid", pid)
                    .hint("wait until it ends, or end it with Ctrl-C: its report is kept")
            })
        };
        pids.iter().map(hold).collect::<Result<_>>().map(Alone)
    }
}
