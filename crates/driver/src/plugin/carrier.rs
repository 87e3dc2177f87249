//! What carries operations to a plug-in: calls of a library in this process, or rings shared with a program of its
//! own. Sessions hand over the same descriptors and get the same answers with either.

use std::sync::Arc;

use taillight_core::{Error, Result};

use super::sys::{LibraryQueue, LibraryTarget, PluginDone, PluginLibrary, PluginOp, PluginShape};
use crate::buffers::Buffers;
use crate::process::{DriverProgram, ProgramTarget, RingQueue};

/// A plug-in that is there.
pub enum PluginCarrier {
    Library(PluginLibrary),
    Program(Arc<DriverProgram>),
}

impl PluginCarrier {
    /// Operations may be in flight when `submit` returns.
    pub fn can_poll(&self) -> bool {
        match self {
            PluginCarrier::Library(library) => library.can_poll(),
            PluginCarrier::Program(_) => true,
        }
    }

    /// Opens by a plan in JSON. Errors: `Unavailable` with the plug-in's words.
    pub fn open(&'static self, plan: &str, file_size: u64) -> Result<(PluginHandle, PluginShape)> {
        match self {
            PluginCarrier::Library(library) => {
                let (target, shape) = LibraryTarget::open(library, plan, file_size)?;
                Ok((PluginHandle::Library(Arc::new(target)), shape))
            }
            PluginCarrier::Program(program) => {
                let (target, shape) = ProgramTarget::open(program, plan, file_size)?;
                Ok((PluginHandle::Program(Arc::new(target)), shape))
            }
        }
    }
}

/// A target that a plug-in opened.
#[derive(Clone)]
pub enum PluginHandle {
    Library(Arc<LibraryTarget>),
    Program(Arc<ProgramTarget>),
}

impl PluginHandle {
    /// Performs an action; its answer. Errors: `Unavailable` with the plug-in's words.
    pub fn admin(&self, action: u32) -> Result<i32> {
        match self {
            PluginHandle::Library(target) => target.admin(action),
            PluginHandle::Program(target) => target.admin(action),
        }
    }

    /// Its statistics now.
    pub fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        match self {
            PluginHandle::Library(target) => target.sample(out),
            PluginHandle::Program(target) => target.sample(out),
        }
    }

    /// The process of a program.
    pub fn process(&self) -> Option<u32> {
        match self {
            PluginHandle::Library(_) => None,
            PluginHandle::Program(target) => Some(target.process()),
        }
    }

    /// CPU time so far, ns: of a program, or of this process, which a library is a part of.
    pub fn cpu_ns(&self) -> Option<u64> {
        match self {
            PluginHandle::Library(_) => {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
                Some(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
            }
            PluginHandle::Program(target) => target.cpu_ns(),
        }
    }

    /// Has a program close the target, once all sessions are gone; a library does so when the last handle is dropped.
    /// Errors: `Target` when the program is lost.
    pub fn close(&self) -> Result<()> {
        match self {
            PluginHandle::Library(_) => Ok(()),
            PluginHandle::Program(target) => target.close(),
        }
    }

    /// A session over slots of `bytes` bytes, of which `slot_size` are the buffer. Errors: `Unavailable` when there
    /// is no memory, or with the plug-in's words.
    pub fn session(
        &self,
        worker: u32,
        depth: u32,
        bytes: u64,
        slot_size: u64,
    ) -> Result<PluginQueue> {
        let no_memory = |e| {
            Error::unavailable("not enough memory for the buffers of a session")
                .source(e)
                .hint("use a smaller depth or smaller blocks")
        };
        match self {
            PluginHandle::Library(target) => {
                let memory = Buffers::new(depth, bytes).map_err(no_memory)?;
                target.session(worker, depth, memory, slot_size).map(PluginQueue::Library)
            }
            PluginHandle::Program(target) => {
                let made = RingQueue::memory(depth, bytes).map_err(no_memory)?;
                target.session(worker, depth, made, slot_size).map(PluginQueue::Ring)
            }
        }
    }
}

/// A session of a plug-in with the memory it works in.
pub enum PluginQueue {
    Library(LibraryQueue),
    Ring(RingQueue),
}

impl PluginQueue {
    #[inline]
    pub fn memory(&mut self) -> &mut Buffers {
        match self {
            PluginQueue::Library(queue) => &mut queue.memory,
            PluginQueue::Ring(queue) => &mut queue.memory,
        }
    }

    /// Hands operations over: how many were accepted, or less than 0, and how many ends are in `done`.
    #[inline]
    pub fn submit(&mut self, ops: &[PluginOp], done: &mut [PluginDone]) -> (i32, u32) {
        match self {
            PluginQueue::Library(queue) => queue.submit(ops, done),
            PluginQueue::Ring(queue) => (queue.submit(ops), 0),
        }
    }

    /// How many ends are in `done`, more than it has room for where the plug-in lies, or less than 0.
    #[inline]
    pub fn poll(&mut self, done: &mut [PluginDone], min: u32, until_ns: u64) -> i32 {
        match self {
            PluginQueue::Library(queue) => queue.poll(done, min, until_ns),
            PluginQueue::Ring(queue) => queue.poll(done, min, until_ns),
        }
    }

    /// Why the session is lost.
    #[cold]
    pub fn lost(&self, code: i32) -> Error {
        match self {
            PluginQueue::Library(_) => {
                Error::target("the plug-in says that a session is lost").with("code", code)
            }
            PluginQueue::Ring(queue) => queue.lost(),
        }
    }

    /// Gives the session up: memory is left to a library that may still use it. A program has a map
    /// of its own.
    pub fn leak(self) {
        match self {
            PluginQueue::Library(queue) => queue.leak(),
            PluginQueue::Ring(queue) => queue.give_up(),
        }
    }
}
