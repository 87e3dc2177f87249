//! What to do next: operation, size, offset. One generator per worker, seeded, without a clock.
//!
//! The same seed gives a worker the same operations in the same order; on keys they depend on what other
//! workers have inserted and deleted as well. Adding an access pattern: one file here, a variant of `AccessPattern` and
//! its arms, chosen in `AccessPattern::of_one`.

pub mod dist;
mod keyed;
mod mix;
mod pattern;
pub mod permute;
mod recorded;
mod runs;
mod sequential;
pub mod size;

use std::ops::Range;
use std::sync::Arc;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::{ALL_FIELDS, Error, Op, OpKind, Result, SyncKind};
use taillight_driver::Geometry;

pub use keyed::{KeyGenerator, drawn};
use mix::Mix;
pub(crate) use pattern::AccessExtent;
use pattern::{AccessPattern, BlockTurns};
use recorded::RecordedOps;

use size::Sizes;

use crate::keyspace::KeySpace;
use crate::splitmix;

/// The random generator of all draws: small, fast, seedable.
pub type Rng = Xoshiro256PlusPlus;

/// A generator seed from the run's seed and a worker's number. Different streams per purpose.
pub fn worker_seed(run_seed: u64, worker: u16, purpose: u64) -> u64 {
    let x = run_seed ^ (u64::from(worker) + 1).wrapping_mul(splitmix::STEP);
    splitmix::finish(x ^ purpose.wrapping_mul(0xD1B5_4A32_D192_ED03))
}

/// The part of a file that a worker goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePart {
    pub file: u16,
    pub offset: u64,
    pub bytes: u64,
}

/// Where a worker stands among the workers of its workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerIndex {
    /// Worker number over all workloads (seeds).
    pub worker: u16,
    /// Number within the workload, from 0.
    pub index: u32,
    /// Workers of the workload.
    pub of: u32,
}

impl WorkerIndex {
    /// A worker of rank `number` of `of` among those of all ranks.
    pub fn among_ranks(self, number: u32, of: u32) -> WorkerIndex {
        let index = number.saturating_mul(self.of).saturating_add(self.index);
        WorkerIndex { index, of: of.max(1).saturating_mul(self.of), ..self }
    }
}

/// Where operations come from.
#[derive(Debug, Clone)]
enum OpSource {
    /// Drawn: mix, sizes and pattern.
    Drawn,
    /// Drawn, and nothing but the place is to be drawn: one kind of operation and one size at random places. What the
    /// general draw asks each time was asked once.
    Uniform { kind: OpKind, size: u64 },
    /// On targets addressed by key everything comes from here.
    Keyed(Box<KeyGenerator>),
    /// Operations of a trace.
    Recorded(Box<RecordedOps>),
}

/// Yields one worker's operations.
#[derive(Debug, Clone)]
pub struct Generator {
    rng: Rng,
    mix: Mix,
    sizes: Sizes,
    pattern: AccessPattern,
    /// Where its blocks are, when ranks have them in turns.
    turns: Option<BlockTurns>,
    file_size: u64,
    sync: Option<(SyncKind, u32)>,
    writes: u32,
    source: OpSource,
    /// Passes over the worker's part, at most.
    passes: u64,
    ended: bool,
    /// Each write comes after a trim of its block: the write that is next.
    trims: Option<Option<Op>>,
}

impl Generator {
    /// The generator of the worker at `place`. Errors: `Usage` when the extent lies outside the data set or cannot
    /// hold a block for each worker, the trace does not fit the target, or there are no keys to read.
    pub fn new(
        plan: &Plan,
        workload: &WorkloadPlan,
        shape: Geometry,
        place: WorkerIndex,
        space: Option<&Arc<KeySpace>>,
    ) -> Result<Self> {
        let seed = worker_seed(plan.run.seed, place.worker, 1);
        let source = match (space, &workload.trace) {
            (Some(space), _) => {
                let turns = plan.in_turns();
                let place = turns.map_or(place, |r| place.among_ranks(r.part(), r.of));
                OpSource::Keyed(Box::new(KeyGenerator::new(plan, workload, space.clone(), place)?))
            }
            (None, Some(trace)) => {
                // As its times are shared (`setup::worker_specs`).
                let place = plan.ranks.map_or(place, |r| place.among_ranks(r.rank, r.of));
                OpSource::Recorded(Box::new(RecordedOps::new(&trace.ops, shape, place)?))
            }
            (None, None) => OpSource::Drawn,
        };
        let extent = AccessExtent::of(workload, shape)?;
        let (extent, turns) = match source {
            OpSource::Keyed(_) => (extent, None),
            _ => extent.of_rank(plan)?,
        };
        let fsync_only = workload.mix.iter().all(|m| m.op == OpKind::Fsync || m.weight == 0);
        if extent.bytes() < workload.block_size.max() && !fsync_only {
            return Err(Error::usage("the extent is smaller than one block")
                .with("workload", &workload.name)
                .with("extent", extent.bytes())
                .with("block_size", workload.block_size.max())
                .hint("make target.size or access.length larger, or block_size smaller"));
        }
        let pattern = match source {
            OpSource::Keyed(_) | OpSource::Recorded(_) => AccessPattern::unused(&extent),
            OpSource::Drawn | OpSource::Uniform { .. } => {
                AccessPattern::new(plan.run.seed, workload, &extent, place)?
            }
        };
        let mut generator = Generator {
            rng: Rng::seed_from_u64(seed),
            mix: Mix::new(&workload.mix),
            sizes: Sizes::new(&workload.block_size)?,
            pattern,
            turns,
            file_size: shape.file_size,
            sync: workload.sync.every(),
            writes: 0,
            source,
            passes: workload.passes.unwrap_or(u64::MAX),
            ended: false,
            trims: workload.trim_first.then_some(None),
        };
        if let Some(uniform) = generator.uniform() {
            generator.source = uniform;
        }
        Ok(generator)
    }

    /// Where only places are drawn: what all operations have in common.
    fn uniform(&self) -> Option<OpSource> {
        let (OpSource::Drawn, AccessPattern::Random { .. }) = (&self.source, &self.pattern) else {
            return None;
        };
        let (kind, Sizes::Fixed(size)) = (self.mix.only()?, &self.sizes) else { return None };
        let plain = self.trims.is_none()
            && self.turns.is_none()
            && self.passes == u64::MAX
            && self.sync.is_none();
        let uniform = OpSource::Uniform { kind, size: *size };
        (plain && kind != OpKind::Fsync).then_some(uniform)
    }

    /// Every block size of a workload, `None` when there are more than `most`; for the capture's table.
    pub fn distinct_sizes(workload: &WorkloadPlan, most: usize) -> Option<Vec<u64>> {
        Sizes::new(&workload.block_size).ok()?.distinct(most)
    }

    #[inline(always)]
    #[allow(clippy::should_implement_trait)] // endless, and never None: not an iterator
    pub fn next(&mut self) -> Op {
        match &mut self.source {
            OpSource::Drawn => {}
            OpSource::Uniform { kind, size } => {
                let (kind, size) = (*kind, *size);
                let global = self.pattern.next(&mut self.rng, size, kind);
                return self.at(global, kind, size, None);
            }
            OpSource::Keyed(keyed) => {
                if keyed.filled() {
                    // Nothing is drawn: a number that is taken has to be made.
                    self.ended = true;
                    return Op::keyed(OpKind::Stat, 0, 0);
                }
                let mut op = keyed.next();
                self.ended = keyed.passes() > self.passes;
                op.sync = self.sync_of(op.kind);
                return op;
            }
            OpSource::Recorded(recorded) => {
                let mut op = recorded.next();
                self.ended = recorded.over();
                op.sync = op.sync.or(self.sync_of(op.kind));
                return op;
            }
        }
        if let Some(due) = &mut self.trims
            && let Some(write) = due.take()
        {
            return write;
        }
        let kind = match self.trims {
            Some(_) => OpKind::Write,
            None => self.mix.draw(&mut self.rng),
        };
        if kind == OpKind::Fsync {
            return Op {
                kind,
                target: 0,
                offset: 0,
                size: 0,
                key: 0,
                count: 1,
                field: ALL_FIELDS,
                sync: None,
            };
        }
        let size = self.sizes.draw(&mut self.rng, kind);
        let mut global = self.pattern.next(&mut self.rng, size, kind);
        if let Some(turns) = &self.turns {
            global = turns.map_offset(global);
        }
        if self.passes != u64::MAX {
            self.ended = self.pattern.passes() > self.passes;
        }
        let sync = self.sync_of(kind);
        let op = self.at(global, kind, size, sync);
        match &mut self.trims {
            Some(due) => {
                *due = Some(op);
                Op { kind: OpKind::Trim, sync: None, ..op }
            }
            None => op,
        }
    }

    /// An operation at a global offset.
    #[inline(always)]
    fn at(&self, global: u64, kind: OpKind, size: u64, sync: Option<SyncKind>) -> Op {
        let (target, offset) = if global < self.file_size {
            (0, global)
        } else {
            ((global / self.file_size) as u16, global % self.file_size)
        };
        Op { kind, target, offset, size, key: 0, count: 1, field: ALL_FIELDS, sync }
    }

    /// Asks the CPU for what an operation on a key is drawn from.
    #[inline(always)]
    pub fn fetch(&self) {
        if let OpSource::Keyed(keyed) = &self.source {
            keyed.fetch();
        }
    }

    /// Says how many bytes writes of batches may still ask for.
    #[inline]
    pub fn limit_bytes(&mut self, bytes: u64) {
        if let OpSource::Keyed(keyed) = &mut self.source {
            keyed.limit_bytes(bytes);
        }
    }

    /// Passes begun by a walk in order; `None` where operations are drawn, on keys or of a trace.
    #[inline]
    pub fn walked(&self) -> Option<u64> {
        self.pattern.walked()
    }

    /// What the worker goes over, file by file.
    pub fn parts(&self) -> impl Iterator<Item = FilePart> + use<> {
        let (part, file_size) = (self.pattern.part(), self.file_size.max(1));
        let files = part.start / file_size..part.end.div_ceil(file_size);
        files.map(move |file| {
            let begin = part.start.max(file * file_size);
            let end = part.end.min((file + 1).saturating_mul(file_size));
            FilePart { file: file as u16, offset: begin - file * file_size, bytes: end - begin }
        })
    }

    /// The files of the worker's own share of what its workload goes over, by number.
    pub fn files(&self, place: WorkerIndex) -> Range<u16> {
        let (mut part, file_size) = (self.pattern.part(), self.file_size.max(1));
        if self.walked().is_none() {
            let share = (part.end - part.start) / u64::from(place.of.max(1));
            let start = part.start + share * u64::from(place.index);
            let last = place.index + 1 == place.of;
            part = start..if last { part.end } else { start + share };
        }
        if let Some(turns) = self.turns.as_ref().filter(|_| part.start < part.end) {
            // Drawn side by side; where the first and the last byte of it are.
            part = turns.map_offset(part.start)..turns.map_offset(part.end - 1) + 1;
        }
        (part.start / file_size) as u16..part.end.div_ceil(file_size) as u16
    }

    /// Whether it ends by itself: its passes are limited, or it follows a trace.
    pub fn ends(&self) -> bool {
        self.passes != u64::MAX || matches!(self.source, OpSource::Recorded(_))
    }

    /// Whether the operation drawn last lies beyond the passes of the plan: it is not to be done.
    #[inline(always)]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Bytes of data of each field of the value that was drawn last.
    pub fn field_sizes(&self) -> &[u32] {
        self.keyed().map_or(&[], |k| k.field_sizes())
    }

    /// Key numbers of the batch that was drawn last; see [`KeyGenerator::keys`].
    #[inline]
    pub fn batch_keys(&self) -> &[u64] {
        self.keyed().map_or(&[], |k| k.keys())
    }

    /// A further existing key, drawn as those of operations are; none where there are no keys.
    pub fn another_key(&mut self) -> Option<u64> {
        match &mut self.source {
            OpSource::Keyed(keyed) => Some(keyed.existing().0),
            _ => None,
        }
    }

    fn keyed(&self) -> Option<&KeyGenerator> {
        match &self.source {
            OpSource::Keyed(keyed) => Some(keyed),
            _ => None,
        }
    }

    #[inline]
    fn sync_of(&mut self, kind: OpKind) -> Option<SyncKind> {
        let (sync, every) = self.sync?;
        if !kind.writes() || kind == OpKind::Trim {
            return None;
        }
        self.writes += 1;
        if self.writes < every {
            return None;
        }
        self.writes = 0;
        Some(sync)
    }
}

#[cfg(test)]
mod tests;
