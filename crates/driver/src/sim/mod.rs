//! `sim`: a device model on virtual time, the ground truth for the whole pipeline.
//!
//! Model: `channels` servers fed by one first-come-first-served queue. An operation's service time
//! is drawn from `service` (seeded); while a stall lasts nothing starts, and what would be served
//! during it is delayed by the part that overlaps. `aging` changes service times of writes with
//! use, and every N-th operation can be made to fail. Not a model of any real device.
//!
//! Callers: the engine drives it through [`crate::VirtualTime`]; tests know the truth to the ns.

mod aging;
mod model;
mod options;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use taillight_core::capability::Capabilities;
use taillight_core::clock::VirtualClock;
use taillight_core::plan::TargetPlan;
use taillight_core::probe::Token;
use taillight_core::progress::OnProgress;
use taillight_core::{Clock, Op, OpKind, Result, Stamp, Status};

use crate::contract::{
    AdminAction, BoundDriver, Completion, Driver, Geometry, OpenSpec, Session, SessionSpec,
    Submitted, Target, VirtualTime,
};
use crate::options::{DriverOptions, OptionSet, complete};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};
use aging::{DeviceUse, UseFile};
use model::DeviceModel;
pub use options::{InjectedErrors, ServiceTime, SimOptions, SimulatedStall};

/// Size of the data set when the job gives none: 1 GiB.
const DEFAULT_SIZE: u64 = 1 << 30;

/// The driver.
pub struct SimDriver;

impl Driver for SimDriver {
    fn name(&self) -> &'static str {
        "sim"
    }
    fn about(&self) -> &'static str {
        "a device model on virtual time with known latencies; tests the whole pipeline"
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<SimOptions>()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        Ok(Box::new(SimOptions::parse(self.name(), &target.options)?))
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, dir: &std::path::Path) -> TestSetup {
        let all = ["channels = 4", "service = { kind = \"exponential\", mean = \"1ms\" }"];
        Ok(TestTarget::local(dir, "data", &all))
    }
}

impl BoundDriver for SimOptions {
    fn options(&self) -> Result<toml::Table> {
        complete(self)
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ops: vec![OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::Fsync],
            max_depth: 4096,
            sync: true,
            virtual_time: true,
            admin: AdminAction::ALL.to_vec(),
            ..Capabilities::default()
        }
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        let file_size = spec.plan.target.size.map_or(DEFAULT_SIZE, |s| s.0);
        // Each rank has a device of its own.
        let rank = spec.plan.ranks.map_or(0, |place| u64::from(place.rank));
        let seed = spec.plan.run.seed.wrapping_add(rank << 32);
        let (state, used) = match self.state.as_str() {
            "" => (None, DeviceUse::default()),
            path => {
                let (file, used) = UseFile::open(path.as_ref(), spec.plan.run.output.as_deref())?;
                (Some(file), used)
            }
        };
        let device = SimDevice {
            clock: VirtualClock::default(),
            state: Mutex::new(DeviceState {
                model: DeviceModel::new(self, seed, file_size, used),
                flying: BinaryHeap::new(),
            }),
        };
        Ok(Box::new(SimTarget {
            geometry: Geometry { files: 1, file_size, align: 1 },
            device: Arc::new(device),
            state,
        }))
    }
}

/// The device: one clock, one model, all sessions' operations in flight.
struct SimDevice {
    clock: VirtualClock,
    state: Mutex<DeviceState>,
}

struct DeviceState {
    model: DeviceModel,
    /// Completion times of everything in flight.
    flying: BinaryHeap<Reverse<Stamp>>,
}

impl SimDevice {
    fn state(&self) -> MutexGuard<'_, DeviceState> {
        // The model holds plain numbers: a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VirtualTime for SimDevice {
    fn now(&self) -> Stamp {
        self.clock.now()
    }
    fn next_event(&self) -> Option<Stamp> {
        let mut state = self.state();
        let now = self.clock.now();
        // Past events have been offered to their sessions already.
        while state.flying.peek().is_some_and(|Reverse(at)| *at <= now) {
            state.flying.pop();
        }
        state.flying.peek().map(|Reverse(at)| *at)
    }
    fn advance_to(&self, to: Stamp) {
        self.clock.advance_to(to);
    }
}

struct SimTarget {
    geometry: Geometry,
    device: Arc<SimDevice>,
    /// Carries its use to later runs.
    state: Option<UseFile>,
}

impl Target for SimTarget {
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        Ok(Box::new(SimSession {
            device: self.device.clone(),
            depth: spec.depth as usize,
            flying: Vec::with_capacity(spec.depth as usize),
            buffers: vec![0; spec.buffer_size as usize * spec.depth as usize],
            buffer_size: spec.buffer_size as usize,
        }))
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        if action == AdminAction::Purge {
            self.device.state().model.used.purge();
        }
        Ok(())
    }
    fn facts(&self) -> Vec<(String, String)> {
        vec![("time".into(), "virtual".into())]
    }
    fn virtual_time(&self) -> Option<Arc<dyn VirtualTime>> {
        Some(self.device.clone())
    }
    fn close(self: Box<Self>) -> Result<()> {
        let used = self.device.state().model.used;
        let ran = self.device.clock.now();
        self.state.as_ref().map_or(Ok(()), |file| file.write(used.after(ran)))
    }
}

struct SimSession {
    device: Arc<SimDevice>,
    depth: usize,
    flying: Vec<(Stamp, Completion)>,
    buffers: Vec<u8>,
    buffer_size: usize,
}

impl Session for SimSession {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        let start = slot as usize * self.buffer_size;
        &mut self.buffers[start..start + self.buffer_size]
    }

    fn submit(&mut self, op: &Op, _: u32, token: Token) -> Result<Submitted> {
        if self.flying.len() == self.depth {
            return Ok(Submitted::Full);
        }
        let now = self.device.clock.now();
        let mut state = self.device.state();
        let outcome = state.model.serve(now, op);
        state.flying.push(Reverse(outcome.at));
        let mut completion = match outcome.status {
            Status::OK => Completion::ok(token, op.size),
            status => Completion::failed(token, status),
        };
        completion.sync_ns = outcome.sync_ns;
        self.flying.push((outcome.at, completion));
        Ok(Submitted::Queued)
    }

    /// Never waits, whatever `min` says: only the event loop moves virtual time.
    fn poll(&mut self, _: u32, _: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()> {
        let now = self.device.clock.now();
        let ready = self.flying.iter().filter(|(at, _)| *at <= now).map(|(_, c)| *c);
        out.extend(ready);
        self.flying.retain(|(at, _)| *at > now);
        Ok(())
    }
}
