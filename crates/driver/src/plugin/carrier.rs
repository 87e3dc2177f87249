//! What carries operations to a plug-in: calls of a library in this process, or rings shared with a program of its
//! own. Each type here is one or the other and passes calls on: the plug-in, the target that it opened, and a session.
//! Sessions hand over the same descriptors and get the same answers with either.

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
    /// Whether operations may be in flight when `submit` returns: always with a program, with a library that has a call
    /// for it.
    pub fn can_poll(&self) -> bool {
        match self {
            PluginCarrier::Library(library) => library.can_poll(),
            PluginCarrier::Program(_) => true,
        }
    }

    /// Opens a target by a plan in JSON and says its shape; `file_size` is the shape's where the plug-in says none.
    /// Errors: `Unavailable` with the plug-in's words; `Target` when a program is lost.
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
    /// Performs an action and returns the plug-in's answer; that of a program is 0 or 1. Errors: `Unavailable` with the
    /// plug-in's words, or for a library without administration; `Target` when a program is lost.
    pub fn admin(&self, action: u32) -> Result<i32> {
        match self {
            PluginHandle::Library(target) => target.admin(action),
            PluginHandle::Program(target) => target.admin(action),
        }
    }

    /// Shows its statistics as they are now to `out`, by name; nothing where the plug-in has none or does not answer.
    pub fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        match self {
            PluginHandle::Library(target) => target.sample(out),
            PluginHandle::Program(target) => target.sample(out),
        }
    }

    /// Number of a program's process; none of a library, which is in this one.
    pub fn process(&self) -> Option<u32> {
        match self {
            PluginHandle::Library(_) => None,
            PluginHandle::Program(target) => Some(target.process()),
        }
    }

    /// CPU time so far, ns: of a program (none once it is gone), or of this process, which a library is a part of.
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
    /// Errors: `Unavailable` with the program's words, `Target` when it is lost.
    pub fn close(&self) -> Result<()> {
        match self {
            PluginHandle::Library(_) => Ok(()),
            PluginHandle::Program(target) => target.close(),
        }
    }

    /// A session of a worker over `depth` slots of `bytes` bytes, of which `slot_size` are the buffer. Errors:
    /// `Unavailable` when there is no memory, or with the plug-in's words; `Target` when a program is lost.
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
    /// Its slots, which operations are written to and read from.
    #[inline]
    pub fn memory(&mut self) -> &mut Buffers {
        match self {
            PluginQueue::Library(queue) => &mut queue.memory,
            PluginQueue::Ring(queue) => &mut queue.memory,
        }
    }

    /// Hands operations over: how many were accepted (less than 0 when the session is lost), and how many ends are in
    /// `done` already: none with a program, which tells them in `poll`.
    #[inline]
    pub fn submit(&mut self, ops: &[PluginOp], done: &mut [PluginDone]) -> (i32, u32) {
        match self {
            PluginQueue::Library(queue) => queue.submit(ops, done),
            PluginQueue::Ring(queue) => (queue.submit(ops), 0),
        }
    }

    /// Waits for `min` ends, or until `until_ns` on the monotonic clock, and puts those that came into `done`: how many
    /// there are, more than it has room for where the plug-in lies, less than 0 when the session is lost. Always 0 with
    /// a library that ends everything in `submit`.
    #[inline]
    pub fn poll(&mut self, done: &mut [PluginDone], min: u32, until_ns: u64) -> i32 {
        match self {
            PluginQueue::Library(queue) => queue.poll(done, min, until_ns),
            PluginQueue::Ring(queue) => queue.poll(done, min, until_ns),
        }
    }

    /// Why the session is lost; `code` is what a library returned for it.
    #[cold]
    pub fn lost(&self, code: i32) -> Error {
        match self {
            PluginQueue::Library(_) => {
                Error::target("the plug-in says that a session is lost").with("code", code)
            }
            PluginQueue::Ring(queue) => queue.lost(),
        }
    }

    /// Gives the session up with operations in flight: memory is left to a library that may still use it. A program has
    /// a map of its own, so that this process' one goes.
    pub fn leak(self) {
        match self {
            PluginQueue::Library(queue) => queue.leak(),
            PluginQueue::Ring(queue) => queue.give_up(),
        }
    }
}
