//! What the layers below did, by kind: each event has the fields that its kind has. `decode` makes them of the rows
//! of a trace. All stamps are CLOCK_MONOTONIC, ns.

use std::ops::Deref;
use std::sync::Arc;

use taillight_core::TimeSpan;

use crate::events::stacks::{SleepReason, Stack};
use crate::events::thread::Thread;
use crate::phase::Phase;

/// A thread off the CPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OffCpu {
    pub start_ns: i64,
    /// It came back to the CPU.
    pub end_ns: i64,
    /// It was woken up; none where it was preempted, and where the wake-up was not seen.
    pub woken_ns: Option<i64>,
    /// The kernel's task state when it left the CPU; 0: it could have gone on.
    pub state: u64,
    /// Of the load: the worker that it is, or for whose I/O an io_uring worker thread slept.
    pub worker: Option<u64>,
    /// Where it left the CPU.
    pub stack: Option<Arc<Stack>>,
    /// The thread that ran before it came back; where it was preempted, the thread that took its place.
    pub ran: Option<Arc<Thread>>,
    pub waker: Waker,
    /// CPU that it came back to.
    pub cpu: Option<u64>,
    /// What is known without its wake-up (backend perf).
    pub at_least: Option<AtLeast>,
}

/// What woke a thread up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Waker {
    /// The worker of the load that did.
    pub worker: Option<u64>,
    /// The thread that ran at the wake-up, which an interrupt may have done; none where one surely did, and where it is
    /// not known.
    pub thread: Option<Arc<Thread>>,
    /// It was a thread of the program itself, and no interrupt.
    pub is_own: bool,
}

/// How long a thread slept at least from its begin on, and waited for a CPU at its end, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtLeast {
    pub asleep_ns: u64,
    pub waited_ns: u64,
}

/// An io_uring worker thread off the CPU, or the thread that polls a worker's submission queue.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RingThread {
    pub off: OffCpu,
    /// The I/O it was doing.
    pub token: Option<u64>,
}

/// A thread of the kernel that may work for an I/O, or one of the store's server, off the CPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Helper {
    pub off: OffCpu,
    pub thread: Arc<Thread>,
    /// It is a thread of the store's server.
    pub serves: bool,
}

/// A part of an I/O that another process queued, because it had been held back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeldPart {
    pub start_ns: i64,
    pub end_ns: i64,
    pub token: Option<u64>,
    pub dev: Option<Arc<str>>,
    /// Where it was queued.
    pub stack: Option<Arc<Stack>>,
}

/// I/O on a disk under test that was given to none of the run's I/Os.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Neighbour {
    /// It was queued.
    pub start_ns: i64,
    /// It was done; as the begin where that was not seen.
    pub end_ns: i64,
    /// Bytes.
    pub size: u64,
    /// The block layer's operation and its flags (include/linux/blk_types.h); none where they are not known.
    pub operation: Option<u64>,
    pub dev: Option<Arc<str>>,
    pub thread: Option<Arc<Thread>>,
    pub owner: Owner,
}

/// Whose an I/O is that was given to none of the run's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Owner {
    /// None of those below: another program's, a thread's of the kernel (it may have worked for the run), or what the
    /// kernel read ahead for the run.
    #[default]
    Other,
    /// Another thread's of the program itself.
    OwnThread,
    /// A part of one of the run's own I/Os, not known which.
    Unplaced,
    /// Pages of the run's file that a limit had held back.
    HeldPages,
    /// A limit had held it back, whosever it is.
    Held,
    /// A word that this version does not know.
    Unknown,
}

/// Commit of a file system's journal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Commit {
    pub start_ns: i64,
    pub end_ns: i64,
    pub dev: Option<Arc<str>>,
}

/// A worker made room in memory itself, or an io_uring worker thread did for an I/O.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reclaim {
    pub start_ns: i64,
    pub end_ns: i64,
    pub worker: Option<u64>,
    /// The I/O of the io_uring worker thread.
    pub token: Option<u64>,
}

/// A window in which the control group's CPU quota was spent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuQuota {
    pub start_ns: i64,
    pub end_ns: i64,
    /// For how long, ns.
    pub without_ns: u64,
}

/// Nothing was seen of a worker, of one I/O, or of anything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gap {
    pub start_ns: i64,
    pub end_ns: i64,
    pub worker: Option<u64>,
    pub token: Option<u64>,
    /// The thread could have run.
    pub could_run: bool,
}

/// The thread that gathers events did not run although it could have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Still {
    pub start_ns: i64,
    pub end_ns: i64,
}

/// The block layer's own flush of a disk's cache.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Flush {
    pub start_ns: i64,
    pub end_ns: i64,
    pub dev: Option<Arc<str>>,
}

/// A hypervisor took a CPU to which a thread of the load came back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stolen {
    pub start_ns: i64,
    pub end_ns: i64,
    pub cpu: Option<u64>,
    /// For how long, ns.
    pub taken_ns: u64,
}

/// The target (a JVM) stopped all of its own threads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pause {
    pub start_ns: i64,
    pub end_ns: i64,
    /// From here on all stood still.
    pub stopped_ns: i64,
    /// What for, in its own words.
    pub reason: Arc<str>,
}

/// Begin and end of an event, ns.
pub trait Timed {
    fn start_ns(&self) -> i64;
    fn end_ns(&self) -> i64;
    /// Both.
    fn time(&self) -> TimeSpan {
        TimeSpan::new(self.start_ns(), self.end_ns())
    }
    /// Whose it is, of kinds that are looked for by that.
    fn whose(&self) -> Option<Whose> {
        None
    }
}

/// Whose an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// The I/O's with this token.
    Io(u64),
    /// No I/O's that is known.
    Nobody,
    /// The thread's that polls the submission queue of this worker.
    Polling(u64),
    /// The thread's with this number.
    Thread(u64),
}

macro_rules! events {
    ($($kind:ident $(=> $whose:expr)?),*) => {
        /// An event of any kind.
        #[derive(Debug, Clone, PartialEq)]
        pub enum LayerEvent {
            $($kind($kind),)*
        }

        $(
            impl Timed for $kind {
                fn start_ns(&self) -> i64 {
                    self.start_ns
                }
                fn end_ns(&self) -> i64 {
                    self.end_ns
                }
                $(
                    fn whose(&self) -> Option<Whose> {
                        let whose: fn(&$kind) -> Option<Whose> = $whose;
                        whose(self)
                    }
                )?
            }

            impl From<$kind> for LayerEvent {
                fn from(event: $kind) -> LayerEvent {
                    LayerEvent::$kind(event)
                }
            }
        )*
    };
}

events!(
    OffCpu,
    RingThread => |e| e.token.map(Whose::Io).or(e.off.worker.map(Whose::Polling)),
    Helper => |e| e.thread.tid.map(Whose::Thread),
    HeldPart => |e| Some(e.token.map_or(Whose::Nobody, Whose::Io)),
    Neighbour,
    Commit,
    Reclaim => |e| e.token.map(Whose::Io),
    CpuQuota,
    Gap => |e| e.token.map(Whose::Io),
    Still,
    Flush,
    Stolen,
    Pause
);

impl Deref for RingThread {
    type Target = OffCpu;
    fn deref(&self) -> &OffCpu {
        &self.off
    }
}

impl Deref for Helper {
    type Target = OffCpu;
    fn deref(&self) -> &OffCpu {
        &self.off
    }
}

/// Bits of a thread's state: stopped by a signal, held by its tracer (include/linux/sched.h).
const TASK_STOPPED: u64 = 4;
const TASK_TRACED: u64 = 8;

impl OffCpu {
    /// It could have gone on: another thread had its CPU.
    pub fn was_preempted(&self) -> bool {
        self.state == 0
    }

    /// When it was woken up; where that was not seen, no earlier than it did run.
    pub fn awake_ns(&self) -> i64 {
        self.woken_ns.unwrap_or(self.end_ns)
    }

    /// From its begin until then.
    pub fn asleep(&self) -> TimeSpan {
        TimeSpan::new(self.start_ns, self.awake_ns())
    }

    /// When it could have run again: it was preempted, or woken up.
    pub fn runnable_ns(&self) -> i64 {
        if self.was_preempted() { self.start_ns } else { self.awake_ns() }
    }

    /// Why it slept: a tracer, then a stop, by its state, else what its stack says ([`SleepReason::Unknown`] of an
    /// unfamiliar one). None without a stack.
    pub fn reason(&self) -> Option<SleepReason> {
        match self.state {
            state if state & TASK_TRACED != 0 => Some(SleepReason::TRACED),
            state if state & TASK_STOPPED != 0 => Some(SleepReason::STOPPED),
            _ => self.stack.as_deref().map(Stack::reason),
        }
    }

    /// Whether what it was in is so; false where that is not known.
    pub fn was_in(&self, is_so: impl FnOnce(&Stack) -> bool) -> bool {
        self.stack.as_deref().is_some_and(is_so)
    }
}

impl Waker {
    /// Its thread's number.
    pub fn tid(&self) -> Option<u64> {
        self.thread.as_ref()?.tid
    }

    /// Its name; none where it is not known, and of an interrupt.
    pub fn name(&self) -> Option<&str> {
        self.named().map(|thread| &*thread.name)
    }

    /// The thread, where its name is known.
    pub fn named(&self) -> Option<&Arc<Thread>> {
        self.thread.as_ref().filter(|thread| thread.has_name())
    }
}

impl RingThread {
    /// It polls the submission queue of its `worker`, and takes no I/O from another ring.
    pub fn polls(&self) -> bool {
        self.token.is_none() && self.worker.is_some()
    }
}

impl HeldPart {
    /// Whether a limit had held it back.
    pub fn by_limit(&self) -> bool {
        let reason = self.stack.as_deref().map(Stack::reason);
        matches!(reason, Some(SleepReason::For(Phase::Throttle, _)))
    }
}

/// The name that tracing gives to the kernel's reading ahead for the run's own reads.
pub const READ_AHEAD: &str = "readahead";

impl Neighbour {
    /// What an operation is, and some of its flags.
    const OPERATION: u64 = 0xff;
    const READ: u64 = 0;
    const WRITE: u64 = 1;
    const META: u64 = 1 << 12;
    const PREFLUSH: u64 = 1 << 18;

    /// Its thread's name begins so.
    pub fn is_by(&self, name: &str) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.name.starts_with(name))
    }

    /// The kernel read ahead for the run.
    pub fn is_read_ahead(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| &*thread.name == READ_AHEAD)
    }

    /// It is none of the parts of the run's own I/Os.
    pub fn is_beside(&self) -> bool {
        self.owner != Owner::Unplaced
    }

    /// When it was done is not known: runs made before ends were looked for have stamps of the queueing only.
    pub fn is_open(&self) -> bool {
        !self.is_read_ahead() && self.end_ns <= self.start_ns
    }

    /// Whether a file system wrote something of its own, or had the disk's cache flushed.
    pub fn writes_metadata(&self) -> bool {
        let own = Neighbour::META | Neighbour::PREFLUSH;
        self.operation.is_some_and(|op| op & Neighbour::WRITE != 0 && op & own != 0)
    }

    /// Whether it wrote data.
    pub fn writes_data(&self) -> bool {
        let writes = |op| op & Neighbour::OPERATION == Neighbour::WRITE;
        self.operation.is_some_and(writes) && !self.writes_metadata()
    }

    /// Whether it may have written: operations with odd numbers do.
    pub fn may_write(&self) -> bool {
        self.operation.is_none_or(|op| op & Neighbour::WRITE != 0)
    }

    /// Whether it read.
    pub fn reads(&self) -> bool {
        self.operation.is_some_and(|op| op & Neighbour::OPERATION == Neighbour::READ)
    }

    /// Whether a file system read something of its own.
    pub fn reads_metadata(&self) -> bool {
        self.reads() && self.operation.is_some_and(|op| op & Neighbour::META != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_of_unseen_wake_up_waited_for_no_cpu() {
        let off = |state, woken_ns| OffCpu {
            start_ns: 10,
            end_ns: 90,
            state,
            woken_ns,
            ..OffCpu::default()
        };
        assert_eq!(off(0, None).runnable_ns(), 10, "preempted");
        assert_eq!(off(2, Some(70)).runnable_ns(), 70);
        assert_eq!(off(2, None).runnable_ns(), 90);
    }
}
