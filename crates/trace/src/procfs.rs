//! Tracing without anything: counters of each worker at the reporting interval.
//!
//! What it is: the lowest rung. It tells which part of an interval a worker ran, waited for a CPU
//! or was away, and how often it was switched. What it is not: evidence for a single I/O; the
//! report draws none from it. Called by `tracer`.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use taillight_core::probe::{Probe, ProbeSeat, Probes, Token};
use taillight_core::{Clock, Error, MonoClock, Op, Result, Stamp};
use taillight_rundir::RunDir;
use taillight_rundir::layers::{LayerKind, LayerRow, LayerWriter};
use taillight_rundir::trace_info::{ProgramInfo, TraceInfo};

use crate::Sys;
use crate::host::tasks;
use crate::quota::Quota;
use crate::still::Watch;
use crate::tracer::Wish;
use taillight_machine::field;

/// Shortest time between samples.
const SHORTEST: Duration = Duration::from_millis(100);
/// Rows kept; what comes later is counted as lost.
const ROWS_MAX: usize = 1 << 20;
/// How often the gatherer looks whether the program stood still, or the run is over.
const PAUSE: Duration = Duration::from_millis(20);
/// Length of a tick of `/proc/PID/stat`, ns.
const TICK_NS: u64 = 10_000_000;

/// Counters of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    at: i64,
    /// Time on a CPU and waiting for one, ns.
    sched: Option<(u64, u64)>,
    /// Switches: by itself, taken away.
    switches: Option<(u64, u64)>,
    /// Wait for block I/O, ns; none when the kernel does not account it.
    blkio: Option<u64>,
}

/// A thread that begins to work, or what its counters say at its end.
enum Message {
    Begin(u16, u32, Counters),
    End(u16, Counters),
}

/// Reads the counters of a thread of this process.
fn read(sys: &Sys, tid: u32, accounted: bool) -> Counters {
    let text = |file: &str| sys.text(&format!("/proc/self/task/{tid}/{file}"));
    let number = |text: &str, key: &str| field(text, ':', key)?.parse().ok();
    let switches = text("status").and_then(|t| {
        Some((
            number(&t, "voluntary_ctxt_switches")?,
            number(&t, "nonvoluntary_ctxt_switches")?,
        ))
    });
    let ticks = || text("stat").and_then(|t| tasks::blkio(&t));
    Counters {
        at: MonoClock.now().0,
        sched: text("schedstat").and_then(|t| tasks::schedstat(&t)),
        switches,
        blkio: accounted.then(ticks).flatten().map(|t| t * TICK_NS),
    }
}

fn row(worker: u16, from: &Counters, to: &Counters) -> LayerRow {
    let pair = |now: Option<(u64, u64)>, then: Option<(u64, u64)>| {
        let (now, then) = (now?, then?);
        Some((now.0.saturating_sub(then.0), now.1.saturating_sub(then.1)))
    };
    let sched = pair(to.sched, from.sched);
    let switches = pair(to.switches, from.switches);
    let blkio = to.blkio.zip(from.blkio);
    LayerRow {
        kind: LayerKind::Task,
        start_ns: from.at,
        end_ns: to.at,
        worker: Some(worker.into()),
        on_cpu_ns: sched.map(|s| s.0),
        waited_ns: sched.map(|s| s.1),
        blocked_ns: blkio.map(|(now, then)| now.saturating_sub(then)),
        voluntary: switches.map(|s| s.0),
        involuntary: switches.map(|s| s.1),
        ..LayerRow::default()
    }
}

/// Tracing on this rung, under way.
pub(crate) struct Tracing {
    probes: Arc<ProcfsProbes>,
    over: Sender<()>,
    thread: JoinHandle<(Vec<LayerRow>, u64)>,
    lacks: Vec<ProgramInfo>,
}

/// Makes the workers' probes.
pub struct ProcfsProbes {
    sys: Sys,
    accounted: bool,
    messages: crossbeam_channel::Sender<Message>,
}

/// Tells when its worker ends; sees no operation.
pub struct ProcfsProbe {
    sys: Sys,
    accounted: bool,
    worker: u16,
    tid: u32,
    messages: crossbeam_channel::Sender<Message>,
}

impl Probe for ProcfsProbe {
    #[inline(always)]
    fn begin(&mut self, _: u32, _: Token, _: Stamp, _: &Op) {}
    #[inline(always)]
    fn end(&mut self, _: u32, _: Token, _: u64) {}
}

impl Drop for ProcfsProbe {
    fn drop(&mut self) {
        let last = read(&self.sys, self.tid, self.accounted);
        let _ = self.messages.send(Message::End(self.worker, last));
    }
}

impl Probes for ProcfsProbes {
    type Probe = ProcfsProbe;

    fn probe(&self, seat: ProbeSeat) -> Result<ProcfsProbe> {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let first = read(&self.sys, tid, self.accounted);
        // The gatherer outlives the workers.
        let _ = self.messages.send(Message::Begin(seat.worker, tid, first));
        Ok(ProcfsProbe {
            sys: self.sys.clone(),
            accounted: self.accounted,
            worker: seat.worker,
            tid,
            messages: self.messages.clone(),
        })
    }
}

/// What this machine counts: each kind of counter, and why it is not there.
///
/// # Errors
/// `Unavailable` when procfs tells nothing of threads.
pub(crate) fn counters(sys: &Sys) -> Result<Vec<ProgramInfo>> {
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let accounted = accounted(sys);
    let now = read(sys, tid, accounted);
    if now.sched.is_none() && now.switches.is_none() {
        return Err(
            Error::unavailable("/proc tells nothing of this process's threads")
                .hint("mount -t proc proc /proc"),
        );
    }
    let counter = |name: &str, sees: &str, there: bool, why: &str| ProgramInfo {
        trace_point: name.to_owned(),
        sees: sees.to_owned(),
        missing: (!there).then(|| why.to_owned()),
    };
    Ok(vec![
        counter(
            "schedstat",
            "waits of each worker for a CPU",
            now.sched.is_some(),
            "the kernel has no schedstat",
        ),
        counter(
            "status",
            "how often each worker was switched",
            now.switches.is_some(),
            "the kernel does not count switches",
        ),
        counter(
            "delayacct",
            "waits of each worker for block I/O",
            now.blkio.is_some(),
            "off: set kernel.task_delayacct=1",
        ),
    ])
}

fn accounted(sys: &Sys) -> bool {
    sys.number("/proc/sys/kernel/task_delayacct") == Some(1)
}

impl Tracing {
    /// Begins to sample.
    ///
    /// # Errors
    /// As [`counters`].
    pub fn start(wish: &Wish<'_>, sys: &Sys) -> Result<Tracing> {
        let lacks = counters(sys)?;
        let interval = Duration::from_nanos(wish.plan.run.interval.0).max(SHORTEST);
        let (messages, arrived) = unbounded();
        let probes = Arc::new(ProcfsProbes {
            sys: sys.clone(),
            accounted: accounted(sys),
            messages,
        });
        let (over, ended) = channel();
        let gatherer = Gatherer {
            sys: sys.clone(),
            accounted: probes.accounted,
            arrived,
            threads: Vec::new(),
            rows: Vec::new(),
            lost: 0,
        };
        let quota = Quota::new(sys);
        let still = Watch::start(sys)?;
        let thread = std::thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || {
                gatherer.run(interval, quota, still, || {
                    ended.recv_timeout(Duration::ZERO) != Err(RecvTimeoutError::Timeout)
                })
            })
            .map_err(|e| Error::unavailable("cannot start a thread").source(e))?;
        Ok(Tracing {
            probes,
            over,
            thread,
            lacks,
        })
    }

    /// Probes for the workers.
    pub fn probes(&self) -> Arc<ProcfsProbes> {
        self.probes.clone()
    }

    /// Ends sampling, writes `layers.parquet` and completes `info`.
    ///
    /// # Errors
    /// `Unavailable` when the file cannot be written.
    pub fn finish(self, dir: &RunDir, info: &mut TraceInfo) -> Result<()> {
        drop(self.over);
        let (mut rows, lost) = self
            .thread
            .join()
            .map_err(|_| Error::internal("the collector of counters panicked"))?;
        info.programs = self.lacks;
        info.events_lost = lost;
        rows.sort_unstable_by_key(|r| r.start_ns);
        let mut writer = LayerWriter::begin(dir)?;
        writer.rows(rows.into_iter())?;
        writer.commit()
    }
}

/// The gathering thread.
struct Gatherer {
    sys: Sys,
    accounted: bool,
    arrived: Receiver<Message>,
    /// Worker, thread, counters at the last sample.
    threads: Vec<(u16, u32, Counters)>,
    rows: Vec<LayerRow>,
    lost: u64,
}

impl Gatherer {
    fn run(
        mut self,
        interval: Duration,
        mut quota: Quota,
        still: Watch,
        over: impl Fn() -> bool,
    ) -> (Vec<LayerRow>, u64) {
        let step = interval.as_nanos() as i64;
        let mut due = MonoClock.now().0 + step;
        loop {
            let over = over();
            self.messages();
            if MonoClock.now().0 >= due {
                self.sample();
                let window = quota.window();
                let row = window.as_ref().map(crate::bpf::collect::quota_row);
                row.into_iter().for_each(|row| self.put(row));
                due = (due + step).max(MonoClock.now().0);
            }
            still.seen().for_each(|row| self.put(row));
            if over {
                still.end().into_iter().for_each(|row| self.put(row));
                return (self.rows, self.lost);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn messages(&mut self) {
        while let Ok(message) = self.arrived.try_recv() {
            match message {
                Message::Begin(worker, tid, first) => self.threads.push((worker, tid, first)),
                Message::End(worker, last) => {
                    if let Some(at) = self.threads.iter().position(|t| t.0 == worker) {
                        let (_, _, from) = self.threads.swap_remove(at);
                        self.put(row(worker, &from, &last));
                    }
                }
            }
        }
    }

    fn sample(&mut self) {
        for index in 0..self.threads.len() {
            let Some((worker, tid, from)) = self.threads.get(index).copied() else {
                continue;
            };
            let now = read(&self.sys, tid, self.accounted);
            if now.sched.is_none() && now.switches.is_none() {
                // It has ended: its last words are on their way.
                continue;
            }
            self.put(row(worker, &from, &now));
            if let Some(thread) = self.threads.get_mut(index) {
                thread.2 = now;
            }
        }
    }

    fn put(&mut self, row: LayerRow) {
        if self.rows.len() < ROWS_MAX {
            self.rows.push(row);
        } else {
            self.lost += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::testing::put;

    fn machine(tid: u32, sched: &str, voluntary: u64) -> (tempfile::TempDir, Sys) {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str| format!("proc/self/task/{tid}/{name}");
        put(home.path(), &file("schedstat"), sched);
        let status = format!(
            "Name:\tx\nvoluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t2\n"
        );
        put(home.path(), &file("status"), &status);
        let zeros = "0 ".repeat(38);
        put(
            home.path(),
            &file("stat"),
            &format!("7 (a) R {zeros}5 0 0\n"),
        );
        let sys = Sys::at(home.path());
        (home, sys)
    }

    #[test]
    fn an_interval_is_the_difference_of_two_readings() {
        let (_home, sys) = machine(7, "100 20 3\n", 10);
        let before = read(&sys, 7, true);
        assert_eq!(
            (before.sched, before.blkio),
            (Some((100, 20)), Some(50_000_000))
        );
        assert_eq!(read(&sys, 7, false).blkio, None);
        let (_home, sys) = machine(7, "400 60 9\n", 15);
        let after = read(&sys, 7, true);
        let row = row(3, &before, &after);
        assert_eq!((row.on_cpu_ns, row.waited_ns), (Some(300), Some(40)));
        assert_eq!((row.voluntary, row.involuntary), (Some(5), Some(0)));
        assert_eq!((row.blocked_ns, row.worker), (Some(0), Some(3)));
        let gone = super::row(3, &before, &Counters::default());
        assert_eq!((gone.on_cpu_ns, gone.voluntary), (None, None));
    }

    #[test]
    fn what_is_not_counted_is_named() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (home, sys) = machine(tid, "1 2 3\n", 1);
        put(home.path(), "proc/sys/kernel/task_delayacct", "0\n");
        let said = counters(&sys).unwrap();
        let missing: Vec<_> = said.iter().filter(|c| c.missing.is_some()).collect();
        assert_eq!(missing.len(), 1);
        assert_eq!(missing[0].trace_point, "delayacct");
        let empty = tempfile::tempdir().unwrap();
        assert!(counters(&Sys::at(empty.path())).is_err());
    }

    #[test]
    fn a_worker_is_sampled_until_its_end() {
        let (_home, sys) = machine(7, "1 2 3\n", 1);
        let (messages, arrived) = unbounded();
        let mut gatherer = Gatherer {
            sys,
            accounted: false,
            arrived,
            threads: Vec::new(),
            rows: Vec::new(),
            lost: 0,
        };
        let at = |at: i64| Counters {
            at,
            sched: Some((at as u64, 0)),
            ..Counters::default()
        };
        messages.send(Message::Begin(0, 7, at(10))).unwrap();
        gatherer.messages();
        gatherer.sample();
        messages.send(Message::End(0, at(i64::MAX))).unwrap();
        gatherer.messages();
        gatherer.sample();
        assert_eq!(gatherer.rows.len(), 2);
        assert_eq!(gatherer.rows[0].start_ns, 10);
        assert_eq!(gatherer.rows[0].end_ns, gatherer.rows[1].start_ns);
    }
}
