//! A small tracing backend for the tests: how much CPU time the worker had during each of its I/Os, from
//! the clock of its thread. It is the second source that [`super::backend`] is tried with.

use std::sync::{Arc, Mutex};

use rustix::time::{ClockId, clock_gettime};
use taillight_core::plan::Plan;
use taillight_core::probe::{Probe, ProbeContext, Probes, Token};
use taillight_core::{Error, Op, OpKind, Result, Stamp};
use taillight_machine::Sys;
use taillight_rundir::RunDir;
use taillight_rundir::layers::{LayerKind, LayerRow, LayerWriter};
use taillight_rundir::trace_info::{ProgramInfo, TraceInfo, TracingBackend};

use super::{Backend, TracingRequest};

/// One I/O: its row, and the CPU time of its thread when it began.
type Rows = Arc<Mutex<Vec<LayerRow>>>;

pub struct CpuTimeTracing(Rows);

impl Backend for CpuTimeTracing {
    const KIND: TracingBackend = TracingBackend::Procfs;
    type Probes = CpuTimeProbes;

    fn try_here(_: &Sys) -> Result<Vec<ProgramInfo>> {
        Ok(Vec::new())
    }

    fn check(plan: &Plan, _: &Sys) -> Result<()> {
        let queued = plan.workloads.iter().any(|w| w.queue_depth > 1);
        let why = || Error::unavailable("the CPU time of one I/O in a queue is not known");
        if queued { Err(why()) } else { Ok(()) }
    }

    fn start(request: &mut TracingRequest<'_>, sys: &Sys) -> Result<CpuTimeTracing> {
        CpuTimeTracing::check(request.plan, sys)?;
        Ok(CpuTimeTracing(Rows::default()))
    }

    fn probes(&self) -> Arc<CpuTimeProbes> {
        Arc::new(CpuTimeProbes(self.0.clone()))
    }

    fn finish(self, dir: &RunDir, info: &mut TraceInfo) -> Result<()> {
        let rows = std::mem::take(&mut *self.0.lock().unwrap());
        info.operations = rows.len() as u64;
        info.kept = rows.len() as u64;
        let mut writer = LayerWriter::begin(dir);
        writer.rows(rows.into_iter())?;
        writer.commit()
    }
}

pub struct CpuTimeProbes(Rows);

impl Probes for CpuTimeProbes {
    type Probe = CpuTimeProbe;

    fn probe(&self, seat: ProbeContext) -> Result<CpuTimeProbe> {
        Ok(CpuTimeProbe {
            rows: self.0.clone(),
            worker: seat.worker,
            submit: Stamp(0),
            op: Op::block(OpKind::Read, 0, 0, 0),
            cpu_ns: 0,
        })
    }
}

pub struct CpuTimeProbe {
    rows: Rows,
    worker: u16,
    submit: Stamp,
    op: Op,
    /// CPU time of the thread at the last begin.
    cpu_ns: u64,
}

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Probe for CpuTimeProbe {
    fn begin(&mut self, _: u32, _: Token, at: Stamp, op: &Op) {
        (self.submit, self.op, self.cpu_ns) = (at, *op, cpu_ns());
    }

    fn end(&mut self, _: u32, _: Token, latency_ns: u64) {
        self.rows.lock().unwrap().push(LayerRow {
            kind: LayerKind::Io,
            start_ns: self.submit.0,
            end_ns: self.submit.0.saturating_add_unsigned(latency_ns),
            worker: Some(self.worker.into()),
            op: Some(self.op.kind),
            offset: Some(self.op.offset),
            size: Some(self.op.size),
            flags: Some(0),
            blocked_ns: Some(latency_ns.saturating_sub(cpu_ns() - self.cpu_ns)),
            ..LayerRow::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use taillight_core::plan::{TraceMode, TracingBackendChoice};
    use taillight_core::{Clock, MonoClock};
    use taillight_rundir::layers::read_layers;
    use taillight_rundir::{fixture, names};

    use super::*;
    use crate::tracing::{Tracer, WithProbes, require_backend};

    /// An I/O that sleeps and one that computes, each for so long.
    struct TwoIos(Duration);

    impl WithProbes for TwoIos {
        type Output = ();

        fn run<P: Probes>(self, probes: Arc<P>) {
            let seat = ProbeContext { worker: 3, first_slot: 0, depth: 1 };
            let mut probe = probes.probe(seat).unwrap();
            for computes in [false, true] {
                let at = MonoClock.now();
                probe.begin(0, Token(0), at, &Op::block(OpKind::Read, 0, 0, 4096));
                let begun = Instant::now();
                if !computes {
                    std::thread::sleep(self.0);
                }
                while begun.elapsed() < self.0 {}
                probe.end(0, Token(0), (MonoClock.now().0 - at.0) as u64);
            }
        }
    }

    fn plan(depth: u32) -> Plan {
        let mut plan = fixture::plan();
        plan.trace.mode = TraceMode::All;
        plan.trace.backend = TracingBackendChoice::Procfs;
        plan.workloads[0].queue_depth = depth;
        plan
    }

    #[test]
    fn a_source_of_its_own_is_chosen_started_carried_by_workers_and_written() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("r"), &fixture::manifest("r")).unwrap();
        let (plan, sys) = (plan(1), Sys::default());
        require_backend(&plan, &sys).unwrap();
        let request = TracingRequest {
            plan: &plan,
            path: None,
            places: &[],
            direct: false,
            single_file: true,
            spill: None,
            watch: None,
        };
        let tracer = Tracer::start(request, &sys).unwrap();
        let told = tracer.missing();
        assert!(told.iter().any(|line| line.contains("traced with backend procfs")), "{told:?}");
        tracer.with_probes(TwoIos(Duration::from_millis(20)));
        let info = tracer.finish(&dir).unwrap();
        assert_eq!((info.backend, info.operations, info.kept), (TracingBackend::Procfs, 2, 2));
        let mut rows = Vec::new();
        read_layers(&dir.path().join(names::LAYERS), &mut |more| {
            rows.extend(more);
            Ok(())
        })
        .unwrap();
        assert!(rows.len() == 2 && rows.iter().all(|row| row.worker == Some(3)));
        let blocked = |row: &LayerRow| row.blocked_ns.unwrap();
        assert!(blocked(&rows[0]) >= 20_000_000, "it slept so long: {rows:?}");
        let latency = (rows[1].end_ns - rows[1].start_ns) as u64;
        assert!(blocked(&rows[1]) < latency, "it computed: {rows:?}");
    }

    #[test]
    fn a_plan_that_the_source_cannot_trace_is_refused_before_the_run() {
        let e = require_backend(&plan(2), &Sys::default()).unwrap_err();
        assert!(e.to_string().contains("CPU time"), "{e}");
        assert!(e.to_string().contains("procfs"), "{e}");
    }
}
