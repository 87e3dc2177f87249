//! Where: the access patterns behind one call, chosen by the plan.

use std::ops::Range;

use rand::Rng as _;
use taillight_core::plan::{AccessKind, BlockSize, Plan, WorkShare, WorkloadPlan};
use taillight_core::{Error, OpKind, Result};
use taillight_driver::Geometry;

use super::dist::ItemDistribution;
use super::permute::{Permutation, below};
use super::runs::{SequentialRuns, SideBySide};
use super::sequential::Sequential;
use super::{Rng, WorkerIndex, worker_seed};

/// The part of the data set a workload uses, global offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessExtent {
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Offsets are multiples of this from `start`.
    pub align: u64,
    pub largest: u64,
    /// Bytes from the start of a block to that of the next, which another rank may have.
    turn: u64,
    /// Bytes in each file: a block never crosses into the next.
    pub file_size: u64,
}

impl AccessExtent {
    /// The extent of a workload. Errors: `Usage` when it lies outside the data set.
    pub fn of(workload: &WorkloadPlan, shape: Geometry) -> Result<AccessExtent> {
        let start = workload.access.offset.0;
        let end = match workload.access.length {
            Some(length) => start.saturating_add(length.0),
            None => shape.size(),
        };
        if start >= end || end > shape.size() {
            return Err(Error::usage("the extent lies outside the data set")
                .with("workload", &workload.name)
                .with("offset", start)
                .with("end", end)
                .with("data set", shape.size())
                .hint("check access.offset and access.length against target.size"));
        }
        let align = workload.access.align.0.max(1);
        let largest = workload.block_size.max();
        let stride = workload.access.stride.filter(|_| workload.access.kind == AccessKind::Strided);
        let turn = stride.map_or(largest, |stride| stride.0.max(largest));
        Ok(AccessExtent { start, end, align, largest, turn, file_size: shape.file_size })
    }

    /// Whether a block of `size` bytes at `at` lies in it and in one file.
    pub fn holds(&self, at: u64, size: u64) -> bool {
        let in_file = self.end <= self.file_size || at % self.file_size + size <= self.file_size;
        at >= self.start && at.saturating_add(size) <= self.end && in_file
    }

    /// The part that is this rank's, where ranks share the extent. Blocks that they have in turns are drawn as
    /// if they lay side by side; [`BlockTurns`] says where they are. Errors: `Usage` where blocks in turns do not
    /// divide each file.
    pub fn of_rank(self, plan: &Plan) -> Result<(AccessExtent, Option<BlockTurns>)> {
        let Some(place) = plan.ranks else { return Ok((self, None)) };
        match plan.run.share {
            WorkShare::Own | WorkShare::Same => Ok((self, None)),
            WorkShare::Segments => {
                let (from, length) = place.segment(self.bytes(), self.align.max(self.largest));
                let start = self.start + from;
                Ok((AccessExtent { start, end: start + length, ..self }, None))
            }
            WorkShare::Strided => {
                let block = self.largest.max(1);
                let turns = BlockTurns {
                    start: self.start,
                    unit: self.turn.max(1),
                    part: u64::from(place.part()),
                    of: u64::from(place.of.max(1)),
                };
                let divides = |n: u64| n.is_multiple_of(block);
                if !divides(self.file_size) || !divides(self.start) {
                    return Err(Error::usage(
                        "blocks in turns must divide each file, and its offset",
                    )
                    .with("block_size", block)
                    .with("file", self.file_size)
                    .hint(
                        "use a block_size that divides target.size, or run.share = \"segments\"",
                    ));
                }
                let turns_of_all =
                    self.bytes().checked_sub(block).map_or(0, |n| n / turns.unit + 1);
                let own = turns_of_all / turns.of;
                let end = own.checked_sub(1).map_or(0, |last| last * turns.unit + block);
                let (end, align, file_size) = (self.start + end, block, u64::MAX);
                Ok((AccessExtent { end, align, file_size, ..self }, Some(turns)))
            }
        }
    }

    /// Length, bytes.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Aligned positions at which the largest block still fits.
    pub fn positions(&self) -> u64 {
        self.bytes().checked_sub(self.largest).map_or(0, |room| room / self.align + 1)
    }
}

/// Blocks of one size that ranks have in turns, or the strides that each begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockTurns {
    start: u64,
    unit: u64,
    part: u64,
    of: u64,
}

impl BlockTurns {
    /// Where a block is that was drawn at `at`.
    #[inline]
    pub fn map_offset(&self, at: u64) -> u64 {
        let (number, within) = ((at - self.start) / self.unit, (at - self.start) % self.unit);
        self.start + (number * self.of + self.part) * self.unit + within
    }
}

/// One worker's sequence of offsets.
#[derive(Debug, Clone)]
pub enum AccessPattern {
    Ordered(Sequential),
    /// Random, each position once per pass over all workers together.
    Cover(Cover),
    /// Random by a skewed distribution over the positions.
    Drawn {
        extent: AccessExtent,
        dist: Box<ItemDistribution>,
        last: u64,
    },
    Random {
        extent: AccessExtent,
        positions: u64,
    },
    /// Each operation's own, for blocks of its sizes.
    ByOp(Box<[(OpKind, AccessPattern)]>),
    /// Another pattern, with operations in sequence between those that it draws.
    Runs(Box<SequentialRuns>),
    /// Several walks in order.
    SideBySide(Box<SideBySide>),
}

impl AccessPattern {
    /// The pattern of the worker at `place`. Errors: `Usage` when a sequential worker's slice cannot hold one block,
    /// the pattern needs keys, or a parameter makes no sense.
    pub fn new(
        seed: u64,
        w: &WorkloadPlan,
        extent: &AccessExtent,
        place: WorkerIndex,
    ) -> Result<AccessPattern> {
        let drawn = AccessPattern::plain(seed, w, extent, place)?;
        Ok(match SequentialRuns::of(w, extent).filter(|_| w.access.kind.draws()) {
            Some(runs) => AccessPattern::Runs(Box::new(runs(drawn))),
            None => drawn,
        })
    }

    /// Without operations in sequence between drawn ones.
    fn plain(
        seed: u64,
        w: &WorkloadPlan,
        extent: &AccessExtent,
        place: WorkerIndex,
    ) -> Result<AccessPattern> {
        let BlockSize::ByOp(sizes) = &w.block_size else {
            return AccessPattern::of_one(seed, w, extent, place);
        };
        let own = sizes.iter().map(|(op, of)| {
            let mut extent = *extent;
            if w.access.kind.draws() {
                extent.largest = of.max();
                extent.align = of.common_divisor().next_multiple_of(extent.align);
            }
            Ok((*op, AccessPattern::of_one(seed, w, &extent, place)?))
        });
        Ok(AccessPattern::ByOp(own.collect::<Result<_>>()?))
    }

    fn of_one(
        seed: u64,
        w: &WorkloadPlan,
        extent: &AccessExtent,
        place: WorkerIndex,
    ) -> Result<AccessPattern> {
        match w.access.kind {
            AccessKind::Random if w.access.cover => {
                Ok(AccessPattern::Cover(Cover::new(seed, extent, place)))
            }
            AccessKind::Random => {
                Ok(AccessPattern::Random { extent: *extent, positions: extent.positions() })
            }
            AccessKind::Sequential | AccessKind::Reverse | AccessKind::Strided => {
                let walk = Sequential::new(w, extent, place)?;
                Ok(match SideBySide::of(w, &walk, extent) {
                    Some(walks) => AccessPattern::SideBySide(Box::new(walks)),
                    None => AccessPattern::Ordered(walk),
                })
            }
            // The stream says which block; see `worker::stream`.
            AccessKind::Follow => Ok(AccessPattern::unused(extent)),
            AccessKind::Latest => Err(Error::usage("this access pattern needs keys")
                .with("workload", &w.name)
                .hint("use it on a target addressed by key, or another pattern here")),
            _ => AccessPattern::drawn(seed, w, extent),
        }
    }

    fn drawn(seed: u64, w: &WorkloadPlan, extent: &AccessExtent) -> Result<AccessPattern> {
        let positions = extent.positions().max(1);
        let spec = super::keyed::dist(&w.access, 0)
            .ok_or_else(|| Error::internal("a pattern without a distribution"))?;
        let dist = ItemDistribution::new(&spec, positions)?;
        // Scattered the same way for all workers, so that hot places are shared.
        let dist = match w.access.scatter {
            true => dist.spread(worker_seed(seed, 0, 4))?,
            false => dist,
        };
        Ok(AccessPattern::Drawn { extent: *extent, dist: Box::new(dist), last: positions - 1 })
    }

    /// A pattern for a worker whose places come from elsewhere (keys, a trace, a stream).
    pub fn unused(extent: &AccessExtent) -> AccessPattern {
        AccessPattern::Random { extent: *extent, positions: 1 }
    }

    /// Passes begun, the current one included; 0 for patterns without passes.
    #[inline]
    pub fn passes(&self) -> u64 {
        match self {
            AccessPattern::Ordered(ordered) => ordered.passes(),
            AccessPattern::Cover(cover) => cover.pass + 1,
            AccessPattern::ByOp(own) => own.iter().map(|(_, of)| of.passes()).max().unwrap_or(0),
            AccessPattern::Runs(runs) => runs.drawn.passes(),
            AccessPattern::SideBySide(walks) => walks.passes(),
            _ => 0,
        }
    }

    /// Passes that a walk in order has begun; `None` where operations are drawn.
    #[inline]
    pub fn walked(&self) -> Option<u64> {
        match self {
            AccessPattern::Ordered(ordered) => Some(ordered.passes()),
            AccessPattern::ByOp(own) => own.iter().filter_map(|(_, of)| of.walked()).max(),
            AccessPattern::SideBySide(walks) => Some(walks.passes()),
            _ => None,
        }
    }

    /// What a worker goes over: its slice, or all of the extent where operations are drawn.
    pub fn part(&self) -> Range<u64> {
        match self {
            AccessPattern::Ordered(ordered) => ordered.slice(),
            AccessPattern::ByOp(own) => own.first().map_or(0..0, |(_, of)| of.part()),
            AccessPattern::Runs(runs) => runs.drawn.part(),
            AccessPattern::SideBySide(walks) => walks.part(),
            AccessPattern::Cover(Cover { extent, .. })
            | AccessPattern::Drawn { extent, .. }
            | AccessPattern::Random { extent, .. } => extent.start..extent.end,
        }
    }

    /// The next global offset for a block of `size` bytes.
    ///
    /// The plain random draw stands in the hot loop itself; the others are a call.
    #[inline(always)]
    pub fn next(&mut self, rng: &mut Rng, size: u64, op: OpKind) -> u64 {
        if let AccessPattern::Random { extent, positions } = self {
            let at = below(rng.next_u64(), *positions);
            return fit(extent, extent.start + at * extent.align, size);
        }
        self.next_of_others(rng, size, op)
    }

    fn next_of_others(&mut self, rng: &mut Rng, size: u64, op: OpKind) -> u64 {
        match self {
            AccessPattern::Random { extent, positions } => {
                let at = below(rng.next_u64(), *positions);
                fit(extent, extent.start + at * extent.align, size)
            }
            AccessPattern::Drawn { extent, dist, last } => {
                let at = dist.draw(rng, *last);
                fit(extent, extent.start + at * extent.align, size)
            }
            AccessPattern::ByOp(own) => own
                .iter_mut()
                .find(|(of, _)| *of == op)
                .map_or(0, |(_, own)| own.next(rng, size, op)),
            AccessPattern::Cover(cover) => cover.next(size),
            AccessPattern::Ordered(ordered) => ordered.next(size),
            AccessPattern::Runs(runs) => runs.next(rng, size, op),
            AccessPattern::SideBySide(walks) => walks.next(rng, size),
        }
    }
}

/// Moves a block back when it would cross into the next file.
#[inline]
fn fit(extent: &AccessExtent, offset: u64, size: u64) -> u64 {
    if extent.end <= extent.file_size {
        return offset;
    }
    let within = offset % extent.file_size;
    let over = (within + size).saturating_sub(extent.file_size);
    offset - over.next_multiple_of(extent.align).min(within)
}

/// Full coverage: worker k of W takes positions k, k + W, k + 2W, ... of one permutation per pass.
#[derive(Debug, Clone)]
pub struct Cover {
    extent: AccessExtent,
    seed: u64,
    pass: u64,
    permutation: Permutation,
    position: u64,
    step: u64,
}

impl Cover {
    fn new(seed: u64, extent: &AccessExtent, place: WorkerIndex) -> Cover {
        // Blocks that do not overlap: a block per `largest` bytes, not per alignment step.
        let mut extent = *extent;
        extent.align = extent.largest.max(1).next_multiple_of(extent.align);
        let key = worker_seed(seed, 0, 2);
        Cover {
            extent,
            seed: key,
            pass: 0,
            permutation: Permutation::new(extent.positions().max(1), key),
            position: u64::from(place.index),
            step: u64::from(place.of),
        }
    }

    #[inline]
    fn next(&mut self, size: u64) -> u64 {
        while self.position >= self.permutation.len() {
            self.position -= self.permutation.len();
            self.pass += 1;
            let key = self.seed.wrapping_add(self.pass.wrapping_mul(0xA076_1D64_78BD_642F));
            self.permutation = Permutation::new(self.permutation.len(), key);
        }
        let at = self.permutation.at(self.position);
        self.position += self.step;
        fit(&self.extent, self.extent.start + at * self.extent.align, size)
    }
}
