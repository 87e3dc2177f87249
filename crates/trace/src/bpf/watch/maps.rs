//! Memory of the trace programs that only watching has: which processes are watched, which system calls are looked at,
//! free places, counts of latencies, disks.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, Queue, Stack};
use taillight_core::{Error, OpKind, Result};

use super::calls::SYSCALLS;
use super::told::{CallTally, KINDS, PLACES, together};
use crate::bpf::heartbeat::COLLECTOR_INDEX;
use crate::bpf::layout::{SLOTS, THREADS};
use crate::bpf::programs::region;
use crate::bpf::sys::SharedRegion;

/// Threads that are watched at a time, at most.
pub const WATCHED_THREADS: usize = 32_768;
/// Processes at most, see `SUBJECTS` of the programs.
pub const SUBJECTS: u32 = 16_384;
/// Places for requests, for answers about processes and for threads, each found by the number itself, as the programs
/// have them: powers of two.
const PLACED: u32 = 1 << 13;
const ASKED: u32 = 4096;
const SEATS: u32 = 4096;
/// Counts of calls by kind, of what began in windows, and of the first kinds' requests of io_uring and libaio.
const TALLIES: usize = (2 * KINDS + REQUEST_KINDS) * PLACES;
const REQUEST_KINDS: usize = 4;
/// As many are one value to the programs.
const TALLIES_LINE: usize = 8;
/// Disks that are looked at for I/O of others, at most.
pub const FOUND_DISKS: usize = 8;

/// The maps of a watch: its processes, its disks, and the counts by kind of operation and latency.
pub struct WatchMaps {
    /// Processes by number.
    subjects: Mutex<HashMap<MapData, u32, u32>>,
    disks: Mutex<Array<MapData, [u32; FOUND_DISKS]>>,
    tallies: SharedRegion<AtomicU64>,
}

impl WatchMaps {
    /// Names of the maps and how many entries each has: one each in a run that is traced and not watched, whose maps of
    /// threads are not named, since they keep the size that tracing gives them.
    pub fn sizes(watch: bool) -> impl Iterator<Item = (&'static str, u32)> {
        let all = [
            ("subjects", SUBJECTS),
            ("calls", SLOTS as u32),
            ("requested", 2 * SLOTS as u32),
            ("placed", PLACED),
            ("asked", ASKED),
            ("seats", SEATS),
            ("free_slots", SLOTS as u32),
            ("free_threads", WATCHED_THREADS as u32),
            ("syscalls", SYSCALLS),
            ("tallies", (TALLIES / TALLIES_LINE) as u32),
            ("exact_calls", WATCHED_THREADS as u32),
            ("mappings", SLOTS as u32),
            ("named", SLOTS as u32),
            ("paths", SLOTS as u32),
            ("sleepers", WATCHED_THREADS as u32),
            ("landings", WATCHED_THREADS as u32),
            ("threads", WATCHED_THREADS as u32),
            ("tids", WATCHED_THREADS as u32),
        ];
        all.into_iter().filter_map(move |(name, most)| match (watch, name) {
            (true, _) => Some((name, most)),
            (false, "threads" | "tids") => None,
            (false, _) => Some((name, 1)),
        })
    }

    /// Takes the maps and puts in what the programs find there; where `only` names a call, no other one of its kind.
    /// Errors: `Internal` for an object without them.
    pub fn take(ebpf: &mut Ebpf, only: Option<&str>) -> Result<WatchMaps> {
        let unusable = |e: aya::maps::MapError| Error::internal("a map is unusable").source(e);
        let mut taken = |name: &'static str| {
            let map = ebpf.take_map(name);
            map.ok_or_else(|| Error::internal("a map is missing").with("map", name))
        };
        let mut syscalls: Array<_, u32> = Array::try_from(taken("syscalls")?).map_err(unusable)?;
        for (number, what) in super::calls::for_programs(only) {
            syscalls.set(number, what, 0).map_err(unusable)?;
        }
        let mut free: Stack<_, u32> = Stack::try_from(taken("free_slots")?).map_err(unusable)?;
        for slot in 0..SLOTS as u32 {
            free.push(slot, 0).map_err(unusable)?;
        }
        let mut free: Queue<_, u32> = Queue::try_from(taken("free_threads")?).map_err(unusable)?;
        // The collector's place is no thread's; a worker's number has 16 bits.
        for place in (0..WATCHED_THREADS as u32).filter(|p| *p as usize != COLLECTOR_INDEX) {
            free.push(place, 0).map_err(unusable)?;
        }
        const { assert!(COLLECTOR_INDEX < THREADS && WATCHED_THREADS <= 1 << 16) };
        Ok(WatchMaps {
            subjects: Mutex::new(HashMap::try_from(taken("subjects")?).map_err(unusable)?),
            disks: Mutex::new(Array::try_from(taken("found_disks")?).map_err(unusable)?),
            tallies: region(ebpf, "tallies", TALLIES)?,
        })
    }

    /// Watches a process, too. Errors: `Unavailable` when there are too many.
    pub fn add(&self, pid: u32) -> Result<()> {
        let mut subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        subjects.insert(pid, 1, 0).map_err(|e| {
            Error::unavailable("no more processes can be watched").with("most", SUBJECTS).source(e)
        })
    }

    /// Watches a process no more.
    pub fn remove(&self, pid: u32) {
        let mut subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        // It has ended, and the programs were first.
        let _ = subjects.remove(&pid);
    }

    /// Processes that are watched, ascending, each once: while some come and go the kernel may list one twice.
    pub fn pids(&self) -> Vec<u32> {
        let subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<u32> = subjects.keys().flatten().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether nobody is watched, without listing everybody.
    pub fn is_empty(&self) -> bool {
        let subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        subjects.keys().flatten().next().is_none()
    }

    /// What each kind of operation took since the start, or of those that began in windows (`exact`); kinds without any
    /// are left out.
    pub fn tallies(&self, exact: bool) -> Vec<(OpKind, CallTally)> {
        if exact {
            return self.counted(KINDS..2 * KINDS);
        }
        together(self.counted(0..KINDS).iter().chain(&self.requests()))
    }

    /// The same of requests of io_uring and libaio alone.
    pub fn requests(&self) -> Vec<(OpKind, CallTally)> {
        self.counted(2 * KINDS..2 * KINDS + REQUEST_KINDS)
    }

    /// Tallies at these numbers, of kinds from the first one on.
    fn counted(&self, at: Range<usize>) -> Vec<(OpKind, CallTally)> {
        let of = |(at, op): (usize, OpKind)| {
            let tally = CallTally::of(|i| self.tallies.get(at * PLACES + i).load(Relaxed))?;
            Some((op, tally))
        };
        at.zip(OpKind::ALL).filter_map(of).collect()
    }

    /// From now on looks for I/O of others on these disks alone, kernel numbers; those beyond [`FOUND_DISKS`] are left
    /// out.
    pub fn look_at(&self, disks: &[u32]) {
        let mut list = [0; FOUND_DISKS];
        list.iter_mut().zip(disks).for_each(|(place, disk)| *place = *disk);
        let mut map = self.disks.lock().unwrap_or_else(PoisonError::into_inner);
        // Without it neighbours are not seen, which the report says of disks that are not watched.
        let _ = map.set(0, list, 0);
    }
}
