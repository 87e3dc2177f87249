//! The parts of an I/O's time, with the names and lengths that time lines, verdicts and pictures share. How
//! a time line is cut is in `phases`, which layer a part belongs to in `judge`.

/// A part of an I/O's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// On the CPU before the block layer: the tool's queue, the system call, the file system. Also the time
    /// on the CPU of an I/O without block I/O.
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
    /// From the device's answer to the wake-up of the thread that waits for it.
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
    /// In a virtual machine inside the program that had stopped its threads.
    JvmPause,
    /// Off the CPU in the kernel, without being seen what for (backend perf alone).
    Blocked,
    /// Nothing says what it was.
    Unobserved,
}

/// Every phase in the order of their indices: its stable word in outputs, and its name for people.
const TABLE: [(Phase, &str, &str); 19] = [
    (Phase::Submit, "submit", "submission"),
    (Phase::FileSystem, "file_system", "file system"),
    (Phase::PageCache, "page_cache", "page cache"),
    (Phase::Throttle, "throttle", "held back"),
    (Phase::Tags, "tags", "waiting for a request"),
    (Phase::Queue, "queue", "block queue"),
    (Phase::Device, "device", "device"),
    (Phase::LowerQueue, "lower_queue", "queue of the lower device"),
    (Phase::LowerDevice, "lower_device", "lower device"),
    (Phase::Completion, "completion", "completion"),
    (Phase::Cpu, "cpu", "waiting for a CPU"),
    (Phase::Stopped, "stopped", "stopped"),
    (Phase::Application, "application", "the program"),
    (Phase::IoWorker, "io_worker", "io_uring worker"),
    (Phase::Server, "server", "server and network"),
    (Phase::Store, "store", "store"),
    (Phase::JvmPause, "jvm_pause", "JVM pause"),
    (Phase::Blocked, "blocked", "blocked in the kernel"),
    (Phase::Unobserved, "unobserved", "unobserved"),
];

impl Phase {
    /// Every phase, in the order of their indices.
    pub const ALL: [Phase; TABLE.len()] = {
        let mut all = [Phase::Submit; TABLE.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] = TABLE[i].0;
            i += 1;
        }
        all
    };
    /// Stable word in outputs.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }
    pub fn words(self) -> &'static str {
        TABLE[self as usize].2
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_phases() {
        assert!(Phase::ALL.iter().enumerate().all(|(i, phase)| *phase as usize == i));
    }
}
