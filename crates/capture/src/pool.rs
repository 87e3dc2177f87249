//! The capture memory of a run: a keeper thread makes chunks inside a budget, workers take them and
//! hand them back full, and the keeper moves full ones to the spill directory when memory is short.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, unbounded};
use taillight_core::plan::{CAPTURE_CHUNK, capture_chunk, least_capture};
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result};

use crate::chunk::Header;
use crate::convert::{ChunkFiles, ChunkStore};
use crate::sys::ChunkMapping;

/// Chunks kept ready per worker, as long as they are worth it: see [`ChunkSizes`].
const READY_PER_WORKER: usize = 3;

/// Chunks beyond the first of each worker made before the start, at most.
const READY_AT_START: usize = 8;

/// Memory of the first chunks of all workers together, for each CPU: 25 ms of what a CPU can fill. Making memory and
/// giving it back costs a short run more than all else it does (4 us a page of a virtual machine).
const FIRST_PER_CPU: u64 = 8 << 20;
/// Most and fewest bytes of a worker's first chunk.
const FIRST_CHUNK: std::ops::RangeInclusive<u64> = 64 << 10..=CAPTURE_CHUNK / 4;
/// What a few operations need at least: usual records, and a head.
const LEAST_CHUNK: u64 = 16 << 10;
const RECORD_BYTES: u64 = 32;

/// How often the keeper looks whether it is to end; each look costs the machine under test a wake-up.
const LOOK_AROUND: Duration = Duration::from_millis(250);

/// A chunk a worker writes into.
pub struct CaptureChunk {
    map: ChunkMapping,
    path: PathBuf,
}

impl CaptureChunk {
    /// The memory, header included.
    #[inline]
    pub fn words(&mut self) -> &mut [u64] {
        self.map.words()
    }
}

/// A chunk that a worker has handed back.
pub struct FullChunk {
    pub key: ChunkKey,
    pub path: PathBuf,
    /// None once it was to be spilled: it is read from `path`.
    map: Option<ChunkMapping>,
}

/// Chunks for the conversion: those in memory are read where the workers wrote them.
pub struct FullChunks {
    files: ChunkFiles,
    maps: Vec<Option<ChunkMapping>>,
}

impl FullChunks {
    /// These, and files of which there is no mapping.
    pub fn new(full: Vec<FullChunk>, more: Vec<PathBuf>) -> FullChunks {
        let (mut paths, maps): (Vec<_>, _) = full.into_iter().map(|c| (c.path, c.map)).unzip();
        paths.extend(more);
        FullChunks { files: ChunkFiles(paths), maps }
    }

    fn map(&self, chunk: usize) -> Option<&ChunkMapping> {
        self.maps.get(chunk)?.as_ref()
    }
}

impl ChunkStore for FullChunks {
    fn count(&self) -> usize {
        self.files.count()
    }
    fn bytes<'a>(&'a self, chunk: usize, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        match self.map(chunk) {
            Some(map) => Ok(map.bytes()),
            None => self.files.bytes(chunk, buffer),
        }
    }
    fn header(&self, chunk: usize) -> Result<Header> {
        match self.map(chunk) {
            Some(map) => Header::read(map.bytes()),
            None => self.files.header(chunk),
        }
    }
    fn release(&mut self, chunk: usize) -> Result<()> {
        if let Some(map) = self.maps.get_mut(chunk) {
            *map = None;
        }
        self.files.release(chunk)
    }
}

/// What a worker holds: where chunks come from and where full ones go.
#[derive(Clone)]
pub struct ChunkSource {
    ready: Receiver<CaptureChunk>,
    full: Sender<(ChunkKey, CaptureChunk)>,
    shared: Arc<PoolState>,
}

/// Orders chunks: worker, then sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkKey {
    /// Worker number over all workloads.
    pub worker: u16,
    /// Chunk number of that worker.
    pub seq: u32,
}

/// How large chunks are: the first small, later ones in proportion to what is used already, so that memory and time
/// grow with workers and I/Os without a step. A process has 65,530 mappings, and each chunk is one.
#[derive(Debug, Clone, Copy)]
struct ChunkSizes {
    first: u64,
    largest: u64,
    workers: u64,
}

impl ChunkSizes {
    /// For chunks of `largest` bytes at most and this many operations, where that is known.
    fn new(largest: u64, workers: u64, cpus: u64, operations: Option<u64>) -> ChunkSizes {
        let workers = workers.max(1);
        let share = FIRST_PER_CPU * cpus.max(1) / workers;
        let first = (1 << share.max(1).ilog2()).clamp(*FIRST_CHUNK.start(), *FIRST_CHUNK.end());
        let enough = operations.map_or(first, |n| {
            (n / workers).saturating_mul(RECORD_BYTES).clamp(LEAST_CHUNK, first).next_power_of_two()
        });
        ChunkSizes { first: first.min(enough).min(largest), largest, workers }
    }

    /// The next chunk, when `used` bytes are in chunks.
    fn next(&self, used: u64) -> u64 {
        // Few workers keep to small chunks longer; many would need too many mappings.
        let patience = (1024 / self.workers).clamp(1, 4);
        let grown = used / self.workers / patience;
        (1 << grown.max(1).ilog2()).clamp(self.first, self.largest)
    }

    /// Chunks to keep ready: three for each worker, or what all CPUs fill in 75 ms.
    fn ready(&self, cpus: u64) -> usize {
        let most = READY_PER_WORKER as u64 * FIRST_PER_CPU * cpus.max(1) / self.first;
        (READY_PER_WORKER as u64 * self.workers).min(most) as usize
    }
}

struct PoolState {
    dir: PathBuf,
    made: AtomicU64,
    budget: u64,
    sizes: ChunkSizes,
    /// Bytes in memory now, and at most so far.
    used: AtomicU64,
    most: AtomicU64,
    spilled: AtomicU64,
    reserve: u64,
    exhausted: AtomicBool,
    /// Memory or the spill directory failed: no more is made. A spent budget alone may refill.
    failed: AtomicBool,
    problems: Mutex<Vec<String>>,
    stop: AtomicBool,
    spill: Option<PathBuf>,
}

/// The capture memory of a run.
pub struct Pool {
    source: ChunkSource,
    keeper: Option<JoinHandle<()>>,
    collected: Receiver<FullChunk>,
}

/// What the pool did.
#[derive(Default)]
pub struct PoolReport {
    /// Ordered by worker and sequence.
    pub chunks: Vec<FullChunk>,
    /// Most bytes of memory that chunks took at one time; spilled ones take none.
    pub used: u64,
    /// Bytes that were moved to the spill directory.
    pub spilled: u64,
    /// What went wrong while making or spilling chunks; records already kept are not touched.
    pub problems: Vec<String>,
}

impl Pool {
    /// Makes the first chunks for `workers` in `dir`, smaller ones where the budget is small or few operations are
    /// to come, and starts the keeper. Errors:
    /// `Unavailable` when memory for the first chunks cannot be reserved.
    pub fn start(
        dir: &Path,
        budget: u64,
        spill: Option<&Path>,
        (workers, operations): (usize, Option<u64>),
    ) -> Result<Pool> {
        let Some(chunk) = capture_chunk(budget, workers as u32) else {
            return Err(Error::unavailable("there is no memory for the capture")
                .with("there is", ByteSize(budget))
                .with("needed", ByteSize(least_capture(workers as u64))));
        };
        // An eighth is held back for outliers after the budget is spent, at least one per worker.
        let reserve = (budget / 8).max(chunk * workers as u64);
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let sizes = match spill {
            // Those that are spilled come back as they are.
            Some(_) => ChunkSizes { first: chunk, largest: chunk, workers: workers as u64 },
            None => ChunkSizes::new(chunk, workers as u64, cpus, operations),
        };
        let shared = Arc::new(PoolState {
            dir: dir.to_owned(),
            made: AtomicU64::new(0),
            budget,
            sizes,
            used: AtomicU64::new(0),
            most: AtomicU64::new(0),
            spilled: AtomicU64::new(0),
            reserve,
            exhausted: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            problems: Mutex::default(),
            stop: AtomicBool::new(false),
            spill: spill.map(Path::to_owned),
        });
        let (ready_in, ready) = bounded(sizes.ready(cpus).max(workers));
        let (full, full_out) = unbounded();
        let (done_in, collected) = unbounded();
        for _ in 0..workers {
            let _ = ready_in.try_send(shared.first()?);
        }
        // Few workers get all that is kept ready: made later it would cost the start of the load CPU.
        let room = sizes.ready(cpus).saturating_sub(workers);
        for _ in 0..((READY_PER_WORKER - 1) * workers).min(READY_AT_START).min(room) {
            let Some(bytes) = shared.take(false) else {
                break;
            };
            let _ = ready_in.try_send(shared.build(bytes)?);
        }
        let keeper = KeeperThread {
            shared: shared.clone(),
            ready: ready_in,
            keep: sizes.ready(cpus),
            full: full_out,
            done: done_in,
        };
        let keeper = std::thread::Builder::new()
            .name("capture".into())
            .spawn(move || keeper.run())
            .map_err(|e| Error::unavailable("cannot start a thread").source(e))?;
        let source = ChunkSource { ready, full, shared };
        Ok(Pool { source, keeper: Some(keeper), collected })
    }

    /// A worker's end of the pool.
    pub fn source(&self) -> ChunkSource {
        self.source.clone()
    }

    /// Stops the keeper after it has taken every full chunk; all workers must have finished.
    /// Errors: `Internal` when the keeper panicked.
    pub fn finish(self) -> Result<PoolReport> {
        let Pool { source, keeper, collected } = self;
        let shared = source.shared.clone();
        shared.stop.store(true, Ordering::Release);
        drop(source);
        if let Some(keeper) = keeper {
            keeper.join().map_err(|_| Error::internal("the capture thread panicked"))?;
        }
        let mut chunks: Vec<_> = collected.try_iter().collect();
        chunks.sort_unstable_by_key(|chunk: &FullChunk| chunk.key);
        Ok(PoolReport {
            chunks,
            used: shared.most.load(Ordering::Relaxed),
            spilled: shared.spilled.load(Ordering::Relaxed),
            problems: shared.problems().clone(),
        })
    }
}

impl ChunkSource {
    /// The next chunk, or `None` when the budget is spent or memory cannot be had. Makes one
    /// itself when the keeper is behind.
    pub fn next(&self) -> Option<CaptureChunk> {
        if let Ok(chunk) = self.ready.try_recv() {
            return Some(chunk);
        }
        if self.shared.exhausted.load(Ordering::Relaxed) {
            return None;
        }
        // While spilling, the reserve is the slack until the keeper has written the oldest chunk.
        let Some(bytes) = self.shared.take(self.shared.spill.is_some()) else {
            self.shared.exhausted.store(true, Ordering::Relaxed);
            return None;
        };
        self.shared.build_or_note(bytes)
    }

    /// A chunk from the reserve, for outliers after the budget is spent; `None` when that is
    /// spent too.
    pub fn next_reserved(&self) -> Option<CaptureChunk> {
        if let Ok(chunk) = self.ready.try_recv() {
            return Some(chunk);
        }
        self.shared.take(true).and_then(|bytes| self.shared.build_or_note(bytes))
    }

    /// Hands back a chunk that holds records.
    pub fn full(&self, key: ChunkKey, chunk: CaptureChunk) {
        // The keeper outlives every source; if it has died, its error is reported by `finish`.
        let _ = self.full.send((key, chunk));
    }
}

impl PoolState {
    /// Takes the next chunk's bytes from the budget.
    fn take(&self, reserved: bool) -> Option<u64> {
        let limit = if reserved { self.budget } else { self.budget - self.reserve };
        let bytes = self.sizes.next(self.used.load(Ordering::Relaxed));
        let took = self.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |used| {
            (used + bytes <= limit).then_some(used + bytes)
        });
        let before = took.ok()?;
        self.most.fetch_max(before + bytes, Ordering::Relaxed);
        Some(bytes)
    }

    /// A worker's first chunk; `start` has checked that the budget holds one for each.
    fn first(&self) -> Result<CaptureChunk> {
        let spent = || Error::internal("the capture budget was checked and is now spent");
        self.build(self.take(false).ok_or_else(spent)?)
    }

    fn problems(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers why the capture cannot grow any more.
    fn note(&self, problem: String) {
        self.failed.store(true, Ordering::Relaxed);
        self.exhausted.store(true, Ordering::Relaxed);
        let mut problems = self.problems();
        if problems.len() < 8 && !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    /// A chunk, or none: memory that the budget allows but the machine does not have ends the
    /// growth of the capture, not the run.
    fn build_or_note(&self, bytes: u64) -> Option<CaptureChunk> {
        self.build(bytes).map_err(|e| self.note(e.to_string())).ok()
    }

    fn build(&self, bytes: u64) -> Result<CaptureChunk> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("{number:08}.chunk"));
        Ok(CaptureChunk { map: ChunkMapping::create(&path, bytes as usize)?, path })
    }
}

struct KeeperThread {
    shared: Arc<PoolState>,
    ready: Sender<CaptureChunk>,
    /// How many chunks are kept ready.
    keep: usize,
    full: Receiver<(ChunkKey, CaptureChunk)>,
    done: Sender<FullChunk>,
}

impl KeeperThread {
    fn run(self) {
        let mut spare = None;
        loop {
            let stopping = self.shared.stop.load(Ordering::Acquire);
            for (key, chunk) in self.full.try_iter() {
                self.keep(key, chunk);
            }
            if stopping {
                return;
            }
            let wanted =
                self.ready.len() < self.keep && !self.shared.failed.load(Ordering::Relaxed);
            if spare.is_none() && wanted {
                spare = self.shared.take(false).and_then(|bytes| self.shared.build_or_note(bytes));
            }
            match spare.take().map(|chunk| self.ready.try_send(chunk)) {
                Some(Ok(())) => continue,
                Some(Err(TrySendError::Full(chunk) | TrySendError::Disconnected(chunk))) => {
                    spare = Some(chunk);
                }
                None => {}
            }
            // Sleeps until a worker hands over a full chunk, the last source is gone, or it is time to look around.
            if let Ok((key, chunk)) = self.full.recv_timeout(LOOK_AROUND) {
                self.keep(key, chunk);
            }
        }
    }

    /// Passes a full chunk on; spills it when memory is short and a directory was given. A
    /// chunk that cannot be spilled stays where it is.
    fn keep(&self, key: ChunkKey, chunk: CaptureChunk) {
        let CaptureChunk { map, path } = chunk;
        let bytes = map.bytes().len() as u64;
        let Some(spill) = self.shared.spill.as_ref().filter(|_| self.short()) else {
            let _ = self.done.send(FullChunk { key, path, map: Some(map) });
            return;
        };
        drop(map);
        let to = spill.join(format!("{:05}-{:08}.chunk", key.worker, key.seq));
        let path = match std::fs::copy(&path, &to).and_then(|_| std::fs::remove_file(&path)) {
            Ok(()) => {
                self.shared.used.fetch_sub(bytes, Ordering::AcqRel);
                self.shared.spilled.fetch_add(bytes, Ordering::Relaxed);
                to
            }
            Err(e) => {
                let _ = std::fs::remove_file(&to);
                self.shared.note(format!("cannot spill the capture to {}: {e}", to.display()));
                path
            }
        };
        let _ = self.done.send(FullChunk { key, path, map: None });
    }

    fn short(&self) -> bool {
        let used = self.shared.used.load(Ordering::Relaxed);
        used + 4 * self.shared.sizes.largest > self.shared.budget - self.shared.reserve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = taillight_core::plan::CAPTURE_CHUNK;

    fn key(seq: u32) -> ChunkKey {
        ChunkKey { worker: 0, seq }
    }

    #[test]
    fn budget_is_kept_and_reserve_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::start(dir.path(), 16 * CHUNK, None, (1, None)).unwrap();
        let source = pool.source();
        let mut usual = 0;
        while let Some(mut chunk) = source.next() {
            chunk.words()[0] = 1;
            source.full(key(usual), chunk);
            usual += 1;
        }
        // Eight of a quarter and four of half the size, then whole ones, but for an eighth as the reserve;
        // the keeper may still be building the last usual one.
        assert!((20..=23).contains(&usual), "{usual}");
        let mut taken = usual;
        while let Some(chunk) = source.next_reserved() {
            source.full(key(taken), chunk);
            taken += 1;
        }
        drop(source);
        let report = pool.finish().unwrap();
        let size = |chunk: &FullChunk| chunk.path.metadata().unwrap().len();
        let sizes: Vec<u64> = report.chunks.iter().map(size).collect();
        let all: u64 = sizes.iter().sum();
        assert_eq!(sizes.iter().min().zip(sizes.iter().max()), Some((&(CHUNK / 4), &CHUNK)));
        assert!(report.used >= all && all > 14 * CHUNK && report.used <= 16 * CHUNK, "{sizes:?}");
    }

    #[test]
    fn spill_moves_chunks_and_keeps_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let spill = dir.path().join("spill");
        std::fs::create_dir(&spill).unwrap();
        let budget = 8 * CHUNK;
        let pool = Pool::start(dir.path(), budget, Some(&spill), (1, None)).unwrap();
        let source = pool.source();
        for seq in 0..30 {
            let mut chunk = loop {
                if let Some(chunk) = source.next() {
                    break chunk;
                }
                std::thread::yield_now();
            };
            chunk.words()[0] = u64::from(seq);
            source.full(key(seq), chunk);
        }
        drop(source);
        let report = pool.finish().unwrap();
        assert!(report.used <= budget && report.used >= budget / 2, "the most, not what is left");
        let spilled = std::fs::read_dir(&spill).unwrap().flatten();
        let bytes: u64 = spilled.map(|file| file.metadata().unwrap().len()).sum();
        assert_eq!(report.spilled, bytes);
        for (i, FullChunk { key, path, .. }) in report.chunks.iter().enumerate() {
            let data = std::fs::read(path).unwrap();
            assert_eq!((key.seq, data[0]), (i as u32, i as u8));
        }
        assert!(std::fs::read_dir(&spill).unwrap().count() > 10);
    }

    #[test]
    fn a_full_spill_directory_keeps_chunks_in_memory_and_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let spill = dir.path().join("spill");
        std::fs::create_dir(&spill).unwrap();
        let budget = 4 * CHUNK;
        let pool = Pool::start(dir.path(), budget, Some(&spill), (1, None)).unwrap();
        std::fs::remove_dir(&spill).unwrap();
        let source = pool.source();
        let mut taken = 0;
        while let Some(chunk) = source.next() {
            source.full(key(taken), chunk);
            taken += 1;
        }
        drop(source);
        let report = pool.finish().unwrap();
        assert!(report.spilled == 0 && !report.problems.is_empty());
        assert_eq!(report.chunks.len() as u32, taken);
        assert!(report.chunks.iter().all(|c| c.path.exists()));
    }

    #[test]
    fn memory_grows_with_workers_and_ios_without_a_step() {
        let budget = 6 << 30;
        let at_start = |workers: u64| {
            let chunk = capture_chunk(budget, workers as u32).unwrap();
            let sizes = ChunkSizes::new(chunk, workers, 2, None);
            let (mut used, mut most) = (0, 0);
            for _ in 0..workers as usize + sizes.ready(2) {
                let next = sizes.next(used);
                used += next;
                most = next.max(most);
            }
            assert!(most <= 2 * sizes.first, "{workers}: {most}");
            used
        };
        let all: Vec<u64> = (1..=4096).map(at_start).collect();
        for (workers, pair) in all.windows(2).enumerate() {
            // A power of two less for each: from 2 MiB down to 64 KiB.
            assert!(pair[1] < pair[0] + pair[0] / 2 + CHUNK, "{} workers: {pair:?}", workers + 2);
        }
        assert_eq!(all[0], CHUNK, "four of a quarter");
        assert!(all.iter().take(256).all(|used| *used <= 64 << 20), "{:?}", all.iter().max());
        assert!(all[4095] <= 320 << 20, "{}", all[4095]);
        // As many mappings as a process has must hold a whole budget.
        for workers in [1, 64, 1000, 4096] {
            let sizes =
                ChunkSizes::new(capture_chunk(budget, workers).unwrap(), workers.into(), 2, None);
            let (mut used, mut count) = (0, 0);
            while used < budget {
                used += sizes.next(used);
                count += 1;
            }
            assert!(count < 56_000, "{workers}: {count}");
        }
        let few = |operations| ChunkSizes::new(CHUNK, 1, 2, Some(operations)).first;
        assert_eq!((few(0), few(100), few(100_000)), (LEAST_CHUNK, LEAST_CHUNK, 2 << 20));
    }

    #[test]
    fn a_small_budget_has_small_chunks() {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::start(dir.path(), 1 << 20, None, (4, None)).unwrap();
        assert!(pool.source().next().is_some());
        let sizes = std::fs::read_dir(dir.path()).unwrap().flatten();
        let sizes: Vec<_> = sizes.map(|e| e.metadata().unwrap().len()).collect();
        assert!(sizes.len() >= 4 && sizes.iter().all(|n| *n == 32 << 10), "{sizes:?}");
        assert!(Pool::start(dir.path(), 100 << 10, None, (4, None)).is_err());
    }
}
