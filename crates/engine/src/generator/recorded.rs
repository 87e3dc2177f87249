//! Operations of a trace: number i goes to worker i mod n, as its intended time does (`schedule::replay`).

use std::sync::Arc;

use taillight_core::plan::{ReplayOps, TraceOp};
use taillight_core::{Error, Op, Result, SyncKind};
use taillight_driver::Geometry;

use super::WorkerIndex;

/// One worker's share of a trace.
#[derive(Debug, Clone)]
pub struct RecordedOps {
    ops: Arc<[TraceOp]>,
    position: usize,
    stride: usize,
    over: bool,
}

impl RecordedOps {
    /// The share of the worker at `place`, on a target of one file. Errors: `Usage` when the target is
    /// smaller than the trace, or of several files.
    pub fn new(trace: &ReplayOps, shape: Geometry, place: WorkerIndex) -> Result<RecordedOps> {
        if trace.ops.is_empty() {
            return Err(Error::internal("the trace of this plan is not read"));
        }
        let (position, stride) = (place.index as usize, place.of.max(1) as usize);
        // Each worker looks at its own: all of them together at each once.
        let mut own = trace.ops.iter().skip(position).step_by(stride);
        if shape.files > 1 || own.any(|op| op.end() > shape.size()) {
            return Err(Error::usage("the trace does not fit the target")
                .with("trace", trace.end())
                .with("target", shape.size())
                .with("files", shape.files)
                .hint(
                    "give a target of one file that is large enough, or trace.fit and target.size",
                ));
        }
        Ok(RecordedOps { ops: trace.ops.clone(), position, stride, over: false })
    }

    /// The next operation of the worker's share; after those the trace's last one, with `over` true.
    #[inline]
    pub fn next(&mut self) -> Op {
        let at = self.position.min(self.ops.len() - 1);
        self.over = self.position > at;
        self.position = at.saturating_add(self.stride);
        let op = self.ops[at];
        let sync = op.durable.then_some(SyncKind::Fdatasync);
        Op { sync, ..Op::block(op.kind, 0, op.offset, u64::from(op.size)) }
    }

    /// Whether the operation given last lies beyond the last one.
    #[inline]
    pub fn over(&self) -> bool {
        self.over
    }
}
