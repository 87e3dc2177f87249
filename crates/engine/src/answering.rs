//! A target for tests that answers each operation as a closure says, inside `submit`.

use std::sync::Arc;

use taillight_core::probe::Token;
use taillight_core::{Op, Result, Stamp, Status};
use taillight_driver::{
    AdminAction, Completion, Geometry, Session, SessionSpec, Submitted, Target,
};

/// Bytes moved, or the status of a failure.
pub type Answer = std::result::Result<usize, Status>;

type AnswerFunction = dyn Fn(&Op, &mut [u8]) -> Answer + Send + Sync;

/// The target; its answers see the operation and its buffer.
#[derive(Clone)]
pub struct AnsweringTarget {
    geometry: Geometry,
    answer: Arc<AnswerFunction>,
}

impl AnsweringTarget {
    pub fn new(
        geometry: Geometry,
        answer: impl Fn(&Op, &mut [u8]) -> Answer + Send + Sync + 'static,
    ) -> AnsweringTarget {
        AnsweringTarget { geometry, answer: Arc::new(answer) }
    }

    /// A session with `depth` buffers of `size` bytes.
    pub fn open(&self, depth: u32, size: usize) -> Box<dyn Session> {
        let buffers = vec![vec![0; size]; depth as usize];
        Box::new(AnsweringSession { target: self.clone(), buffers })
    }
}

struct AnsweringSession {
    target: AnsweringTarget,
    buffers: Vec<Vec<u8>>,
}

impl Target for AnsweringTarget {
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        Ok(self.open(spec.depth, spec.buffer_size as usize))
    }
    fn admin(&self, _: AdminAction) -> Result<()> {
        Ok(())
    }
}

impl Session for AnsweringSession {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        &mut self.buffers[slot as usize]
    }
    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        let buffer = &mut self.buffers[slot as usize];
        Ok(Submitted::Done(match (self.target.answer)(op, buffer) {
            Ok(moved) => Completion::ok(token, moved as u64),
            Err(status) => Completion::failed(token, status),
        }))
    }
    fn poll(&mut self, _: u32, _: Option<Stamp>, _: &mut Vec<Completion>) -> Result<()> {
        Ok(())
    }
}
