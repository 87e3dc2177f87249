//! Orders between in sequence and at random: operations that follow each other from drawn places, and walks in
//! order side by side, over files or over the same data.

use std::ops::Range;

use rand::Rng as _;
use taillight_core::OpKind;
use taillight_core::plan::{FileOrder, WorkloadPlan};

use super::Rng;
use super::pattern::{AccessExtent, AccessPattern};
use super::permute::below;
use super::sequential::Sequential;

/// Draws by a pattern, and goes on from there in sequence: for the rest of a run, or for a share of the operations.
#[derive(Debug, Clone)]
pub struct SequentialRuns {
    /// Draws the places.
    pub drawn: AccessPattern,
    extent: AccessExtent,
    /// Operations of a run.
    length: u32,
    /// Operations of this run that are still to come.
    left: u32,
    /// By kind of operation: percent of those that would be drawn and go on instead.
    percents: [u64; KINDS],
    /// For each walk, by kind of operation: where its last operation ended.
    ends: Box<[[u64; KINDS]]>,
    /// The walk whose turn it is.
    turn: usize,
}

const KINDS: usize = OpKind::ALL.len();

impl SequentialRuns {
    /// Puts runs around the pattern of a workload; `None` where its plan has none.
    pub fn of(
        w: &WorkloadPlan,
        extent: &AccessExtent,
    ) -> Option<impl FnOnce(AccessPattern) -> SequentialRuns> {
        let access = &w.access;
        if access.run_length.is_none_or(|n| n == 1) && access.sequential_percent.is_empty() {
            return None;
        }
        let mut percents = [0; KINDS];
        for (op, percent) in &access.sequential_percent {
            percents[*op as usize] = u64::from(*percent);
        }
        let ends = vec![[extent.start; KINDS]; access.walks.unwrap_or(1) as usize].into();
        let (length, extent) = (access.run_length.unwrap_or(1).max(1), *extent);
        let (left, turn) = (0, 0);
        Some(move |drawn| SequentialRuns { drawn, extent, length, left, percents, ends, turn })
    }

    /// The next global offset for a block of `size` bytes.
    pub fn next(&mut self, rng: &mut Rng, size: u64, op: OpKind) -> u64 {
        let percent = self.percents[op as usize];
        let goes_on = match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => {
                self.left = self.length - 1;
                percent > 0 && below(rng.next_u64(), 100) < percent
            }
        };
        let turn = self.turn;
        self.turn = if turn + 1 < self.ends.len() { turn + 1 } else { 0 };
        let end = self.ends[turn][op as usize];
        let at = match goes_on && self.extent.holds(end, size) {
            true => end,
            false => self.drawn.next(rng, size, op),
        };
        self.ends[turn][op as usize] = at + size.next_multiple_of(self.extent.align);
        at
    }
}

/// Walks in order side by side; each waits at its end for the others.
#[derive(Debug, Clone)]
pub struct SideBySide {
    walks: Box<[Sequential]>,
    /// Which one comes is drawn.
    draws: bool,
    turn: usize,
    passes: u64,
}

impl SideBySide {
    /// The walks of a worker that would go over `walk`, where its plan has several; else `None`.
    pub fn of(w: &WorkloadPlan, walk: &Sequential, extent: &AccessExtent) -> Option<SideBySide> {
        let part = walk.slice();
        let parts: Vec<Range<u64>> = match (w.access.walks, w.access.files) {
            (Some(walks), _) => vec![part; walks as usize],
            (None, FileOrder::Sequence) => return None,
            (None, _) => {
                let file = extent.file_size.max(1);
                let files = part.start / file..part.end.div_ceil(file);
                let of =
                    |n: u64| part.start.max(n * file)..part.end.min((n + 1).saturating_mul(file));
                files.map(of).collect()
            }
        };
        let walks: Box<[Sequential]> = parts.into_iter().map(|part| walk.over(part)).collect();
        let draws = w.access.files == FileOrder::Drawn;
        (walks.len() > 1).then_some(SideBySide { walks, draws, turn: 0, passes: 1 })
    }

    /// Passes over all of it that have begun.
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// The bytes it goes over.
    pub fn part(&self) -> Range<u64> {
        let parts = || self.walks.iter().map(Sequential::slice);
        let start = parts().map(|p| p.start).min().unwrap_or(0);
        start..parts().map(|p| p.end).max().unwrap_or(0)
    }

    /// The next global offset for a block of `size` bytes.
    pub fn next(&mut self, rng: &mut Rng, size: u64) -> u64 {
        let count = self.walks.len();
        let first = match self.draws {
            true => below(rng.next_u64(), count as u64) as usize,
            false => self.turn,
        };
        let next = (first..count).chain(0..first).find(|n| self.walks[*n].fits(size));
        let walk = next.unwrap_or_else(|| {
            self.passes += 1;
            for walk in &mut self.walks {
                *walk = walk.over(walk.slice());
            }
            if self.draws { first } else { 0 }
        });
        self.turn = (walk + 1) % count;
        self.walks[walk].next(size)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use taillight_core::plan::{Access, AccessKind};
    use taillight_core::units::ByteSize;
    use taillight_driver::Geometry;

    use super::super::WorkerIndex;
    use super::*;

    const BLOCK: u64 = 4096;

    fn offsets(access: Access, files: u16, count: usize) -> Vec<u64> {
        let mut w = WorkloadPlan::simple("w", OpKind::Read, ByteSize(BLOCK));
        w.access = Access { align: ByteSize(BLOCK), ..access };
        let shape = Geometry { files, file_size: 8 * BLOCK, align: 1 };
        let extent = AccessExtent::of(&w, shape).unwrap();
        let place = WorkerIndex { worker: 0, index: 0, of: 1 };
        let mut pattern = AccessPattern::new(7, &w, &extent, place).unwrap();
        let mut rng = Rng::seed_from_u64(1);
        (0..count).map(|_| pattern.next(&mut rng, BLOCK, OpKind::Read) / BLOCK).collect()
    }

    fn in_sequence(of: &[u64]) -> usize {
        of.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count()
    }

    #[test]
    fn runs_go_on_from_drawn_places() {
        let access = Access { run_length: Some(8), ..Access::default() };
        let drawn = offsets(access, 512, 8 * 100);
        for run in drawn.chunks(8) {
            // A run that meets the end of the data is drawn anew.
            assert!(in_sequence(run) >= 6, "{run:?}");
        }
        assert!(in_sequence(&drawn) < 8 * 100 - 80);
        let percent = std::collections::BTreeMap::from([(OpKind::Read, 30)]);
        let access = Access { sequential_percent: percent, ..Access::default() };
        let share = in_sequence(&offsets(access, 512, 10_000)) as f64 / 10_000.0;
        assert!((share - 0.3).abs() < 0.02, "{share}");
    }

    #[test]
    fn walks_come_in_turns_and_wait_for_each_other() {
        let sequential = || Access::from(AccessKind::Sequential);
        let turns = Access { files: FileOrder::Turns, ..sequential() };
        assert_eq!(offsets(turns, 3, 7), [0, 8, 16, 1, 9, 17, 2]);
        let walks = Access { walks: Some(3), ..sequential() };
        assert_eq!(offsets(walks, 1, 27)[..7], [0, 0, 0, 1, 1, 1, 2]);
        let drawn = Access { files: FileOrder::Drawn, ..sequential() };
        let all = offsets(drawn, 3, 48);
        for pass in all.chunks(24) {
            let mut sorted = pass.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..24).collect::<Vec<_>>());
        }
        assert_ne!(all[..24], all[24..]);
        for file in 0..3 {
            let of: Vec<u64> = all[..24].iter().copied().filter(|at| at / 8 == file).collect();
            assert!(of.is_sorted());
        }
    }
}
