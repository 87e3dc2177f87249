//! `null`: performs nothing, at once. Measures Taillight itself.
//!
//! Depth 1 completes inside `submit`; deeper queues complete in `poll`, so that both paths of the
//! worker are measured. Not a model of a device: that is `sim`.

use taillight_core::capability::Capabilities;
use taillight_core::plan::{TargetPlan, WorkShare};
use taillight_core::probe::Token;
use taillight_core::progress::OnProgress;
use taillight_core::{Op, OpKind, Result, Stamp};

use crate::contract::{
    AdminAction, BoundDriver, Completion, Driver, Geometry, OpenSpec, Session, SessionSpec,
    Submitted, Target,
};
use crate::options::{DriverOptions, NoOptions};

/// Size of the data set when the job gives none: 1 GiB.
const DEFAULT_SIZE: u64 = 1 << 30;

/// The driver.
pub struct NullDriver;

impl Driver for NullDriver {
    fn name(&self) -> &'static str {
        "null"
    }
    fn about(&self) -> &'static str {
        "does nothing; measures Taillight's own cost"
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        let NoOptions {} = NoOptions::parse(self.name(), &target.options)?;
        Ok(Box::new(NullDriver))
    }
}

impl BoundDriver for NullDriver {
    fn options(&self) -> Result<toml::Table> {
        Ok(toml::Table::new())
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ops: vec![OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::Fsync],
            max_depth: 4096,
            sync: true,
            admin: AdminAction::ALL.to_vec(),
            ..Capabilities::default()
        }
    }
    fn check_shared(&self, _: &TargetPlan, _: WorkShare) -> Result<()> {
        Ok(())
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        let file_size = spec.plan.target.size.map_or(DEFAULT_SIZE, |s| s.0);
        Ok(Box::new(NullTarget { geometry: Geometry { files: 1, file_size, align: 1 } }))
    }
}

struct NullTarget {
    geometry: Geometry,
}

impl Target for NullTarget {
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        Ok(Box::new(NullSession {
            buffer: vec![0; spec.buffer_size as usize],
            queued: Vec::with_capacity(spec.depth as usize),
            depth: spec.depth,
        }))
    }
    fn admin(&self, _: AdminAction) -> Result<()> {
        Ok(())
    }
}

struct NullSession {
    /// One buffer for all slots: nothing is ever read back.
    buffer: Vec<u8>,
    queued: Vec<(Token, u64)>,
    depth: u32,
}

impl Session for NullSession {
    fn buffer(&mut self, _: u32) -> &mut [u8] {
        &mut self.buffer
    }
    fn submit(&mut self, op: &Op, _: u32, token: Token) -> Result<Submitted> {
        if self.depth == 1 {
            return Ok(Submitted::Done(Completion::ok(token, op.size)));
        }
        if self.queued.len() == self.depth as usize {
            return Ok(Submitted::Full);
        }
        self.queued.push((token, op.size));
        Ok(Submitted::Queued)
    }
    fn poll(&mut self, _: u32, _: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()> {
        out.extend(self.queued.drain(..).map(|(token, moved)| Completion::ok(token, moved)));
        Ok(())
    }
}
