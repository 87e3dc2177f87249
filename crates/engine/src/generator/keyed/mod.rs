//! What to do next on a target addressed by key: operation, key number, fields, scan length.

use std::sync::Arc;

use rand::{Rng as _, SeedableRng};
use taillight_core::plan::{Access, AccessKind, Plan, ScanSpread, Values, WorkloadPlan};
use taillight_core::{ALL_FIELDS, Error, Op, OpKind, Result};

use super::dist::{DistributionSpec, ItemDistribution, ScanLengths, ZoneShare};
use super::mix::Mix;
use super::permute::below;
use super::size::Sizes;
use super::{Rng, WorkerIndex, worker_seed};
use crate::keyspace::KeySpace;
use crate::sys;

/// Which existing key.
#[derive(Debug, Clone)]
enum Pick {
    /// In order, around and around: worker k of W takes batches k, k + W, k + 2W, ...
    Ordered {
        next: u64,
        step: u64,
        down: bool,
        passes: u64,
    },
    Drawn(Box<ItemDistribution>),
}

/// Yields one worker's operations on keys. Made beside those of other workers, which must not share its lines of cache:
/// each draw writes to it.
#[derive(Debug, Clone)]
#[repr(align(128))]
pub struct KeyGenerator {
    rng: Rng,
    mix: Mix,
    sizes: Sizes,
    space: Arc<KeySpace>,
    /// Lane of the key space in which it inserts and deletes; `None`: the whole space.
    lane: Option<u32>,
    /// Whether it ends once its lane is as long as the longest one was before the run.
    fills: bool,
    pick: Pick,
    scan: Option<ScanLengths>,
    fields: u16,
    /// Records an operation covers, unless fewer are left.
    batch: u64,
    /// Key numbers of the get or update drawn last; empty where operations cover one record or neighbours by number.
    keys: Vec<u64>,
    /// Bytes that writes may still ask for.
    bytes_left: u64,
    read_all: bool,
    write_all: bool,
    /// Fields of a value, and how many bytes each takes.
    values: Values,
    /// Data bytes of each field of the value drawn last.
    drawn: Vec<u32>,
}

/// The distribution that an access pattern asks for. `new_keys`: inserts expected in the run.
pub(super) fn dist(access: &Access, new_keys: u64) -> Option<DistributionSpec> {
    Some(match access.kind {
        AccessKind::Random => DistributionSpec::Uniform,
        AccessKind::Zipf => DistributionSpec::Zipf { theta: access.theta? },
        AccessKind::Zipfian => DistributionSpec::YcsbZipfian,
        AccessKind::Scrambled => DistributionSpec::YcsbScrambled { new_keys },
        AccessKind::Latest => DistributionSpec::Latest,
        AccessKind::Hotspot => {
            DistributionSpec::Hotspot { data: access.hot?.space, ops: access.hot?.share }
        }
        AccessKind::Exponential => DistributionSpec::Exponential {
            percentile: access.reach?.percentile,
            frac: access.reach?.space,
        },
        AccessKind::Pareto => DistributionSpec::Pareto { h: access.h? },
        AccessKind::Normal => {
            DistributionSpec::Normal { centre: access.center?, deviation: access.deviation? }
        }
        AccessKind::Zoned => DistributionSpec::Zoned(
            access
                .zones
                .iter()
                .map(|z| ZoneShare { access: f64::from(z.share), space: f64::from(z.space) })
                .collect(),
        ),
        AccessKind::Sequential | AccessKind::Reverse | AccessKind::Strided | AccessKind::Follow => {
            return None;
        }
    })
}

/// Whether an access pattern draws its keys, rather than taking them in order.
pub fn drawn(access: &Access) -> bool {
    dist(access, 0).is_some()
}

/// Inserts a run is expected to make, as YCSB reckons them: twice their share of `run.operations` x batch, 0 without
/// operations.
fn new_keys(plan: &Plan, w: &WorkloadPlan) -> u64 {
    let weight = |counts: fn(OpKind) -> bool| {
        let parts = w.mix.iter().filter(|m| counts(m.op));
        parts.map(|m| u64::from(m.weight)).sum::<u64>()
    };
    let inserts = weight(|op| op.as_record() == OpKind::Insert);
    let all = weight(|_| true).max(1);
    let operations = plan.run.operations.unwrap_or(0);
    let operations = operations.saturating_mul(u64::from(w.batch));
    (u128::from(operations) * 2 * u128::from(inserts) / u128::from(all)) as u64
}

impl KeyGenerator {
    /// The generator of the worker at `place`. Errors: `Usage` when there is nothing to read, or a
    /// parameter makes no sense.
    pub fn new(
        plan: &Plan,
        w: &WorkloadPlan,
        space: Arc<KeySpace>,
        place: WorkerIndex,
    ) -> Result<KeyGenerator> {
        let (first, end) = space.live();
        let count = end - first;
        let reads = w.mix.iter().any(|m| picks(m.op));
        if reads && count == 0 && w.access.kind != AccessKind::Follow {
            return Err(Error::usage("the key space is empty")
                .with("workload", &w.name)
                .hint("give keys = { count = N }: that many records are loaded before"));
        }
        let values = w.value.clone().unwrap_or_default();
        Ok(KeyGenerator {
            rng: Rng::seed_from_u64(worker_seed(plan.run.seed, place.worker, 1)),
            mix: Mix::new(&w.mix),
            sizes: Sizes::new(&w.block_size)?,
            pick: pick(plan, w, count, place)?,
            scan: scan(w)?,
            fields: values.fields as u16,
            batch: u64::from(w.batch),
            keys: Vec::with_capacity(w.batch as usize),
            bytes_left: u64::MAX,
            read_all: values.read_all || values.fields == 1,
            write_all: values.write_all || values.fields == 1,
            drawn: Vec::with_capacity(values.fields as usize),
            values,
            lane: space.lane(place.index),
            fills: w.passes.is_some() && !reads && space.lane(place.index).is_some(),
            space,
        })
    }

    /// Asks the CPU for what the next operation is drawn from.
    #[inline(always)]
    pub fn fetch(&self) {
        sys::fetch(self);
        sys::fetch(&*self.space);
        if let Pick::Drawn(dist) = &self.pick {
            sys::fetch(&**dist);
        }
    }

    /// The keys of the target.
    pub fn space(&self) -> &Arc<KeySpace> {
        &self.space
    }

    #[inline]
    #[allow(clippy::should_implement_trait)] // endless, and never None: not an iterator
    pub fn next(&mut self) -> Op {
        let kind = self.mix.draw(&mut self.rng);
        match kind.as_record() {
            OpKind::Insert | OpKind::Put => {
                let size = self.value_size();
                let count = self.batch.min(self.affordable(size));
                let key = match self.lane {
                    None => self.space.insert_many(count),
                    lane => self.space.insert_in(lane),
                };
                Op { count: count as u32, ..Op::keyed(kind, key, size) }
            }
            OpKind::Delete => Op::keyed(kind, self.space.delete_in(self.lane), 0),
            OpKind::Mkdir | OpKind::Rmdir | OpKind::Checkpoint => Op::keyed(kind, 0, 0),
            OpKind::Scan => {
                let (key, _) = self.existing();
                let count = self.scan.as_mut().map_or(1, |l| l.draw(&mut self.rng));
                Op { count: count as u32, ..Op::keyed(kind, key, 0) }
            }
            OpKind::Update | OpKind::Rmw => {
                let (key, count) = self.existing();
                let op = self.write(kind, key);
                Op { count: count.min(self.affordable(op.size)) as u32, ..op }
            }
            _ => {
                let field = self.one_field(self.read_all);
                let (key, count) = self.existing();
                Op { field, count: count as u32, ..Op::keyed(kind, key, 0) }
            }
        }
    }

    /// Says how many bytes writes may still ask for: the last batch of a run may be a short one.
    #[inline]
    pub fn limit_bytes(&mut self, bytes: u64) {
        self.bytes_left = bytes;
    }

    /// Values of `size` bytes that may still be written; the last one may go beyond what is left.
    #[inline]
    fn affordable(&self, size: u64) -> u64 {
        match (self.batch, size) {
            (1, _) | (_, 0) => self.batch,
            _ => self.bytes_left.div_ceil(size).max(1),
        }
    }

    /// A write of a whole value, or of one field.
    #[inline]
    fn write(&mut self, kind: OpKind, key: u64) -> Op {
        let field = self.one_field(self.write_all);
        let size = if field == ALL_FIELDS {
            self.value_size()
        } else {
            self.drawn.clear();
            self.field_size(field)
        };
        Op { field, ..Op::keyed(kind, key, size) }
    }

    /// Bytes of a whole value: the sum of its fields.
    #[inline]
    fn value_size(&mut self) -> u64 {
        if self.fields == 1 {
            return self.sizes.draw(&mut self.rng, OpKind::Put);
        }
        self.drawn.clear();
        (0..self.fields).map(|field| self.field_size(field)).sum()
    }

    /// Bytes that field number `field` takes, one more of the value that is drawn.
    #[inline]
    fn field_size(&mut self, field: u16) -> u64 {
        let size = self.sizes.draw(&mut self.rng, OpKind::Put);
        self.drawn.push(size as u32);
        self.values.field_bytes(field, size)
    }

    /// Whether it only fills its lane, and has.
    #[inline]
    pub fn filled(&self) -> bool {
        self.fills && self.lane.is_none_or(|lane| self.space.lane_full(lane))
    }

    /// Passes over the keys that have begun, 1 where it only fills its lane; 0 for patterns without passes.
    #[inline]
    pub fn passes(&self) -> u64 {
        if self.fills {
            return 1;
        }
        match &self.pick {
            Pick::Ordered { passes, .. } => *passes,
            Pick::Drawn(_) => 0,
        }
    }

    /// Data bytes of each field of the value drawn last; empty for values of one piece.
    pub fn field_sizes(&self) -> &[u32] {
        &self.drawn
    }

    #[inline]
    fn one_field(&mut self, all: bool) -> u16 {
        if all {
            return ALL_FIELDS;
        }
        below(self.rng.next_u64(), u64::from(self.fields)) as u16
    }

    /// Key numbers of the get or update drawn last, when it covers several records: each drawn by
    /// itself; of a shortened update only the first `op.count` count. Empty where the access pattern has an order:
    /// then they follow `op.key`.
    #[inline]
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Draws the keys of a batch, one by one, with repetition; the first one.
    #[inline(never)]
    fn draw_many(&mut self, first: u64, count: u64) -> u64 {
        self.keys.clear();
        if let Pick::Drawn(dist) = &mut self.pick {
            for _ in 0..self.batch {
                self.keys.push(first + dist.draw(&mut self.rng, count - 1));
            }
        }
        self.keys.first().copied().unwrap_or(first)
    }

    /// An existing key and how many records come with it, a batch at most; when everything is
    /// deleted, the one that was deleted last. A delete may take the key before it is looked for:
    /// see [`KeySpace::deleted`].
    #[inline]
    pub(super) fn existing(&mut self) -> (u64, u64) {
        let (first, end) = self.space.live();
        let count = end.saturating_sub(first);
        if count == 0 {
            return (self.space.last_deleted(), 1);
        }
        let batch = self.batch.min(count);
        match &mut self.pick {
            Pick::Drawn(_) if self.batch > 1 => (self.draw_many(first, count), self.batch),
            Pick::Drawn(dist) => (first + dist.draw(&mut self.rng, count - 1), 1),
            Pick::Ordered { next, step, down, passes } => {
                let batches = count.div_ceil(batch);
                let at = *next % batches;
                *passes = *next / batches + 1;
                *next = next.wrapping_add(*step);
                let at = if *down { batches - 1 - at } else { at } * batch;
                (first + at, batch.min(count - at))
            }
        }
    }
}

/// Whether an operation needs an existing key.
pub fn picks(op: OpKind) -> bool {
    let makes = matches!(op.as_record(), OpKind::Insert | OpKind::Put);
    let keyless = matches!(
        op,
        OpKind::List | OpKind::Fsync | OpKind::Mkdir | OpKind::Rmdir | OpKind::Checkpoint
    );
    !makes && !keyless
}

fn pick(plan: &Plan, w: &WorkloadPlan, count: u64, place: WorkerIndex) -> Result<Pick> {
    if let Some(spec) = dist(&w.access, new_keys(plan, w)) {
        let dist = ItemDistribution::new(&spec, count.max(1))?;
        let dist = match w.access.scatter {
            true => dist.spread(worker_seed(plan.run.seed, 0, 4))?,
            false => dist,
        };
        return Ok(Pick::Drawn(Box::new(dist)));
    }
    match w.access.kind {
        // Followers are told their keys; see `worker::stream`.
        AccessKind::Sequential | AccessKind::Reverse | AccessKind::Follow => Ok(Pick::Ordered {
            next: u64::from(place.index),
            step: u64::from(place.of),
            down: w.access.kind == AccessKind::Reverse,
            passes: 1,
        }),
        kind => Err(Error::usage("this access pattern is not for keys")
            .with("workload", &w.name)
            .with("access", format!("{kind:?}").to_lowercase())
            .hint("use random, sequential, reverse or one of the skewed patterns")),
    }
}

fn scan(w: &WorkloadPlan) -> Result<Option<ScanLengths>> {
    let Some(s) = &w.scan else {
        return Ok(None);
    };
    let spec = match s.spread {
        ScanSpread::Uniform => DistributionSpec::Uniform,
        ScanSpread::Zipfian => DistributionSpec::YcsbZipfian,
    };
    ScanLengths::new(&spec, u64::from(s.min), u64::from(s.max)).map(Some)
}

#[cfg(test)]
mod tests;
