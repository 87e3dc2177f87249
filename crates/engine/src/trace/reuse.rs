//! How a trace comes back to what it touched: reuse distances in unique bytes, what an LRU cache of each size
//! would hold, and the working set over time.
//!
//! In blocks of a stated size, by a stack of the blocks in the order of their last touch; distances are rounded to one
//! part in 64. Of a trace of more than two million blocks, with repetition, one block in so many is followed, chosen
//! by a hash of its number, and distances are scaled by it (SHARDS, Waldspurger et al., FAST 2015).

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;
use taillight_core::Percentile;
use taillight_core::plan::{ReplayOps, TraceOp};
use taillight_stats::Dist;

/// Bytes of a block, unless there are too many.
const BLOCK: u64 = 4096;
/// Blocks that are gone through at most, with repetition: of larger traces blocks are larger.
const MOST_TOUCHES: u64 = 1 << 26;
/// Blocks that are followed, with repetition, about: of larger traces a share is.
const FOLLOWED: u64 = 1 << 21;
/// Windows of the working set, ns.
const WINDOWS_NS: [i64; 3] = [1_000_000_000, 60_000_000_000, 3_600_000_000_000];
/// Distances are kept to one part in so many.
const PARTS: u64 = 64;

/// How often, and after how much else, blocks are touched again.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceReuse {
    /// Bytes of the blocks that are told apart.
    pub block_bytes: u64,
    /// One block in so many is followed; 1 is exact.
    pub sampled_one_in: u64,
    /// Share of touches of blocks that were not touched before.
    pub first_share: f64,
    /// Half of the touches that are not the first come within so many unique bytes, those of the block itself among
    /// them, to 1.6 %; absent where nothing is touched again.
    pub median_bytes: Option<u64>,
    /// As `median_bytes`, for nine in ten of these touches.
    pub p90_bytes: Option<u64>,
    /// What an LRU cache would hold of what is asked, by its size.
    pub curve: Vec<TraceCachePoint>,
    /// Unique bytes touched in windows of time; windows that the trace does not fill are left out.
    pub working_set: Vec<TraceWorkingSet>,
}

/// A cache of one size.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceCachePoint {
    pub cache_bytes: u64,
    /// Share of touches whose block it holds.
    pub hit_share: f64,
}

/// What is touched in windows of one length.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceWorkingSet {
    pub window_ns: u64,
    pub mean_bytes: u64,
    pub max_bytes: u64,
}

impl TraceReuse {
    /// What comes back in `trace`; `None` where no operation has a size.
    pub(super) fn of(trace: &ReplayOps) -> Option<TraceReuse> {
        let touches = |block: u64| -> u64 {
            let ends = trace.ops.iter().filter_map(|op| ends(op, block));
            ends.map(|(first, last)| last - first + 1).fold(0, u64::saturating_add)
        };
        let mut block = BLOCK;
        while touches(block) > MOST_TOUCHES && block < 1 << 40 {
            block *= 2;
        }
        let all = touches(block);
        let one_in = (all.div_ceil(FOLLOWED)).next_power_of_two();
        (all > 0).then(|| followed(trace, block, one_in))
    }
}

/// The first and the last block of an operation; none of one without a size.
fn ends(op: &TraceOp, block: u64) -> Option<(u64, u64)> {
    (op.size > 0).then(|| (op.offset / block, (op.end() - 1) / block))
}

/// Whether a block is followed: its number, mixed (the finalizer of MurmurHash3), in one part of `one_in`.
fn is_followed(block: u64, one_in: u64) -> bool {
    let mixed = (block ^ block >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (mixed ^ mixed >> 33) & (one_in - 1) == 0
}

fn followed(trace: &ReplayOps, block: u64, one_in: u64) -> TraceReuse {
    let mut stack = BlockStack::default();
    let mut windows = WINDOWS_NS.map(|ns| WindowCount { ns, ..WindowCount::default() });
    // Blocks that a cache must hold for the touch to be a hit, and how many touches there are of each.
    let (mut first, mut needed) = (0u64, BTreeMap::<u64, u64>::new());
    for (op, time) in trace.ops.iter().zip(trace.times.iter()) {
        let Some((from, to)) = ends(op, block) else { continue };
        windows.iter_mut().for_each(|window| window.move_to(*time));
        for number in (from..=to).filter(|number| is_followed(*number, one_in)) {
            let (between, last) = stack.touch(number, *time);
            match between {
                None => first += 1,
                Some(between) => *needed.entry(rounded(between * one_in + 1)).or_default() += 1,
            }
            windows.iter_mut().for_each(|window| window.touch(last));
        }
    }
    let needed = Dist::from_sorted_pairs(needed).unwrap_or_default();
    let all = (first + needed.count()).max(1) as f64;
    let at = |percentile: Percentile| needed.percentile(&percentile).map(|blocks| blocks * block);
    let unique = (stack.last.len() as u64).saturating_mul(one_in).max(1);
    let sizes = (0..u64::BITS).map(|bit| 1u64 << bit).take_while(|size| size / 2 < unique);
    let curve = sizes.map(|blocks| TraceCachePoint {
        cache_bytes: blocks.saturating_mul(block),
        hit_share: needed.count_at_or_below(blocks) as f64 / all,
    });
    let span = trace.times.last().copied().unwrap_or(0);
    let working_set = windows.iter_mut().filter_map(|window| window.end(span, block * one_in));
    TraceReuse {
        block_bytes: block,
        sampled_one_in: one_in,
        first_share: first as f64 / all,
        median_bytes: at(Percentile::MEDIAN),
        p90_bytes: at(Percentile::hundredths(90_00)),
        curve: curve.collect(),
        working_set: working_set.collect(),
    }
}

/// Up to a multiple of one part in [`PARTS`]: powers of two stay as they are.
fn rounded(blocks: u64) -> u64 {
    let step = (blocks.checked_next_power_of_two().unwrap_or(1 << 63) / PARTS / 2).max(1);
    blocks.div_ceil(step) * step
}

/// Blocks in the order of their last touch: where each stands, and a Fenwick tree of the places that are taken.
#[derive(Default)]
struct BlockStack {
    last: HashMap<u64, (usize, i64)>,
    tree: Vec<u32>,
    next: usize,
}

impl BlockStack {
    /// Touches a block: how many others were since it was before, and when that was.
    fn touch(&mut self, block: u64, time: i64) -> (Option<u64>, Option<i64>) {
        if self.next == self.tree.len() {
            self.pack();
        }
        let before = self.last.insert(block, (self.next, time));
        let others = before.map(|(at, _)| {
            self.add(at, false);
            // Without the block itself: those that stand behind it.
            self.last.len() as u64 - 1 - self.before(at)
        });
        self.add(self.next, true);
        self.next += 1;
        (others, before.map(|(_, time)| time))
    }

    fn add(&mut self, at: usize, taken: bool) {
        let mut at = at;
        while let Some(count) = self.tree.get_mut(at) {
            *count = if taken { *count + 1 } else { *count - 1 };
            at |= at + 1;
        }
    }

    /// Places taken before this one.
    fn before(&self, mut at: usize) -> u64 {
        let mut sum = 0;
        while at > 0 {
            sum += u64::from(self.tree[at - 1]);
            at &= at - 1;
        }
        sum
    }

    /// Leaves out the places that nobody stands at, and makes room for as many again.
    fn pack(&mut self) {
        let mut order: Vec<(usize, u64)> = self.last.iter().map(|(b, (at, _))| (*at, *b)).collect();
        order.sort_unstable();
        self.tree = vec![0; (2 * order.len()).max(1024)];
        self.next = order.len();
        for (at, (_, block)) in order.into_iter().enumerate() {
            if let Some(place) = self.last.get_mut(&block) {
                place.0 = at;
            }
            self.add(at, true);
        }
    }
}

/// Unique blocks of the windows of one length.
#[derive(Default)]
struct WindowCount {
    ns: i64,
    /// Number of the one that is counted.
    now: i64,
    count: u64,
    /// Sum and maximum over windows that have ended.
    sum: u64,
    max: u64,
}

impl WindowCount {
    fn move_to(&mut self, time: i64) {
        let window = time / self.ns;
        if window > self.now {
            (self.sum, self.max) = (self.sum + self.count, self.max.max(self.count));
            (self.now, self.count) = (window, 0);
        }
    }

    /// A block that was touched last at `last`.
    fn touch(&mut self, last: Option<i64>) {
        self.count += u64::from(last.is_none_or(|last| last / self.ns < self.now));
    }

    fn end(&mut self, span: i64, bytes: u64) -> Option<TraceWorkingSet> {
        let whole = u64::try_from(span / self.ns).ok().filter(|whole| *whole > 0)?;
        self.move_to(whole as i64 * self.ns);
        Some(TraceWorkingSet {
            window_ns: self.ns as u64,
            mean_bytes: (self.sum as f64 / whole as f64 * bytes as f64) as u64,
            max_bytes: self.max * bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;

    use super::*;

    fn trace(places: impl Iterator<Item = (i64, u64, u32)>) -> ReplayOps {
        let op = |(t, block, blocks)| {
            (t, TraceOp::new(OpKind::Read, block * BLOCK, blocks * BLOCK as u32))
        };
        let (times, ops): (Vec<i64>, Vec<TraceOp>) = places.map(op).unzip();
        ReplayOps { times: times.into(), ops: ops.into(), ..ReplayOps::default() }
    }

    /// Blocks that a cache must hold for each touch, by looking at all that lies between.
    fn by_hand(blocks: &[u64]) -> Vec<Option<u64>> {
        let needed = |i: usize| {
            let before = blocks[..i].iter().rposition(|b| *b == blocks[i])?;
            let mut between: Vec<u64> = blocks[before..i].to_vec();
            between.sort_unstable();
            between.dedup();
            Some(between.len() as u64)
        };
        (0..blocks.len()).map(needed).collect()
    }

    #[test]
    fn distances_are_those_counted_by_hand() {
        let blocks: Vec<u64> = (0..4000u64).map(|i| i * i * 7919 % 1009 % (1 + i % 400)).collect();
        let reuse = TraceReuse::of(&trace(blocks.iter().map(|b| (0, *b, 1)))).expect("reuse");
        let expected = by_hand(&blocks);
        let share = |n: usize| n as f64 / blocks.len() as f64;
        assert_eq!((reuse.block_bytes, reuse.sampled_one_in), (BLOCK, 1));
        assert_eq!(reuse.first_share, share(expected.iter().filter(|n| n.is_none()).count()));
        assert!(reuse.curve.len() > 8, "{:?}", reuse.curve);
        for point in &reuse.curve {
            let room = point.cache_bytes / BLOCK;
            let hits = expected.iter().flatten().filter(|needed| **needed <= room).count();
            assert_eq!(point.hit_share, share(hits), "{room}");
        }
        let mut known: Vec<u64> = expected.into_iter().flatten().collect();
        known.sort_unstable();
        let median = known[(known.len() - 1) / 2] * BLOCK;
        let found = reuse.median_bytes.expect("a median");
        assert!(found >= median && found <= median + median / 60, "{found} {median}");
    }

    #[test]
    fn a_loop_hits_only_in_a_cache_that_holds_all_of_it() {
        let reuse = TraceReuse::of(&trace((0..1000).map(|i| (0, i % 100 * 2, 2)))).expect("reuse");
        assert_eq!(reuse.first_share, 0.1);
        let hit = |size: u64| {
            let of = reuse.curve.iter().find(|point| point.cache_bytes == size * BLOCK);
            of.expect("a size").hit_share
        };
        assert_eq!((hit(128), hit(256)), (0.0, 0.9));
        assert_eq!((reuse.median_bytes, reuse.p90_bytes), (Some(200 * BLOCK), Some(200 * BLOCK)));
        let once = TraceReuse::of(&trace((0..50).map(|i| (0, i, 1)))).expect("reuse");
        assert_eq!((once.first_share, once.median_bytes), (1.0, None));
    }

    #[test]
    fn the_working_set_is_what_is_touched_in_a_window() {
        // Ten blocks in each second, again and again; others in the next minute.
        let touch = |i: i64| (i * 100_000_000, (i % 10 + i / 600 * 10) as u64, 1);
        let reuse = TraceReuse::of(&trace((0..=1200).map(touch))).expect("reuse");
        let found: Vec<_> =
            reuse.working_set.iter().map(|w| (w.window_ns, w.mean_bytes, w.max_bytes)).collect();
        let ten = 10 * BLOCK;
        assert_eq!(found, [(1_000_000_000, ten, ten), (60_000_000_000, ten, ten)]);
    }

    #[test]
    fn a_sample_of_the_blocks_says_the_same_within_its_error() {
        let touch = |i: u64| (0, i * i % 100_003 % 60_000, 1);
        let t = trace((0..400_000).map(touch));
        let (exact, sampled) = (followed(&t, BLOCK, 1), followed(&t, BLOCK, 8));
        assert_eq!(sampled.sampled_one_in, 8);
        assert!((exact.first_share - sampled.first_share).abs() < 0.02);
        for point in &exact.curve {
            let other = sampled.curve.iter().find(|it| it.cache_bytes == point.cache_bytes);
            let off = (other.map_or(point.hit_share, |it| it.hit_share) - point.hit_share).abs();
            assert!(off < 0.05, "{point:?} {other:?}");
        }
    }

    #[test]
    fn a_trace_without_sizes_has_no_reuse_and_a_huge_one_larger_blocks() {
        let syncs = ReplayOps {
            times: [0].into(),
            ops: [TraceOp::new(OpKind::Fsync, 0, 0)].into(),
            ..ReplayOps::default()
        };
        assert_eq!(TraceReuse::of(&syncs), None);
        let op = TraceOp::new(OpKind::Read, (1 << 62) - 5, u32::MAX);
        let huge =
            ReplayOps { times: vec![0; 100].into(), ops: vec![op; 100].into(), ..syncs.clone() };
        let reuse = TraceReuse::of(&huge).expect("reuse");
        assert!(reuse.block_bytes > BLOCK && reuse.sampled_one_in > 1, "{reuse:?}");
        assert!((reuse.first_share - 0.01).abs() < 1e-9, "{reuse:?}");
    }
}
