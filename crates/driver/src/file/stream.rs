//! `filestream`: one file as a stream. One writer appends, any number of readers read it in order.
//!
//! A preset of `file` with rules of its own: pread and pwrite (buffered, unless `direct`), one file, ascending offsets
//! only, at most one writer. The writer begins with an empty file and makes it grow; with a reader that does not
//! follow, the file is laid out first, and written over. Who reads what, and when, is decided by the engine's stream
//! (`access = "follow"`) or its sequential pattern.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::capability::{Capabilities, DriverFacts, TargetKind};
use taillight_core::plan::{AccessKind, BlockSize, Plan, TargetPlan, WorkloadPlan};
use taillight_core::progress::OnProgress;
use taillight_core::{Error, OpKind, Result};

use crate::contract::{AdminAction, BoundDriver, Driver, OpenSpec, Target};
use crate::file::options::{CacheState, FileOptions, IoEngine, LayoutPolicy};
use crate::options::{DriverOptions, OptionSet, complete};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};

/// Name of the driver.
const NAME: &str = "filestream";

/// The driver.
pub struct FileStream;

/// The options, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamOptions {
    /// Bypass the page cache (O_DIRECT); sizes must then fit the device's blocks.
    pub direct: bool,
    /// Page cache before a plan that only reads: as the writer left it, written back and dropped,
    /// or filled and kept mapped.
    pub cache: CacheState,
    /// Leave the file this run makes behind, for a later run to read; otherwise it is deleted at
    /// the end.
    pub keep: bool,
    /// Let a plan that only reads open a file that something else holds.
    pub read_in_use: bool,
}

impl Default for StreamOptions {
    fn default() -> Self {
        StreamOptions { direct: false, cache: CacheState::Keep, keep: false, read_in_use: false }
    }
}

impl DriverOptions for StreamOptions {
    fn check(&self) -> Result<()> {
        DriverOptions::check(&self.file(true))
    }
}

impl StreamOptions {
    /// What `file` is told. `appends`: the plan makes the file grow.
    fn file(self, appends: bool) -> FileOptions {
        FileOptions {
            engine: IoEngine::Sync,
            direct: self.direct,
            cache: self.cache,
            layout: if appends { LayoutPolicy::Never } else { LayoutPolicy::Auto },
            allow_holes: appends,
            keep: self.keep,
            read_in_use: self.read_in_use,
            grows: appends,
            ..FileOptions::default()
        }
    }

    /// What `file` is told of a plan of streams.
    fn file_of(&self, plan: &Plan) -> Result<FileOptions> {
        let appends = appends(plan)?;
        if appends && self.cache == CacheState::Warm {
            return Err(Error::usage(
                "cache = \"warm\" fills the page cache from a file that is still empty",
            )
            .hint("leave options.cache out of a plan that writes"));
        }
        Ok(self.file(appends))
    }
}

impl Driver for FileStream {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "one file as a stream: a writer appends, readers read in order or follow it"
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<StreamOptions>()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        Ok(Box::new(StreamOptions::parse(NAME, &target.options)?))
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, dir: &std::path::Path) -> TestSetup {
        let all = ["", "direct = true", "cache = \"drop\""];
        Ok(TestTarget::local(dir, "stream.dat", &all))
    }
    /// A writer ends at the end of the data: a stream does not begin again.
    fn defaults(&self, workload: &mut WorkloadPlan) {
        if does_only(workload, OpKind::Write) && ordered(workload) {
            workload.passes.get_or_insert(1);
        }
    }
}

impl BoundDriver for StreamOptions {
    fn options(&self) -> Result<toml::Table> {
        complete(self)
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ops: vec![OpKind::Read, OpKind::Write],
            max_depth: 1,
            direct: self.direct,
            sync: true,
            stores_data: true,
            guarded: true,
            admin: vec![AdminAction::Flush, AdminAction::DropCaches, AdminAction::Purge],
            facts: DriverFacts { kind: TargetKind::Stream, ..DriverFacts::default() },
            ..Capabilities::default()
        }
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        super::check(NAME, &self.file_of(spec.plan)?, spec)
    }
    fn open(&self, spec: &OpenSpec<'_>, progress: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        super::open(NAME, &self.file_of(spec.plan)?, spec, progress)
    }
}

/// Checks that the plan is one of streams; whether it makes the file grow. A reader that does not
/// follow the writer reads what was laid out before, and the writer then writes over it.
fn appends(plan: &Plan) -> Result<bool> {
    let mut writers = 0;
    for w in &plan.workloads {
        if !ordered(w) {
            return Err(Error::usage("a stream is read and written in ascending order only")
                .with("workload", &w.name)
                .hint("use access = \"sequential\" or \"follow\", or driver `file`"));
        }
        if !(does_only(w, OpKind::Write) || does_only(w, OpKind::Read)) {
            return Err(Error::usage("a worker on a stream either appends or reads")
                .with("workload", &w.name)
                .hint("use two workloads, mix = \"write\" and mix = \"read\""));
        }
        writers += if does_only(w, OpKind::Write) { w.workers } else { 0 };
    }
    if writers > 1 {
        return Err(Error::usage("a stream has one writer")
            .with("workers that write", writers)
            .hint("use workers = 1, or driver `file`"));
    }
    let mut writing = plan.workloads.iter().filter(|w| does_only(w, OpKind::Write));
    if let Some(w) = writing.find(|w| !ends_in_time(plan, w)) {
        return Err(Error::usage(
            "the writer of a stream would begin again and overwrite its data",
        )
        .with("workload", &w.name)
        .hint("use passes = 1: it then ends at the end of the data, or earlier"));
    }
    let follows = |w: &WorkloadPlan| w.access.kind == AccessKind::Follow;
    let readers = plan.workloads.iter().filter(|w| does_only(w, OpKind::Read));
    let laid_out = readers.filter(|w| !follows(w)).count() > 0;
    Ok(writers == 1 && !laid_out)
}

fn ordered(w: &WorkloadPlan) -> bool {
    matches!(w.access.kind, AccessKind::Sequential | AccessKind::Follow)
}

/// Whether a writer ends before it would begin again: by its passes, or because all that the run
/// does fits. What the run's end does not count (warm-up, workloads that are not measured) and what
/// is not known yet (a size that is not written) can only end by passes.
fn ends_in_time(plan: &Plan, w: &WorkloadPlan) -> bool {
    if w.passes == Some(1) {
        return true;
    }
    let (Some(size), true) = (plan.target.size, plan.run.warmup.0 == 0 && w.measured) else {
        return false;
    };
    let room = size.0.saturating_sub(w.access.offset.0);
    let room = w.access.length.map_or(room, |l| l.0.min(room));
    let block = w.block_size.max().max(1);
    let step = block.next_multiple_of(w.access.align.0.max(1));
    let fit = |blocks: u64| blocks.saturating_mul(step) <= room;
    let fixed = matches!(w.block_size, BlockSize::Fixed(_));
    let bytes = plan.run.bytes.filter(|_| fixed);
    plan.run.operations.is_some_and(fit) || bytes.is_some_and(|b| fit(b.0.div_ceil(block)))
}

fn does_only(w: &WorkloadPlan, op: OpKind) -> bool {
    w.mix.iter().all(|m| m.op == op || m.weight == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::plan;
    use taillight_core::units::ByteSize;

    /// A plan with these workloads: operation, pattern, workers.
    fn streams(of: &[(OpKind, AccessKind, u32)]) -> Plan {
        let target = TargetPlan { driver: NAME.to_owned(), ..TargetPlan::default() };
        let mut plan = plan(target, &[OpKind::Read], 4096, 1);
        plan.workloads = of
            .iter()
            .map(|(op, kind, workers)| {
                let mut w = WorkloadPlan::simple("w", *op, ByteSize(4096));
                w.access.kind = *kind;
                w.workers = *workers;
                w.passes = Some(1);
                w
            })
            .collect();
        plan
    }

    #[test]
    fn only_streams_are_let_through() {
        use AccessKind::{Follow, Random, Sequential};
        use OpKind::{Read, Write};
        for (of, grows) in [
            (&[(Write, Sequential, 1)][..], true),
            (&[(Write, Follow, 1), (Read, Follow, 3)], true),
            (&[(Read, Sequential, 3)], false),
            (&[(Write, Sequential, 1), (Read, Sequential, 1)], false),
        ] {
            assert_eq!(appends(&streams(of)).unwrap(), grows, "{of:?}");
        }
        for of in [
            &[(Write, Random, 1)][..],
            &[(Write, Sequential, 2)],
            &[(Write, Sequential, 1), (Write, Sequential, 1)],
        ] {
            assert!(appends(&streams(of)).is_err(), "{of:?}");
        }
        let mut mixed = streams(&[(Write, Sequential, 1)]);
        let read = taillight_core::plan::MixPart { op: Read, weight: 1 };
        mixed.workloads[0].mix.push(read);
        assert!(appends(&mixed).is_err());
    }

    #[test]
    fn a_writer_ends_at_the_end_of_the_data() {
        let writer = |passes, operations, bytes: Option<u64>, warmup| {
            let mut plan = streams(&[(OpKind::Write, AccessKind::Sequential, 1)]);
            plan.target.size = Some(ByteSize(10 * 4096));
            plan.workloads[0].passes = passes;
            plan.run.operations = operations;
            plan.run.bytes = bytes.map(ByteSize);
            plan.run.warmup.0 = warmup;
            appends(&plan)
        };
        for (passes, operations, bytes, warmup, fine) in [
            (Some(1), None, None, 1, true),
            (Some(1), Some(100), None, 0, true),
            (Some(2), None, None, 0, false),
            (None, None, None, 0, false),
            (None, Some(10), None, 0, true),
            (None, Some(11), None, 0, false),
            (None, Some(10), None, 1, false),
            (None, None, Some(9 * 4096 + 1), 0, true),
            (Some(3), None, Some(10 * 4096 + 1), 0, false),
        ] {
            let given = (passes, operations, bytes, warmup);
            match writer(passes, operations, bytes, warmup) {
                Ok(_) => assert!(fine, "{given:?}"),
                Err(e) => assert!(!fine && e.to_string().contains("would begin again"), "{e}"),
            }
        }
        let mut plan = streams(&[(OpKind::Write, AccessKind::Follow, 1)]);
        plan.workloads[0].passes = None;
        FileStream.defaults(&mut plan.workloads[0]);
        assert_eq!(plan.workloads[0].passes, Some(1));
    }
}
