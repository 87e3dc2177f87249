//! The parts of an I/O's time: their names, lengths and places on a time line.
//!
//! What it is: words and sums. What it is not: how stamps become phases, see `phases`.

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
    /// From the device's answer to the program, without waiting for a CPU.
    Completion,
    /// Runnable, but without a CPU.
    Cpu,
    /// The program was stopped or frozen.
    Stopped,
    /// Asleep in the program itself.
    Application,
    /// Waiting for an io_uring worker thread.
    IoWorker,
    /// Waiting for a server's answer.
    Server,
    /// Off the CPU in the kernel, without being seen what for.
    Blocked,
    /// Not seen.
    Unobserved,
}

impl Phase {
    /// Every phase, in the order of their indices.
    pub const ALL: [Phase; 17] = [
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
            Phase::Blocked => "blocked",
            Phase::Unobserved => "unobserved",
        }
    }
    /// In words.
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
            Phase::Application => "asleep in the program",
            Phase::IoWorker => "waiting for an io_uring worker",
            Phase::Server => "server and network",
            Phase::Blocked => "blocked in the kernel",
            Phase::Unobserved => "unobserved",
        }
    }
}

/// Lengths, ns, by phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases(pub [u64; Phase::ALL.len()]);

impl Phases {
    /// Length of one.
    pub fn get(&self, phase: Phase) -> u64 {
        self.0[phase as usize]
    }
    /// All together.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// A piece of an I/O's time line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// From, CLOCK_MONOTONIC ns.
    pub from: i64,
    /// To.
    pub to: i64,
    /// What.
    pub phase: Phase,
}
