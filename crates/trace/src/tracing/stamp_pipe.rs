//! A small tracing backend for the tests: another program writes stamps into a pipe, and knows threads and times but
//! nothing of workers and slots. It is the second source that [`super::backend`] is tried with.
//!
//! A line is `THREAD NS issue` or `THREAD NS done`, CLOCK_MONOTONIC. A stamp belongs to the operation that its thread
//! had in flight then. One that fits several belongs to none of them, and these say that they are not clear.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use taillight_core::plan::Plan;
use taillight_core::probe::{Probe, ProbeContext, Probes, Token};
use taillight_core::{Error, Op, Result, Stamp};
use taillight_machine::Sys;
use taillight_rundir::RunDir;
use taillight_rundir::layers::{LayerKind, LayerRow, LayerWriter, flags};
use taillight_rundir::trace_info::{ProgramInfo, TraceInfo, TracingBackend};

use super::{Backend, EndSignal, TracingRequest};

/// Operations that ended, with the thread of each.
type ThreadOps = Arc<Mutex<Vec<(u32, LayerRow)>>>;

pub struct StampPipe {
    ops: ThreadOps,
    stop: EndSignal,
    reader: JoinHandle<String>,
}

/// Where a run whose files go to `spill` has its pipe.
fn pipe(spill: &Path) -> PathBuf {
    spill.join("stamps")
}

impl Backend for StampPipe {
    const KIND: TracingBackend = TracingBackend::Procfs;
    type Probes = ThreadProbes;

    fn try_here(_: &Sys) -> Result<Vec<ProgramInfo>> {
        Ok(Vec::new())
    }

    fn check(plan: &Plan, _: &Sys) -> Result<()> {
        let other = plan.target.driver != "file";
        let why = || Error::unavailable("the program that writes stamps sees files only");
        if other { Err(why()) } else { Ok(()) }
    }

    fn start(request: &mut TracingRequest<'_>, sys: &Sys) -> Result<StampPipe> {
        StampPipe::check(request.plan, sys)?;
        let spill = request.spill.ok_or_else(|| Error::unavailable("no place for a pipe"))?;
        // Open for both, so that its end is not met while nobody writes.
        let mut open = OpenOptions::new();
        open.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let from = open.open(pipe(spill)).map_err(|e| Error::unavailable("no pipe").source(e))?;
        let stop = EndSignal::default();
        let ended = stop.flag();
        let reader = std::thread::spawn(move || read(from, &ended));
        Ok(StampPipe { ops: ThreadOps::default(), stop, reader })
    }

    fn probes(&self) -> Arc<ThreadProbes> {
        Arc::new(ThreadProbes(self.ops.clone()))
    }

    fn finish(self, dir: &RunDir, info: &mut TraceInfo) -> Result<()> {
        drop(self.stop);
        let text = self.reader.join().map_err(|_| Error::internal("the reader panicked"))?;
        let mut ops = std::mem::take(&mut *self.ops.lock().unwrap());
        info.events_lost = text.lines().filter(|line| !give(line, &mut ops)).count() as u64;
        info.operations = ops.len() as u64;
        info.kept = ops.len() as u64;
        let mut writer = LayerWriter::begin(dir);
        writer.rows(ops.into_iter().map(|(_, row)| row))?;
        writer.commit()
    }
}

/// All that is written until the end.
fn read(mut from: File, ended: &AtomicBool) -> String {
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    loop {
        // Before it is read: what was written before the end is still taken.
        let last = ended.load(Relaxed);
        while let Ok(count) = from.read(&mut part) {
            text.extend_from_slice(&part[..count]);
        }
        if last {
            return String::from_utf8_lossy(&text).into_owned();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Gives the stamp of a line to its operation; false where it has none.
fn give(line: &str, ops: &mut [(u32, LayerRow)]) -> bool {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (thread, at, what) = (word().parse::<u32>(), word().parse::<i64>(), word());
    let (Ok(thread), Ok(at)) = (thread, at) else { return false };
    let fits =
        |op: &&mut (u32, LayerRow)| op.0 == thread && (op.1.start_ns..=op.1.end_ns).contains(&at);
    let mut fitting: Vec<_> = ops.iter_mut().filter(fits).map(|(_, row)| row).collect();
    match (fitting.as_mut_slice(), what) {
        ([row], "issue") => {
            (row.bio_ns, row.issue_ns, row.bios) = (Some(at), Some(at), Some(1));
        }
        ([row], "done") => (row.done_ns, row.parts) = (Some(at), Some(1)),
        (rows, _) => {
            let several = rows.len() > 1;
            for row in rows.iter_mut().filter(|_| several) {
                row.flags = row.flags.map(|known| known | flags::UNCLEAR);
            }
            return false;
        }
    }
    true
}

pub struct ThreadProbes(ThreadOps);

impl Probes for ThreadProbes {
    type Probe = ThreadProbe;

    fn probe(&self, context: ProbeContext) -> Result<ThreadProbe> {
        let begun = vec![LayerRow::default(); context.depth as usize];
        Ok(ThreadProbe { ops: self.0.clone(), thread: own_thread(), context, begun })
    }
}

fn own_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

pub struct ThreadProbe {
    ops: ThreadOps,
    thread: u32,
    context: ProbeContext,
    /// The row of the operation in each slot.
    begun: Vec<LayerRow>,
}

impl Probe for ThreadProbe {
    fn begin(&mut self, slot: u32, _: Token, at: Stamp, op: &Op) {
        self.begun[(slot - self.context.first_slot) as usize] = LayerRow {
            kind: LayerKind::Io,
            start_ns: at.0,
            worker: Some(self.context.worker.into()),
            op: Some(op.kind),
            offset: Some(op.offset),
            size: Some(op.size),
            flags: Some(if self.begun.len() > 1 { flags::QUEUED } else { 0 }),
            ..LayerRow::default()
        };
    }

    fn end(&mut self, slot: u32, _: Token, latency_ns: u64) {
        let begun = self.begun[(slot - self.context.first_slot) as usize].clone();
        let end_ns = begun.start_ns.saturating_add_unsigned(latency_ns);
        self.ops.lock().unwrap().push((self.thread, LayerRow { end_ns, ..begun }));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use taillight_core::plan::{TraceMode, TracingBackendChoice};
    use taillight_core::{Clock, MonoClock, OpKind};
    use taillight_rundir::layers::read_layers;
    use taillight_rundir::{fixture, names};

    use super::*;
    use crate::tracing::{Tracer, WithProbes, require_backend};

    /// A worker with operations one after another and two at once, and a program that writes of them.
    struct Worker(PathBuf);

    impl WithProbes for Worker {
        /// Of each operation, the stamps that were written of it.
        type Output = Vec<(i64, i64)>;

        fn run<P: Probes>(self, probes: Arc<P>) -> Vec<(i64, i64)> {
            let context = ProbeContext { worker: 3, first_slot: 8, depth: 2 };
            let mut probe = probes.probe(context).unwrap();
            let block = |n: u64| Op::block(OpKind::Read, 0, n * 4096, 4096);
            let now = || MonoClock.now();
            // What is no stamp, what is of another thread, and what is of no operation is nobody's.
            let mut lines = format!("of no thread\n1 {} issue\n{} 5 done\n", now().0, own_thread());
            let mut written = Vec::new();
            for n in 0..2 {
                let at = now();
                probe.begin(8, Token(0), at, &block(n));
                std::thread::sleep(Duration::from_millis(2));
                let (issue, done) = (now().0, now().0);
                std::thread::sleep(Duration::from_millis(1));
                probe.end(8, Token(0), (now().0 - at.0) as u64);
                let thread = own_thread();
                lines.push_str(&format!("{thread} {issue} issue\n{thread} {done} done\n"));
                written.push((issue, done));
            }
            let at = now();
            (8..10).for_each(|slot| probe.begin(slot, Token(0), at, &block(slot.into())));
            lines.push_str(&format!("{} {} issue\n", own_thread(), now().0));
            (8..10).for_each(|slot| probe.end(slot, Token(0), (now().0 - at.0) as u64));
            let other = Command::new("sh")
                .args(["-c", "printf %s \"$1\" > \"$2\"", "writer", &lines])
                .arg(&self.0)
                .status();
            assert!(other.unwrap().success());
            written
        }
    }

    fn plan(driver: &str) -> Plan {
        let mut plan = fixture::plan();
        plan.target.driver = driver.to_owned();
        plan.trace.mode = TraceMode::All;
        plan.trace.backend = TracingBackendChoice::Procfs;
        plan
    }

    #[test]
    fn stamps_of_another_program_find_the_operations_of_their_threads() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("r"), &fixture::manifest("r")).unwrap();
        let pipe = pipe(home.path());
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (plan, sys) = (plan("file"), Sys::default());
        require_backend(&plan, &sys).unwrap();
        let request = TracingRequest {
            plan: &plan,
            path: None,
            places: &[],
            direct: false,
            single_file: true,
            server: None,
            spill: Some(home.path()),
            watch: None,
        };
        let tracer = Tracer::start(request, &sys).unwrap();
        let told = tracer.missing();
        assert!(told.iter().any(|line| line.contains("traced with backend procfs")), "{told:?}");
        let written = tracer.with_probes(Worker(pipe));
        let info = tracer.finish(&dir).unwrap();
        assert_eq!((info.backend, info.operations, info.kept), (TracingBackend::Procfs, 4, 4));
        assert_eq!(info.events_lost, 4, "three are nobody's, one is of two operations");
        let mut rows = Vec::new();
        read_layers(&dir.path().join(names::LAYERS), &mut |more| {
            rows.extend(more);
            Ok(())
        })
        .unwrap();
        assert!(rows.len() == 4 && rows.iter().all(|row| row.worker == Some(3)));
        for (row, (issue, done)) in rows.iter().zip(written) {
            assert_eq!(
                (row.bio_ns, row.issue_ns, row.done_ns),
                (Some(issue), Some(issue), Some(done))
            );
            assert_eq!((row.bios, row.parts), (Some(1), Some(1)));
            assert_eq!(row.flags, Some(flags::QUEUED));
        }
        for row in &rows[2..] {
            assert_eq!((row.issue_ns, row.done_ns), (None, None));
            assert_eq!(row.flags, Some(flags::QUEUED | flags::UNCLEAR));
        }
    }

    #[test]
    fn a_plan_that_the_source_cannot_trace_is_refused_before_the_run() {
        let e = require_backend(&plan("null"), &Sys::default()).unwrap_err();
        assert!(e.to_string().contains("sees files only"), "{e}");
        assert!(e.to_string().contains("procfs"), "{e}");
    }
}
