//! The targets of a plan: each is looked at, opened and checked by itself, then all are driven as one. Also which
//! confirmation (`--destroy`) is meant for which target.

use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use taillight_core::job::{check_extents, check_ledger};
use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::progress::Progress;
use taillight_core::{Error, Result, StopFlag};
use taillight_driver::identity::device::{BlockExtent, BlockStack};
use taillight_driver::targets::OpenTargets;
use taillight_driver::{BoundDriver, Geometry, OpenSpec, Target, bind};
use taillight_machine::Sys;
use taillight_machine::loops::{self, ActiveLoop};
use taillight_trace::memory_budget;

/// What opening the targets of a plan needs.
#[derive(Clone, Copy)]
pub struct TargetsRequest<'a> {
    pub plan: &'a Plan,
    /// Id of the run; empty where none begins.
    pub run_id: &'a str,
    /// The targets that may be overwritten, as the command line names them.
    pub destroy: &'a [String],
    pub stop: &'a StopFlag,
}

/// The confirmation that is meant for a target of a plan: the one with its name. Where there is one target only, else
/// the first, which the guard then compares.
pub fn confirmed<'a>(destroy: &'a [String], plan: &Plan, target: &TargetPlan) -> Option<&'a str> {
    let path = target.path.as_deref().unwrap_or_default();
    let own = destroy.iter().find(|name| is_path(name, path));
    own.or(destroy.first().filter(|_| plan.targets.is_empty())).map(String::as_str)
}

fn is_path(name: &str, path: &str) -> bool {
    let real = |path: &str| std::fs::canonicalize(path).ok();
    name == path || real(name).is_some_and(|r| Some(r) == real(path))
}

/// An error of a driver, which knows of one target only, about the one with this name.
fn of_target(e: Error, name: Option<&str>) -> Error {
    let Some(name) = name else { return e };
    let table = format!("[targets.{name}]");
    let hint = e.hint_text().map(|hint| {
        let hint = hint.replace("[target]", &table);
        hint.replace("--set target.destroy", &format!("--set targets.{name}.destroy"))
    });
    e.with("of", table).hint_some(hint)
}

/// Whether each of several confirmations names a target of these plans. Errors: `Usage`.
pub fn check_named<'a>(destroy: &[String], plans: impl Iterator<Item = &'a Plan>) -> Result<()> {
    // Ranks confirm identities, which each of them looks at.
    if crate::ranks::several() {
        return Ok(());
    }
    let paths = plans.flat_map(|plan| plan.all_targets().filter_map(|(_, t)| t.path.as_deref()));
    let paths: Vec<&str> = paths.collect();
    let unknown = |name: &&String| !paths.iter().any(|path| is_path(name, path));
    match destroy.iter().find(unknown).filter(|_| destroy.len() > 1) {
        Some(name) => Err(Error::usage("--destroy names no target of this run")
            .with("--destroy", name)
            .hint(format!("its targets are: {}", paths.join(", ")))),
        None => Ok(()),
    }
}

impl TargetsRequest<'_> {
    /// What the driver would refuse as things stand, of any target; nothing is changed. Errors: as
    /// [`BoundDriver::check`]; `Usage` where two targets are the same.
    pub fn check(&self) -> Result<()> {
        self.apart()?;
        self.each(|driver, spec| driver.check(spec))
    }

    /// Passes the guard of every target, then opens one after the other. Nothing is laid out on the first while
    /// another one is refused. Errors: as [`BoundDriver::open`]; those that were open are closed.
    pub fn open(&self, progress: &mut dyn FnMut(Progress<'_>) -> bool) -> Result<Box<dyn Target>> {
        if !self.plan.targets.is_empty() {
            let looked = TargetsRequest { run_id: "", ..*self };
            looked.check()?;
        }
        let mut opened: Vec<Box<dyn Target>> = Vec::new();
        let all = self.each(|driver, spec| {
            let target = driver.open(spec, &mut |p| progress(p))?;
            match (spec.fits)(target.geometry()) {
                Ok(()) => opened.push(target),
                Err(e) => {
                    // The reason matters more than how closing went.
                    let _ = target.close();
                    return Err(e);
                }
            }
            Ok(())
        });
        match all {
            Ok(()) => OpenTargets::of(self.plan, opened),
            Err(e) => {
                opened.into_iter().for_each(|target| drop(target.close()));
                Err(e)
            }
        }
    }

    /// Calls `with` for each target, with its part of the plan; the first error ends it.
    fn each(
        &self,
        mut with: impl FnMut(&dyn BoundDriver, &OpenSpec<'_>) -> Result<()>,
    ) -> Result<()> {
        let plan = self.plan;
        for (name, target) in plan.all_targets() {
            let part = plan.for_target(name);
            let destroy = confirmed(self.destroy, plan, target);
            let fits = |shape: Geometry| {
                check_extents(plan, name, shape.size(), shape.align)?;
                check_ledger(&part, shape.size(), memory_budget::read(&Sys::default())?)
            };
            let (run_id, stop) = (self.run_id, self.stop);
            let spec = OpenSpec { plan: &part, run_id, destroy, stop, fits: &fits };
            bind(target)
                .and_then(|driver| with(driver.as_ref(), &spec))
                .map_err(|e| of_target(e, name))?;
        }
        Ok(())
    }

    /// Checks that no two targets are the same or hold each other, whatever they are called. Errors: `Usage`.
    fn apart(&self) -> Result<()> {
        let targets = self.plan.all_targets().enumerate();
        let paths =
            targets.flat_map(|(n, (_, target))| paths(target).into_iter().map(move |p| (n, p)));
        let sys = Sys::default();
        // Where loop devices cannot be known, the guard of each target refuses.
        let loops = loops::active(&sys).unwrap_or_default();
        let places: Vec<(usize, TargetPlace)> =
            paths.map(|(n, path)| (n, TargetPlace::of(&path, &sys, &loops))).collect();
        for (i, (n, place)) in places.iter().enumerate() {
            if places[..i].iter().any(|(other, before)| other != n && before.overlaps(place)) {
                return Err(Error::usage(
                    "two targets of the run are the same, or one holds the other",
                )
                .with("path", place.named.display())
                .hint("let the workloads share one target, or use files that are apart"));
            }
        }
        Ok(())
    }
}

/// The path of a target, or those of its files where they have names of their own.
fn paths(target: &TargetPlan) -> Vec<String> {
    let Some(path) = &target.path else { return Vec::new() };
    let names = target.options.get("names").and_then(|names| names.as_array());
    let names = names.into_iter().flatten().filter_map(|name| name.as_str());
    let files: Vec<String> = names.map(|name| format!("{path}/{name}")).collect();
    if files.is_empty() { vec![path.clone()] } else { files }
}

/// Where a target lies, as far as it exists.
struct TargetPlace {
    named: PathBuf,
    /// Links resolved.
    real: PathBuf,
    /// What the file or device is made of, down to the bottom; nothing where it is not there yet.
    blocks: Vec<BlockExtent>,
}

impl TargetPlace {
    fn of(path: &str, sys: &Sys, loops: &[ActiveLoop]) -> TargetPlace {
        let found: Vec<Stat> = rustix::fs::stat(path).into_iter().collect();
        let blocks = BlockStack::of(sys, &found, loops).extents;
        TargetPlace { named: path.into(), real: super::directory::real(Path::new(path)), blocks }
    }

    /// Whether the same bytes may be in both.
    fn overlaps(&self, other: &TargetPlace) -> bool {
        let same = |block: &BlockExtent| other.blocks.iter().any(|b| b.overlaps(block));
        let within = self.real.starts_with(&other.real) || other.real.starts_with(&self.real);
        within || self.blocks.iter().any(same)
    }
}
