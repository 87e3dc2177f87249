//! Runs a plan into a temporary run directory and reads its intervals and I/Os back.
#![allow(dead_code, clippy::unwrap_used)] // each test binary uses a part

#[path = "../../src/testing.rs"]
pub mod testing;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use taillight_core::plan::Plan;
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Record, Result, Stamp};
use taillight_driver::{OpenSpec, Target};
use taillight_engine::{EngineOutcome, EngineRequest, IntervalView, Observer, StopFlag};
use taillight_rundir::intervals::{IntervalRow, read_intervals};
use taillight_rundir::ios::{ColumnSet, read_ios};
use taillight_rundir::{RunDir, fixture, names};

/// One worker, depth 1, 4 KiB random reads, closed loop, all captured.
pub fn plan(driver: &str, options: &str) -> Plan {
    let mut plan = testing::plan();
    plan.run.operations = None;
    plan.run.drain_timeout = Span(10_000_000_000);
    plan.target.driver = driver.into();
    plan.target.size = Some(ByteSize(1 << 26));
    plan.target.options = options.parse().unwrap();
    plan.capture.budget = ByteSize(1 << 30);
    plan
}

/// A finished run.
pub struct EngineRun {
    pub outcome: EngineOutcome,
    pub rows: Vec<IntervalRow>,
    pub ios: Vec<Record>,
    pub views: Vec<IntervalView>,
    pub phases: Vec<String>,
    /// The backlog told with each word that the load goes on beyond its time.
    pub overtimes: Vec<Option<u64>>,
}

#[derive(Default)]
pub struct WatchingObserver {
    views: Vec<IntervalView>,
    phases: Vec<String>,
    overtimes: Vec<Option<u64>>,
    stop_after: Option<(usize, StopFlag)>,
    at_ready: Option<Box<dyn FnMut()>>,
}

impl WatchingObserver {
    /// Looks once all workers have their sessions.
    pub fn at_ready(look: impl FnMut() + 'static) -> WatchingObserver {
        WatchingObserver { at_ready: Some(Box::new(look)), ..WatchingObserver::default() }
    }
}

impl Observer for WatchingObserver {
    fn phase(&mut self, name: &str) {
        self.phases.push(name.into());
    }
    fn interval(&mut self, view: &IntervalView) {
        self.views.push(view.clone());
        if let Some((n, stop)) = &self.stop_after
            && self.views.len() == *n
        {
            stop.stop();
        }
    }
    fn overtime(&mut self, backlog: Option<u64>) {
        self.overtimes.push(backlog);
    }
    fn ready(&mut self) -> Result<Option<Stamp>> {
        self.at_ready.iter_mut().for_each(|look| look());
        Ok(None)
    }
    fn progress(&mut self, _: taillight_core::progress::Progress<'_>) {}
}

/// Runs to the end.
pub fn run(plan: &Plan) -> EngineRun {
    run_until(plan, None).unwrap()
}

/// An id that no other run has.
pub fn fresh_id() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs on an opened target, into `path`.
pub fn run_on(
    target: Box<dyn Target>,
    plan: &Plan,
    (id, path): (&str, &Path),
    stop: &StopFlag,
    watch: &mut WatchingObserver,
) -> Result<(RunDir, EngineOutcome)> {
    let mut manifest = fixture::manifest(id);
    manifest.clock.monotonic_ns = 0;
    let rundir = RunDir::create(path, &manifest)?;
    let request = EngineRequest {
        plan,
        rundir: &rundir,
        run_id: id,
        loaded: 0,
        clock: &manifest.clock,
        stop,
        observers: &mut [watch],
    };
    let outcome = taillight_engine::run::run(target, request)?;
    assert!(!taillight_capture::dir::capture_dir(id).exists(), "chunks are gone");
    Ok((rundir, outcome))
}

/// Every I/O that was kept.
pub fn records(rundir: &RunDir) -> Result<Vec<Record>> {
    let mut ios = Vec::new();
    if rundir.existing(names::IOS).is_some() {
        read_ios(&rundir.file(names::IOS), ColumnSet::ALL, &mut |batch| {
            ios.extend((0..batch.rows).map(|i| batch.row(i).record));
            Ok(())
        })?;
    }
    Ok(ios)
}

/// Runs; stops after `intervals` of them.
pub fn run_until(plan: &Plan, intervals: Option<usize>) -> Result<EngineRun> {
    let dir = tempfile::tempdir().unwrap();
    let id = fresh_id();
    let driver = taillight_driver::bind(&plan.target)?;
    let mut plan = plan.clone();
    plan.target.options = driver.options()?;
    let spec = OpenSpec {
        plan: &plan,
        run_id: &id,
        destroy: None,
        stop: &StopFlag::default(),
        fits: &|_| Ok(()),
    };
    let target = driver.open(&spec, &mut |_| true)?;
    let stop = StopFlag::default();
    let mut watch = WatchingObserver {
        stop_after: intervals.map(|n| (n, stop.clone())),
        ..WatchingObserver::default()
    };
    let place = (id.as_str(), &*dir.path().join("run"));
    let (rundir, outcome) = run_on(target, &plan, place, &stop, &mut watch)?;
    Ok(EngineRun {
        outcome,
        rows: read_intervals(&rundir.file(names::INTERVALS))?,
        ios: records(&rundir)?,
        views: watch.views,
        phases: watch.phases,
        overtimes: watch.overtimes,
    })
}
