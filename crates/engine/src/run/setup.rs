//! What each worker is made of: its place, share of the work, capture header, CPU.

use std::sync::Arc;

use taillight_core::plan::{Plan, VerifyMode, WorkloadPlan};
use taillight_core::{OpKind, Result};
use taillight_driver::{Geometry, SessionSpec};
use taillight_rundir::chunk::{Columns, Header, SIZES};

use crate::generator::{Generator, Place, worker_seed};
use crate::keyspace::KeySpace;
use crate::schedule::Schedule;
use crate::worker::{Keyed, Limits};

/// Everything about a worker that is known before its thread starts.
pub struct Seat {
    /// Where it stands.
    pub place: Place,
    /// Its workload's index.
    pub workload: u16,
    /// What.
    pub generator: Generator,
    /// When.
    pub schedule: Schedule,
    /// How much.
    pub limits: Limits,
    /// For the driver.
    pub session: SessionSpec,
    /// For the capture.
    pub header: Header,
    /// CPU to run on.
    pub cpu: Option<u32>,
    /// Kinds of operation, for counters made before the start.
    pub kinds: Vec<OpKind>,
    /// What operations on keys need.
    pub keyed: Option<Box<Keyed>>,
    /// Open loop.
    pub open_loop: bool,
    /// First global slot.
    pub first_slot: u32,
}

/// One seat per worker, in order.
///
/// # Errors
/// `Usage` when an extent, slice or rate is impossible.
pub fn seats(plan: &Plan, shape: Geometry, space: Option<&Arc<KeySpace>>) -> Result<Vec<Seat>> {
    let mut seats = Vec::new();
    let total = plan.workers();
    // Slots are unique over all workers where 12 bits suffice; tracing insists on that.
    let unique = plan.outstanding() <= u64::from(taillight_core::probe::MAX_SLOTS);
    let mut next_slot = 0;
    for (w, workload) in plan.workloads.iter().enumerate() {
        for index in 0..workload.workers {
            let worker = seats.len() as u16;
            let place = Place {
                worker,
                index,
                of: workload.workers,
            };
            let first_slot = if unique { next_slot } else { 0 };
            next_slot += workload.queue_depth;
            seats.push(Seat {
                place,
                workload: w as u16,
                generator: Generator::new(plan, workload, shape, place, space)?,
                schedule: Schedule::new(workload, place)?,
                limits: limits(plan, u32::from(worker), total),
                session: SessionSpec {
                    worker,
                    workload: w as u16,
                    keep: keeps(plan, workload),
                    depth: workload.queue_depth,
                    buffer_size: buffer_size(workload),
                    seed: worker_seed(plan.run.seed, worker, 3),
                },
                header: header(workload, shape, w as u16, worker),
                cpu: workload
                    .cpus
                    .get(index as usize % workload.cpus.len().max(1))
                    .copied(),
                kinds: kinds(workload),
                keyed: space.map(|space| {
                    let depth = workload.queue_depth as usize;
                    Box::new(Keyed::new(workload, space.clone(), depth))
                }),
                open_loop: !workload.arrival.is_closed(),
                first_slot,
            });
        }
    }
    Ok(seats)
}

/// Bytes of the largest block or whole value.
pub(crate) fn buffer_size(w: &WorkloadPlan) -> u64 {
    let size = w.block_size.max();
    w.value.as_ref().map_or(size, |v| v.value_bytes(size))
}

/// Operations in the recorder: a read-modify-write brings its parts.
fn kinds(w: &WorkloadPlan) -> Vec<OpKind> {
    let mut kinds: Vec<OpKind> = w.mix.iter().map(|m| m.op).collect();
    if kinds.contains(&OpKind::Rmw) {
        kinds.extend([OpKind::Get, OpKind::Update]);
        kinds.sort_unstable();
        kinds.dedup();
    }
    kinds
}

/// Sizes that records refer to by index, when they are few enough.
fn distinct_sizes(w: &WorkloadPlan) -> Option<Vec<u64>> {
    let sizes = Generator::distinct_sizes(w, SIZES)?;
    let Some(values) = &w.value else {
        return Some(sizes);
    };
    match sizes.as_slice() {
        _ if values.fields == 1 => Some(sizes),
        // The whole value, or one of its fields.
        [one] => Some(vec![values.value_bytes(*one), values.field_bytes(*one)]),
        _ => None,
    }
}

/// Whether what is read is looked at.
fn keeps(plan: &Plan, w: &WorkloadPlan) -> bool {
    let integrity = w.value.as_ref().is_some_and(|v| v.integrity);
    plan.verify.mode == VerifyMode::Inline || w.end_to_end || integrity
}

/// The worker's share of operations and bytes: the first ones take the remainder.
fn limits(plan: &Plan, worker: u32, workers: u32) -> Limits {
    let share = |total: u64| {
        let (worker, workers) = (u64::from(worker), u64::from(workers));
        total / workers + u64::from(worker < total % workers)
    };
    Limits {
        operations: plan.run.operations.map(share),
        bytes: plan.run.bytes.map(|b| share(b.0)),
        drain_timeout_ns: plan.run.drain_timeout.0,
        late_ns: plan.run.interval.0.min(plan.run.drain_timeout.0),
    }
}

fn header(w: &WorkloadPlan, shape: Geometry, workload: u16, worker: u16) -> Header {
    let mut sizes = [0; SIZES];
    let distinct = distinct_sizes(w);
    let keyed = w.keys.is_some();
    for (slot, size) in sizes.iter_mut().zip(distinct.iter().flatten()) {
        *slot = *size;
    }
    let unit = w.access.align.0 | w.access.offset.0 | w.access.stride.map_or(0, |s| s.0);
    let unit = unit | if shape.files > 1 { shape.file_size } else { 0 };
    Header {
        worker,
        workload,
        phase: 0,
        seq: 0,
        columns: Columns {
            issued: w.queue_depth > 1,
            intended: !w.arrival.is_closed(),
            sync: w.sync.every().is_some(),
            size: distinct.is_none(),
            key: keyed,
        },
        unit_shift: unit.trailing_zeros().min(30) as u8,
        file_size: if shape.files > 1 {
            shape.file_size
        } else {
            u64::MAX >> 1
        },
        base_ns: 0,
        sizes,
        addressed: !keyed,
        partial: false,
    }
}
