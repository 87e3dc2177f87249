//! The parts of an I/O's time, their names and their lengths.
//!
//! What it is: the words that time lines, verdicts and pictures share. How a time line is cut is in
//! `phases`, which layer a part belongs to in `judge`.

/// A part of an I/O's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// On the CPU before the block layer: the tool's queue, the system call, the file system.
    Submit,
    /// Asleep in the file system: journal, locks, freeze, FUSE server.
    FileSystem,
    /// Asleep or busy for the page cache: dirty throttling, writeback, reclaim.
    PageCache,
    /// Held back by a limit: cgroup, writeback throttling, I/O cost.
    Throttle,
    /// Waiting for a free request.
    Tags,
    /// From the request to the driver: plug, I/O scheduler, requeues.
    Queue,
    /// In the device, or in the driver and below.
    Device,
    /// In the block queue of the lower level (below a loop device).
    LowerQueue,
    /// In the device of the lower level.
    LowerDevice,
    /// From the device's answer to the wake-up of who waits for it.
    Completion,
    /// Runnable, but without a CPU.
    Cpu,
    /// The program was stopped or frozen.
    Stopped,
    /// In the program itself: asleep, or on the CPU after the answer was there.
    Application,
    /// Waiting for an io_uring worker thread.
    IoWorker,
    /// Waiting for a server's answer.
    Server,
    /// Asleep in a store inside the program: held back, behind another writer, behind its locks.
    Store,
    /// Off the CPU in the kernel, without being seen what for.
    Blocked,
    Unobserved,
}

impl Phase {
    /// Every phase, in the order of their indices.
    pub const ALL: [Phase; 18] = [
        Phase::Submit,
        Phase::FileSystem,
        Phase::PageCache,
        Phase::Throttle,
        Phase::Tags,
        Phase::Queue,
        Phase::Device,
        Phase::LowerQueue,
        Phase::LowerDevice,
        Phase::Completion,
        Phase::Cpu,
        Phase::Stopped,
        Phase::Application,
        Phase::IoWorker,
        Phase::Server,
        Phase::Store,
        Phase::Blocked,
        Phase::Unobserved,
    ];
    /// Stable word in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Submit => "submit",
            Phase::FileSystem => "file_system",
            Phase::PageCache => "page_cache",
            Phase::Throttle => "throttle",
            Phase::Tags => "tags",
            Phase::Queue => "queue",
            Phase::Device => "device",
            Phase::LowerQueue => "lower_queue",
            Phase::LowerDevice => "lower_device",
            Phase::Completion => "completion",
            Phase::Cpu => "cpu",
            Phase::Stopped => "stopped",
            Phase::Application => "application",
            Phase::IoWorker => "io_worker",
            Phase::Server => "server",
            Phase::Store => "store",
            Phase::Blocked => "blocked",
            Phase::Unobserved => "unobserved",
        }
    }
    pub fn words(self) -> &'static str {
        match self {
            Phase::Submit => "submission",
            Phase::FileSystem => "file system",
            Phase::PageCache => "page cache",
            Phase::Throttle => "held back",
            Phase::Tags => "waiting for a request",
            Phase::Queue => "block queue",
            Phase::Device => "device",
            Phase::LowerQueue => "queue of the lower device",
            Phase::LowerDevice => "lower device",
            Phase::Completion => "completion",
            Phase::Cpu => "waiting for a CPU",
            Phase::Stopped => "stopped",
            Phase::Application => "in the program",
            Phase::IoWorker => "waiting for an io_uring worker",
            Phase::Server => "server and network",
            Phase::Store => "waiting in the store",
            Phase::Blocked => "blocked in the kernel",
            Phase::Unobserved => "unobserved",
        }
    }
}

/// Lengths, ns, by phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases(pub [u64; Phase::ALL.len()]);

impl Phases {
    pub fn get(&self, phase: Phase) -> u64 {
        self.0[phase as usize]
    }
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}
