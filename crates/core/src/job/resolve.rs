//! Written job -> plan: fills in defaults, asks the drivers, reads traces, and runs the checks that need no opened
//! target.

use std::collections::BTreeMap;

use super::arrival::{self, arrival};
use super::check::{self, TargetCapabilities, ValidationError};
use super::forms::BlockSizeForm;
use super::written::{JobFile, RunTable, WorkloadTable};
use super::{DriverView, MachineMemory, ReadFile, defaults, extent, replay};
use crate::capability::Capabilities;
use crate::op::OpKind;
use crate::plan::{
    Access, AccessKind, BlockSize, BlockSizePart, Hot, MixPart, Plan, Reach, ReplayOps, RunPlan,
    SearchPlan, Sync, TargetPlan, TracePlan, TracingBackendChoice, WorkloadPlan,
};
use crate::suggest::did_you_mean;
use crate::units::{ByteSize, Span};
use crate::{Error, Result};

/// What resolution asks: drivers, machine, files, and the job as written.
pub(super) struct Resolver<'a> {
    pub(super) drivers: &'a dyn DriverView,
    pub(super) machine: MachineMemory,
    pub(super) read_file: ReadFile<'a>,
    /// The place (file and line, or flag) of a field.
    pub(super) locate: &'a dyn Fn(&str) -> Option<String>,
    /// Whether a field is written at all.
    pub(super) given: &'a dyn Fn(&str) -> bool,
    pub(super) default_name: Option<String>,
}

impl Resolver<'_> {
    pub(super) fn plan(&self, mut job: JobFile) -> Result<Plan> {
        let (mut target, can) = self.target(job.target, "target")?;
        let mut can = TargetCapabilities { own: can, named: BTreeMap::new() };
        let mut targets = BTreeMap::new();
        for (name, written) in job.targets {
            let (resolved, able) = self.target(written, &format!("targets.{name}"))?;
            can.named.insert(name.clone(), able);
            targets.insert(name, resolved);
        }
        let name = self.default_name.clone();
        // A probe of a search is measured for its own time.
        let duration = job.search.as_ref().map_or(defaults::DURATION, |s| s.probe);
        let name = name.unwrap_or_else(|| target.driver.clone());
        let mut written = std::mem::take(&mut job.workload);
        let free = self.traces(&mut written, &job.run, &can, &mut target, &mut targets)?;
        let machine = MachineMemory { free_memory: ByteSize(free), ..self.machine };
        let run = run(job.run, name, (!all_end(&written)).then_some(duration));
        if written.is_empty() {
            written.push(WorkloadTable::default());
        }
        if let Some(search) = &job.search {
            searched(&mut written, search);
        }
        let mut workloads = Vec::with_capacity(written.len());
        for (i, w) in written.into_iter().enumerate() {
            let align_given =
                w.trace.is_some() || (self.given)(&format!("workload.{i}.access.align"));
            let able = can.of(w.target.as_deref());
            let mut w =
                workload(w, i, able, self.read_file, align_given).map_err(|c| self.error(c))?;
            let of = w.target.as_ref().and_then(|name| targets.get(name)).unwrap_or(&target);
            self.drivers.defaults(&of.driver, &mut w);
            workloads.push(w);
        }
        // What a gate compares runs by must be in their summaries.
        let gate = job.gate.iter().flat_map(|gate| &gate.figures);
        job.qos.percentiles.extend(gate.filter_map(|it| it.figure.percentile()));
        job.qos.percentiles.sort_unstable();
        job.qos.percentiles.dedup();
        self.trace(&job.trace).map_err(|c| self.error(c))?;
        let budget_written = (self.given)("capture.budget");
        if !budget_written {
            job.capture.budget = check::capture_budget(&workloads, &can, machine);
        }
        let plan = Plan {
            run,
            target,
            targets,
            workloads,
            qos: job.qos,
            trace: job.trace,
            capture: job.capture,
            verify: job.verify,
            search: job.search,
            gate: job.gate,
            ranks: None,
        };
        let checked = check::plan(&plan, &can, machine, budget_written);
        // What can never fit is told before what does not fit this machine.
        if checked.as_ref().err().is_none_or(ValidationError::is_unavailable) {
            extent::written_sizes(&plan).map_err(|c| self.error(c))?;
        }
        checked.map_err(|c| self.error(c))?;
        Ok(plan)
    }

    /// The target that is written at `path`, and what its driver can do with its options.
    fn target(&self, mut target: TargetPlan, path: &str) -> Result<(TargetPlan, Capabilities)> {
        let names = self.drivers.names();
        if target.driver.is_empty() {
            return Err(Error::usage("no driver given").hint(format!(
                "write driver = \"...\" in [{path}] or --driver NAME; known: {}",
                names.join(", ")
            )));
        }
        if !names.contains(&target.driver.as_str()) {
            return Err(self.error(ValidationError::new(
                format!("{path}.driver"),
                format!("there is no driver `{}`", target.driver),
                did_you_mean(&target.driver, &names),
            )));
        }
        let of_driver = |e| self.driver_error(e, path);
        let bound = self.drivers.bind(&target).map_err(of_driver)?;
        target.options = bound.options;
        Ok((target, bound.capabilities))
    }

    /// Reads the traces of the workloads, and fills in what they say. Returns the free memory that they leave, bytes.
    fn traces(
        &self,
        workloads: &mut [WorkloadTable],
        run: &RunTable,
        can: &TargetCapabilities,
        own: &mut TargetPlan,
        named: &mut BTreeMap<String, TargetPlan>,
    ) -> Result<u64> {
        let mut free = self.machine.free_memory.0;
        let alone = workloads.len() == 1;
        for (i, w) in workloads.iter_mut().enumerate() {
            let path = format!("workload.{i}");
            let keyed = can.of(w.target.as_deref()).keyed();
            replay::settings(w, run, keyed, &path).map_err(|c| self.error(c))?;
            let Some(trace) = &w.trace else { continue };
            // Put into another order, a trace is in memory twice for a moment.
            let ops = self.drivers.trace(trace, free / (2 * ReplayOps::OP_BYTES));
            let mut ops =
                ops.map_err(|e| e.with_some("at", (self.locate)(&format!("{path}.trace"))))?;
            if !can.of(w.target.as_deref()).sync {
                ops.without_durable();
            }
            free -= ops.memory().min(free);
            let (target, at) = match w.target.as_ref().and_then(|name| named.get_mut(name)) {
                Some(target) => (target, format!("targets.{}", w.target.as_deref().unwrap_or(""))),
                None => (&mut *own, "target".to_owned()),
            };
            let given = (self.drivers.device_size(target), alone);
            replay::fill_in(w, ops, target, given, run, &path, &at).map_err(|c| self.error(c))?;
        }
        Ok(free)
    }

    /// Refuses settings of `[trace]` without a mode, and the backend that was removed.
    fn trace(&self, trace: &TracePlan) -> Result<(), ValidationError> {
        let settings = ["trace.threshold", "trace.rung", "trace.backend", "trace.buffer"];
        if !(self.given)("trace.mode")
            && let Some(field) = settings.into_iter().find(|field| (self.given)(field))
        {
            return Err(ValidationError::new(
                field,
                "nothing is traced without trace.mode",
                "add trace.mode = \"outliers\" or \"all\", or \"off\"",
            ));
        }
        match trace.backend {
            TracingBackendChoice::Procfs => Err(ValidationError::new(
                if (self.given)("trace.backend") { "trace.backend" } else { "trace.rung" },
                "`procfs` was removed: it explained no single I/O",
                "use bpf, perf or auto; trace.host samples the machine at each interval",
            )),
            _ => Ok(()),
        }
    }

    /// A driver's own complaint, with the place of the option it is about.
    fn driver_error(&self, e: Error, target: &str) -> Error {
        let path = match e.field() {
            Some(option) => format!("{target}.options.{option}"),
            None => format!("{target}.options"),
        };
        e.with_some("at", (self.locate)(&path))
    }

    fn error(&self, c: ValidationError) -> Error {
        let at = (self.locate)(&c.path);
        c.into_error(at)
    }
}

/// Whether there are measured workloads and each has an end of its own.
fn all_end(workloads: &[WorkloadTable]) -> bool {
    let ends =
        |w: &WorkloadTable| w.duration.is_some() || w.operations.is_some() || w.bytes.is_some();
    let mut measured = workloads.iter().filter(|w| w.measured != Some(false)).peekable();
    measured.peek().is_some() && measured.all(ends)
}

fn run(table: RunTable, default_name: String, default_duration: Option<Span>) -> RunPlan {
    let defaults = RunPlan::default();
    let ended = table.operations.is_some() || table.bytes.is_some();
    RunPlan {
        name: table.name.unwrap_or(default_name),
        seed: table.seed.unwrap_or_else(super::defaults::seed),
        duration: table.duration.or(default_duration.filter(|_| !ended)),
        operations: table.operations,
        bytes: table.bytes,
        warmup: table.warmup.unwrap_or(defaults.warmup),
        interval: table.interval.unwrap_or(defaults.interval),
        drain_timeout: table.drain_timeout.unwrap_or(defaults.drain_timeout),
        idle_timeout: table.idle_timeout,
        steady: table.steady,
        before: table.before.unwrap_or_default(),
        repeat: table.repeat.unwrap_or(defaults.repeat),
        share: table.share.unwrap_or_default(),
        lock_memory: table.lock_memory,
        continues: table.continues.unwrap_or(false),
        output: table.output,
    }
}

/// Completes the arrival of the workload that a search over rates varies.
fn searched(workloads: &mut [WorkloadTable], search: &SearchPlan) {
    let Some(rate) = search.rate else { return };
    let one = workloads.len() == 1;
    for (i, table) in workloads.iter_mut().enumerate() {
        let name = table.name.clone().unwrap_or_else(|| format!("w{i}"));
        let varied = search.workload.as_ref().map_or(one, |wanted| *wanted == name);
        if varied {
            table.arrival = table.arrival.take().map(|form| arrival::searched(form, rate.from));
        }
    }
}

fn workload(
    table: WorkloadTable,
    index: usize,
    can: &Capabilities,
    read_file: ReadFile<'_>,
    align_given: bool,
) -> Result<WorkloadPlan, ValidationError> {
    let path = |field: &str| format!("workload.{index}.{field}");
    let block_size = match table.block_size {
        Some(BlockSizeForm::Sizes(sizes)) => sizes,
        Some(BlockSizeForm::File(file)) => size_file(&file, &path("block_size"), read_file)?,
        None if can.empty_values => BlockSize::Fixed(ByteSize(0)),
        None => BlockSize::Fixed(defaults::BLOCK_SIZE),
    };
    let mix = mix(table.mix.map(|m| m.0), &path("mix"), can)?;
    let block_size = of_mix(block_size, &mix);
    if !can.empty_values || block_size != BlockSize::Fixed(ByteSize(0)) {
        check::block_size(&block_size, &path("block_size"))?;
    }
    let mut access = table.access.map(|a| a.0).unwrap_or_default();
    fill_access(&mut access, align_given, &block_size);
    let keyed = can.keyed();
    let given = [
        ("keys", table.keys.is_some()),
        ("value", table.value.is_some()),
        ("scan", table.scan.is_some()),
    ];
    if let Some((field, _)) = given.into_iter().find(|(_, given)| !keyed && *given) {
        return Err(ValidationError::new(
            path(field),
            "this driver is addressed by offset and knows no keys",
            "leave keys, value and scan out, or use a driver with keys (`taillight drivers`)",
        ));
    }
    let scans = mix.iter().any(|m| m.op == OpKind::Scan);
    Ok(WorkloadPlan {
        name: table.name.unwrap_or_else(|| format!("w{index}")),
        target: table.target,
        section: table.section,
        reported_with: table.reported_with,
        report_group: table.report_group,
        unified: table.unified,
        trace: table.trace,
        workers: table.workers.unwrap_or(1),
        queue_depth: table.queue_depth.unwrap_or(1),
        mix,
        trim_first: table.trim_first.unwrap_or(false),
        access,
        block_size,
        arrival: arrival(table.arrival, &path("arrival"))?,
        sync: table.sync.unwrap_or(Sync::None),
        payload: table.payload.unwrap_or_default(),
        unverified: table.unverified.unwrap_or(false),
        keys: keyed.then(|| table.keys.unwrap_or_default()),
        value: keyed.then(|| table.value.unwrap_or_default()),
        scan: scans.then(|| table.scan.unwrap_or_default()),
        think: table.think,
        flow: table.flow,
        ramp: table.ramp,
        measured: table.measured.unwrap_or(true),
        end_to_end: table.end_to_end.unwrap_or(false),
        start_delay: table.start_delay.unwrap_or_default(),
        warmup: table.warmup,
        duration: table.duration,
        operations: table.operations,
        bytes: table.bytes,
        passes: table.passes,
        drop_cache: table.drop_cache,
        end_fsync: table.end_fsync.unwrap_or(false),
        ends_run: table.ends_run.unwrap_or(false),
        ends_with: table.ends_with,
        batch: table.batch.unwrap_or(1),
        cpus: table.cpus.unwrap_or_default(),
        nice: table.nice,
        io_priority: table.io_priority,
    })
}

/// The sizes of a block-size file, weights scaled to fit.
fn size_file(file: &str, path: &str, read: ReadFile<'_>) -> Result<BlockSize, ValidationError> {
    let fix = "write lines like 4KiB,70, or YCSB's BlockSize form";
    let bad = |what: String| ValidationError::new(path, format!("{file}: {what}"), fix);
    let text = read(file).map_err(|e| {
        let hint = "give a file that can be read; paths are relative to the directory the command is run in";
        ValidationError::new(path, format!("{file}: {e}"), hint)
    })?;
    let mut parts = crate::block_size_file::parse(&text).map_err(|e| bad(e.to_string()))?;
    parts.retain(|(_, count)| *count > 0);
    let total: u128 = parts.iter().map(|(_, count)| u128::from(*count)).sum();
    if total == 0 {
        return Err(bad("no size has a count above 0".into()));
    }
    let most = u128::from(u32::MAX);
    let scale = |count: u64| match total > most {
        true => (u128::from(count) * most / total).max(1) as u32,
        false => count as u32,
    };
    let part = |(size, count)| BlockSizePart { size: ByteSize(size), weight: scale(count) };
    Ok(BlockSize::Split(parts.into_iter().map(part).collect()))
}

/// The operations with a weight above zero; where the job writes no mix, the driver's get, or a read of blocks.
fn mix(
    written: Option<Vec<MixPart>>,
    path: &str,
    can: &Capabilities,
) -> Result<Vec<MixPart>, ValidationError> {
    let op = match can.keyed() {
        true => can.getting(),
        false => OpKind::Read,
    };
    let parts = written.unwrap_or_else(|| vec![MixPart { op, weight: 1 }]);
    let kept: Vec<MixPart> = parts.into_iter().filter(|p| p.weight > 0).collect();
    if kept.is_empty() {
        return Err(ValidationError::new(
            path,
            "the mix has no operation with a weight above 0",
            "give at least one, like mix = { read = 70, write = 30 }",
        ));
    }
    Ok(kept)
}

/// Sizes by operation without those of operations that are not in the mix; for a mix of one operation that has a size,
/// that size alone. Other sizes stay.
fn of_mix(sizes: BlockSize, mix: &[MixPart]) -> BlockSize {
    let BlockSize::ByOp(mut sizes) = sizes else {
        return sizes;
    };
    let done = |op: OpKind| mix.iter().any(|part| part.op == op);
    match mix {
        [one] if sizes.contains_key(&one.op) => {
            sizes.remove(&one.op).unwrap_or(BlockSize::Fixed(defaults::BLOCK_SIZE))
        }
        _ => {
            sizes.retain(|op, _| done(*op));
            BlockSize::ByOp(sizes)
        }
    }
}

/// Fills in `align` from the block sizes where the job gives none, and the default parameters of the pattern.
fn fill_access(access: &mut Access, align_given: bool, block_size: &BlockSize) {
    if !align_given {
        access.align = ByteSize(block_size.common_divisor().max(1));
    }
    // A parameter belongs to its pattern; `check` refuses it elsewhere.
    match access.kind {
        AccessKind::Zipf => _ = access.theta.get_or_insert(0.99),
        AccessKind::Pareto => _ = access.h.get_or_insert(0.2),
        AccessKind::Hotspot => _ = access.hot.get_or_insert(Hot { space: 0.2, share: 0.8 }),
        AccessKind::Exponential => {
            access.reach.get_or_insert(Reach { percentile: 95.0, space: 0.857_142_857_1 });
        }
        AccessKind::Normal => _ = access.center.get_or_insert(0.5),
        _ => {}
    }
}
