//! The stream that workloads with `access = "follow"` share, and each worker's side of it.

use std::sync::Arc;

use taillight_core::capability::TargetKind;
use taillight_core::plan::{AccessKind, Plan, WorkloadPlan};
use taillight_core::{Error, Result};
use taillight_driver::Geometry;

use crate::generator::AccessExtent;
use crate::keyspace::KeySpace;
use crate::stream::{SharedStream, StreamShape};
use crate::worker::{StreamLayout, StreamRole, StreamWorker};

/// The stream of a plan, if it has one.
pub struct Streams<'a> {
    plan: &'a Plan,
    shared: Option<(Arc<SharedStream>, StreamLayout)>,
}

impl<'a> Streams<'a> {
    /// The stream of `plan` on a target of this shape. All workloads on it have the same extent
    /// and block size (checked with the plan). Errors: `Usage` when the extent cannot hold a block, or begins inside
    /// one of several files.
    pub fn of(
        plan: &'a Plan,
        shape: Geometry,
        space: Option<&Arc<KeySpace>>,
    ) -> Result<Streams<'a>> {
        let followers = || plan.workloads.iter().filter(|w| follows(w));
        let Some(first) = followers().next() else {
            return Ok(Streams { plan, shared: None });
        };
        let can = taillight_driver::bind(&plan.target).ok().map(|driver| driver.capabilities());
        let (layout, places) = layout(first, shape, space)?;
        let limit = followers().filter(|w| writes(w)).map(|w| blocks(w, places)).max();
        let count = |of: fn(&WorkloadPlan) -> bool| {
            let workers = followers().filter(|w| of(w)).map(|w| w.workers);
            workers.sum::<u32>()
        };
        let stream = SharedStream::new(StreamShape {
            places,
            limit: limit.unwrap_or(0),
            writers: count(writes),
            readers: count(|w| !writes(w)),
            keeps_data: can.as_ref().is_none_or(|can| can.stores_data),
            queue: can.is_some_and(|can| can.facts.kind == TargetKind::Queue),
        });
        let shared = Some((Arc::new(stream), layout));
        Ok(Streams { plan, shared })
    }

    /// The side of worker `index` of a workload.
    pub fn worker(&self, workload: usize, index: u32) -> Option<Box<StreamWorker>> {
        let (stream, layout) = self.shared.as_ref()?;
        let w = self.plan.workloads.get(workload).filter(|w| follows(w))?;
        let before = self.plan.workloads[..workload].iter();
        let before = before.filter(|w| follows(w) && !writes(w)).map(|w| w.workers);
        let number = before.sum::<u32>() + index;
        let role = StreamRole {
            reader: (!writes(w)).then_some(number as usize),
            limit: blocks(w, stream.places()),
            stamps: w.end_to_end,
            queue: stream.is_queue(),
        };
        let worker = StreamWorker::new(stream.clone(), *layout, role, w.queue_depth as usize);
        Some(Box::new(worker))
    }
}

fn follows(w: &WorkloadPlan) -> bool {
    w.access.kind == AccessKind::Follow
}

fn writes(w: &WorkloadPlan) -> bool {
    w.mix.iter().all(|m| m.op.writes())
}

/// Blocks of all passes of a workload.
fn blocks(w: &WorkloadPlan, places: u64) -> u64 {
    w.passes.map_or(u64::MAX, |p| p.saturating_mul(places))
}

/// Where blocks lie, and how many places there are.
fn layout(
    w: &WorkloadPlan,
    shape: Geometry,
    space: Option<&Arc<KeySpace>>,
) -> Result<(StreamLayout, u64)> {
    if let Some(space) = space {
        let layout = StreamLayout {
            start: 0,
            step: 0,
            per_file: u64::MAX,
            file_size: u64::MAX,
            first_key: Some(space.live().1),
        };
        return Ok((layout, u64::MAX));
    }
    let extent = AccessExtent::of(w, shape)?;
    let step = extent.largest.max(1).next_multiple_of(extent.align);
    let one_file = extent.end <= shape.file_size;
    if !one_file && !extent.start.is_multiple_of(shape.file_size.max(1)) {
        return Err(Error::usage("a stream over several files begins inside one")
            .with("workload", &w.name)
            .hint("let access.offset be a multiple of the file size, or use one file"));
    }
    let per_file = if one_file { u64::MAX } else { shape.file_size / step };
    let places = if one_file {
        extent.bytes() / step
    } else {
        extent.bytes() / shape.file_size.max(1) * per_file
    };
    let layout = StreamLayout {
        start: extent.start,
        step,
        per_file,
        file_size: shape.file_size,
        first_key: None,
    };
    if places == 0 {
        return Err(Error::usage("the extent of a stream holds no block")
            .with("workload", &w.name)
            .hint("make target.size or access.length larger, or block_size smaller"));
    }
    Ok((layout, places))
}
