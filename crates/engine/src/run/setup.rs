//! Makes the spec of each worker from the plan: its place, schedule, generator, payload, share of the work, capture
//! header, CPU.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use taillight_capture::chunk::{Header, OptionalWords, SIZES};
use taillight_core::plan::{Arrival, Plan, VerifyMode, WorkloadPlan};
use taillight_core::{OpKind, Result, Stamp};
use taillight_driver::{Geometry, SessionSpec, Target};

use crate::generator::{Generator, WorkerIndex, worker_seed};
use crate::keyspace::KeySpace;
use crate::payload::{Filler, PayloadSpec};
use crate::schedule::{Schedule, Schedules};
use crate::worker::{KeyedWorker, WorkerLimits, WorkerSpec};

use super::streams::Streams;

/// The spec of each worker, in order. Errors: `Usage` when an extent, slice or rate is impossible.
pub fn worker_specs(
    plan: &Plan,
    target: &dyn Target,
    space: Option<&Arc<KeySpace>>,
) -> Result<Vec<WorkerSpec>> {
    let mut worker_specs = Vec::new();
    let ranks = RankNumbers::of(plan);
    let streams = Streams::of(plan, target.geometry(), space)?;
    let counted = LimitShares::of(plan);
    // Slots are unique over all workers where 12 bits suffice; tracing insists on that.
    let unique = plan.outstanding() <= u64::from(taillight_core::probe::MAX_SLOTS);
    let mut next_slot = 0;
    for (w, workload) in plan.workloads.iter().enumerate() {
        let shape = target.geometry_of(w);
        let schedules = Schedules::new(workload, plan.run.seed, plan.run.warmup.0)?;
        let header = header(workload, shape, w as u16);
        for index in 0..workload.workers {
            let worker = worker_specs.len() as u16;
            let place = ranks.worker_index(worker, index, workload.workers);
            let all = ranks.over_all(place);
            let first_slot = if unique { next_slot } else { 0 };
            next_slot += workload.queue_depth;
            worker_specs.push(WorkerSpec {
                place,
                workload: w as u16,
                generator: Generator::new(plan, workload, shape, place, space)?,
                schedule: schedules.of(all, join(plan, workload, index))?,
                stream: streams.worker(w, index),
                join: join(plan, workload, index),
                end: workload.duration.map(|d| workload.start_delay.0.saturating_add(d.0)),
                measured: workload.measured,
                limits: counted.limits(plan, w, index),
                session: SessionSpec {
                    worker,
                    workload: w as u16,
                    index: index as u16,
                    keep: keeps_data(plan, workload),
                    depth: workload.queue_depth,
                    buffer_size: buffer_size(workload),
                    seed: worker_seed(plan.run.seed, place.worker, 3),
                },
                header: Header { worker, ..header },
                cpu: workload.cpus.get(index as usize % workload.cpus.len().max(1)).copied(),
                nice: workload.nice,
                io_priority: workload.io_priority,
                kinds: kinds(workload, target.inner_kinds()),
                payload: payload(plan, workload, place.worker)?,
                keyed: keyed(workload, space)?,
                open_loop: !workload.arrival.is_closed(),
                first_slot,
            });
        }
        let first = worker_specs.len() - workload.workers as usize;
        if workload.workers > 1 && matches!(workload.arrival, Arrival::Poisson { .. }) {
            share_by_time(&mut worker_specs[first..], plan.run.warmup.0);
        }
    }
    Ok(worker_specs)
}

/// Shares the operations of workers with random arrivals so that all end with the same arrival of
/// the workload. With even shares, those whose arrivals came early would be done while others are
/// not, and the rate at the end would be a part of the one asked.
fn share_by_time(workers: &mut [WorkerSpec], warmup_ns: u64) {
    let total: u64 = workers.iter().filter_map(|w| w.limits.operations).sum();
    let mut schedules: Vec<Schedule> = workers.iter().map(|w| w.schedule.clone()).collect();
    let mut counts = vec![0; workers.len()];
    let (mut next, mut counted) = (BinaryHeap::new(), 0);
    let due = |schedule: &Schedule| schedule.peek().unwrap_or(Stamp::NEVER);
    for (worker, schedule) in schedules.iter().enumerate() {
        next.push(Reverse((due(schedule), worker)));
    }
    while let Some(Reverse((at, worker))) = next.pop().filter(|_| counted < total) {
        // Limits count from the measure phase on.
        let measured = u64::from(at.0 >= warmup_ns as i64);
        counts[worker] += measured;
        counted += measured;
        schedules[worker].advance();
        next.push(Reverse((due(&schedules[worker]), worker)));
    }
    for (worker, count) in workers.iter_mut().zip(counts) {
        worker.limits.operations = worker.limits.operations.map(|_| count);
    }
}

/// Numbers a worker within its rank and among the workers of all ranks: rates and counts are of all ranks together.
#[derive(Debug, Clone, Copy)]
struct RankNumbers {
    rank: u32,
    of: u32,
    /// Workers of a rank.
    workers: u32,
}

impl RankNumbers {
    fn of(plan: &Plan) -> RankNumbers {
        let (rank, of) = plan.ranks.map_or((0, 1), |place| (place.rank, place.of.max(1)));
        RankNumbers { rank, of, workers: plan.workers() }
    }

    /// A worker of this rank: the number that seeds its draws is one over all ranks.
    fn worker_index(&self, worker: u16, index: u32, of: u32) -> WorkerIndex {
        let before = self.rank.saturating_mul(self.workers) as u16;
        WorkerIndex { worker: worker.wrapping_add(before), index, of }
    }

    /// The same worker among those of all ranks.
    fn over_all(&self, place: WorkerIndex) -> WorkerIndex {
        place.among_ranks(self.rank, self.of)
    }
}

/// How long after the start of the load a worker joins, ns; `None`: there from the start.
pub fn join(plan: &Plan, w: &WorkloadPlan, index: u32) -> Option<u64> {
    let step =
        w.ramp.map_or(0, |ramp| u64::from(index / ramp.step.max(1)).saturating_mul(ramp.every.0));
    let measured = w.start_delay.0.saturating_add(step);
    let joined = plan.run.warmup.0.saturating_add(measured);
    match w.warmup {
        None => Some(joined).filter(|_| measured > 0),
        Some(own) => Some(joined.saturating_sub(own.0)).filter(|after| *after > 0),
    }
}

/// Bytes of the buffer of an operation: the largest block or whole value, times the batch.
pub(crate) fn buffer_size(w: &WorkloadPlan) -> u64 {
    let size = w.block_size.max();
    let value = w.value.as_ref().map_or(size, |v| v.value_bytes(size));
    value.saturating_mul(u64::from(w.batch))
}

/// What operations on keys need.
fn keyed(w: &WorkloadPlan, space: Option<&Arc<KeySpace>>) -> Result<Option<Box<KeyedWorker>>> {
    let keyed = space.map(|space| KeyedWorker::new(w, space.clone(), w.queue_depth as usize));
    Ok(keyed.transpose()?.map(Box::new))
}

/// Values shorter than this are packed with others into blocks that a store compresses as one.
const PACKED_VALUE: u64 = 64 << 10;

/// Whether every byte of a value must be new: names of fields are written over it, it moves in the
/// buffer of a batch, or the store would find the rest of it in its neighbours.
pub(crate) fn whole_values(w: &WorkloadPlan) -> bool {
    let fields = w.value.as_ref().is_some_and(|v| v.fields > 1);
    fields || w.batch > 1 || (w.keys.is_some() && w.block_size.max() < PACKED_VALUE)
}

/// What the writes of a worker carry.
fn payload(plan: &Plan, w: &WorkloadPlan, worker: u16) -> Result<Filler> {
    let spec = PayloadSpec::of(&w.payload)?;
    // Whatever else touches the buffers.
    let reads = w.mix.iter().any(|m| m.weight > 0 && (!m.op.writes() || m.op == OpKind::Rmw));
    let seed = worker_seed(plan.run.seed, worker, 6);
    Ok(Filler::new(&spec, seed, reads || whole_values(w)))
}

/// Kinds of operations that the recorder counts: those of the mix, a final fsync, the parts of composed ones, and the
/// times `inside` operations that the target tells.
fn kinds(w: &WorkloadPlan, inside: &[OpKind]) -> Vec<OpKind> {
    let mut kinds: Vec<OpKind> = w.mix.iter().map(|m| m.op).collect();
    if w.end_fsync && !kinds.contains(&OpKind::Fsync) {
        kinds.push(OpKind::Fsync);
    }
    let parts = kinds.iter().flat_map(|kind| kind.parts()).chain(inside);
    let parts: Vec<OpKind> = parts.copied().collect();
    if !parts.is_empty() {
        kinds.extend(parts);
        kinds.sort_unstable();
        kinds.dedup();
    }
    kinds
}

/// Sizes that records refer to by index; `None` when blocks have more than `SIZES`.
fn distinct_sizes(w: &WorkloadPlan) -> Option<Vec<u64>> {
    let mut sizes = Generator::distinct_sizes(w, SIZES)?;
    let one = sizes.first().copied().filter(|_| sizes.len() == 1);
    if let Some(values) = w.value.as_ref().filter(|v| v.fields > 1) {
        // The whole value, or one of its fields.
        sizes = vec![values.value_bytes(one?)];
        sizes.extend(values.field_sizes(one?));
    }
    if one.is_some() && w.mix.iter().any(|m| m.op == OpKind::Rmw) {
        // It reads the whole value and writes it, or one of its fields.
        let whole = sizes[0];
        sizes.extend(sizes.clone().iter().map(|written| whole + written));
    }
    Some(sizes)
}

/// Whether the bytes that the workload reads are looked at.
fn keeps_data(plan: &Plan, w: &WorkloadPlan) -> bool {
    let integrity = w.value.as_ref().is_some_and(|v| v.integrity);
    plan.verify.mode == VerifyMode::Inline || w.end_to_end || integrity
}

/// The workers that operations and bytes of the plan are shared by: those that are measured. Load
/// goes on until they are done.
struct LimitShares {
    /// First number of each workload's workers among them; `None` for load.
    first: Vec<Option<u32>>,
    workers: u32,
    ranks: RankNumbers,
}

impl LimitShares {
    fn of(plan: &Plan) -> LimitShares {
        let mut workers = 0;
        let mut first = Vec::with_capacity(plan.workloads.len());
        for w in &plan.workloads {
            first.push(w.measured.then_some(workers));
            workers += if w.measured { w.workers } else { 0 };
        }
        let mut ranks = RankNumbers::of(plan);
        if let Some(place) = plan.in_turns() {
            // As long as the part that it goes over.
            ranks.rank = place.part();
        }
        LimitShares { first, workers, ranks }
    }

    /// A worker's share of operations and bytes, the smaller one of the run's and of its workload's: the first
    /// workers take the remainder.
    fn limits(&self, plan: &Plan, workload: usize, index: u32) -> WorkerLimits {
        let number = self.first.get(workload).copied().flatten();
        let of_run = number.map(|first| (first + index, self.workers));
        let own = plan.workloads.get(workload);
        let of_own = own.map(|w| (index, w.workers));
        let share = |total: Option<u64>, of: Option<(u32, u32)>| {
            let ((number, workers), total) = of.zip(total)?;
            let all = self.ranks.over_all(WorkerIndex { worker: 0, index: number, of: workers });
            let (number, workers) = (u64::from(all.index), u64::from(all.of.max(1)));
            Some(total / workers + u64::from(number < total % workers))
        };
        let least = |run: Option<u64>, own: Option<u64>| {
            share(run, of_run).into_iter().chain(share(own, of_own)).min()
        };
        WorkerLimits {
            operations: least(plan.run.operations, own.and_then(|w| w.operations)),
            bytes: least(plan.run.bytes.map(|b| b.0), own.and_then(|w| w.bytes).map(|b| b.0)),
            drain_timeout_ns: plan.run.drain_timeout.0,
            late_ns: plan.run.interval.0.min(plan.run.drain_timeout.0),
        }
    }
}

/// What the chunks of all workers of a workload begin with; each has its own number in it.
fn header(w: &WorkloadPlan, shape: Geometry, workload: u16) -> Header {
    let mut sizes = [0; SIZES];
    let distinct = distinct_sizes(w);
    let keyed = w.keys.is_some();
    for (slot, size) in sizes.iter_mut().zip(distinct.iter().flatten()) {
        *slot = *size;
    }
    let unit = w.access.align.0 | w.access.offset.0 | w.access.stride.map_or(0, |s| s.0);
    let unit = unit | if shape.files > 1 { shape.file_size } else { 0 };
    Header {
        worker: 0,
        workload,
        phase: 0,
        seq: 0,
        columns: OptionalWords {
            issued: w.queue_depth > 1,
            intended: !w.arrival.is_closed(),
            sync: w.sync.every().is_some()
                || w.trace.as_ref().is_some_and(|trace| trace.ops.durable() > 0),
            size: distinct.is_none(),
            key: keyed,
        },
        unit_shift: unit.trailing_zeros().min(30) as u8,
        file_size: if shape.files > 1 { shape.file_size } else { u64::MAX >> 1 },
        base_ns: 0,
        sizes,
        addressed: !keyed,
        partial: false,
        ordered: false,
    }
}
