//! Several opened targets as one: each workload has its sessions on the target that it names.
//!
//! The drivers know nothing of it: each opened its own part of the plan ([`Plan::for_target`]).

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use taillight_core::plan::Plan;
use taillight_core::samples::{SampleDisplay, target_prefix};
use taillight_core::witness::WitnessCount;
use taillight_core::{Error, OpKind, Result};
use taillight_machine::block;

use crate::contract::{
    AdminAction, Geometry, Session, SessionSpec, Target, TargetBridge, TargetPause,
};
use crate::registry::bind;

/// How the samples of all targets of a plan are shown. Errors: as [`bind`].
pub fn sample_display(plan: &Plan) -> Result<SampleDisplay> {
    let mut all = SampleDisplay::default();
    for (name, target) in plan.all_targets() {
        let own = bind(target)?.samples();
        let own = match name {
            Some(name) => own.named(name, &target_prefix(name)),
            None => own,
        };
        all.panels.extend(own.panels);
        all.phrases.extend(own.phrases);
    }
    Ok(all)
}

/// The opened targets of a plan, addressed by offset on real time: it has neither `keyed` nor `virtual_time`.
pub struct OpenTargets {
    /// In the order of [`Plan::all_targets`].
    targets: Vec<TargetPart>,
    /// The place of each workload of the plan.
    places: Vec<WorkloadPlace>,
}

struct TargetPart {
    name: Option<String>,
    path: Option<PathBuf>,
    target: Box<dyn Target>,
}

/// Where a workload is: its target, and its number among the workloads of that target.
#[derive(Clone, Copy)]
struct WorkloadPlace {
    target: usize,
    workload: u16,
}

impl OpenTargets {
    /// The targets of `plan` as one; `opened` has one for each of [`Plan::all_targets`], in that order.
    /// The only one of a plan comes back as it is. Errors: `Internal` when one is missing.
    pub fn of(plan: &Plan, opened: Vec<Box<dyn Target>>) -> Result<Box<dyn Target>> {
        let named = plan.all_targets().zip(opened).map(|((name, of), target)| TargetPart {
            name: name.map(str::to_owned),
            path: of.path.as_deref().and_then(block::local).map(PathBuf::from),
            target,
        });
        let mut targets: Vec<TargetPart> = named.collect();
        let missing = || Error::internal("a target of the plan was not opened");
        if targets.len() != plan.targets.len() + 1 {
            return Err(missing());
        }
        if plan.targets.is_empty() {
            return targets.pop().map(|only| only.target).ok_or_else(missing);
        }
        let mut counts = vec![0; targets.len()];
        let mut places = Vec::with_capacity(plan.workloads.len());
        for w in &plan.workloads {
            let target = targets.iter().position(|t| t.name == w.target).ok_or_else(missing)?;
            places.push(WorkloadPlace { target, workload: counts[target] });
            counts[target] += 1;
        }
        Ok(Box::new(OpenTargets { targets, places }))
    }

    fn facts_of(&self, of: fn(&dyn Target) -> Vec<(String, String)>) -> Vec<(String, String)> {
        let facts = self.targets.iter().flat_map(|t| {
            let prefix = t.name.as_ref().map_or(String::new(), |name| format!("targets.{name}."));
            of(&*t.target).into_iter().map(move |(name, value)| (format!("{prefix}{name}"), value))
        });
        facts.collect()
    }
}

impl Target for OpenTargets {
    /// The process of the first target that has one.
    fn server_process(&self) -> Option<u32> {
        self.targets.iter().find_map(|open| open.target.server_process())
    }

    fn geometry(&self) -> Geometry {
        self.geometry_of(0)
    }

    fn geometry_of(&self, workload: usize) -> Geometry {
        let place = self.places.get(workload).map_or(0, |place| place.target);
        self.targets[place].target.geometry()
    }

    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let place = self.places.get(usize::from(spec.workload));
        let place = place.ok_or_else(|| Error::internal("a session of no workload"))?;
        let spec = SessionSpec { workload: place.workload, ..*spec };
        self.targets[place.target].target.session(&spec)
    }

    /// Those of all targets, each with the name of its own.
    fn bridges(&self, geometry: Geometry) -> Vec<TargetBridge> {
        let of = |t: &TargetPart| {
            let name = t.name.as_ref().map_or(String::new(), |name| format!(" (targets.{name})"));
            let bridges = t.target.bridges(geometry).into_iter();
            bridges.map(move |it| TargetBridge { carries: format!("{}{name}", it.carries), ..it })
        };
        self.targets.iter().flat_map(of).collect()
    }

    /// Of all of them, or none: a worker's table is made before it is known which target it drives.
    fn descriptors(&self, workers: usize) -> Option<Vec<BorrowedFd<'_>>> {
        let each = self.targets.iter().map(|t| t.target.descriptors(workers));
        each.collect::<Option<Vec<_>>>().map(|all| all.concat())
    }

    fn admin(&self, action: AdminAction) -> Result<()> {
        self.targets.iter().try_for_each(|t| t.target.admin(action))
    }

    fn facts(&self) -> Vec<(String, String)> {
        self.facts_of(|target| target.facts())
    }

    fn notes(&self) -> Vec<String> {
        self.targets.iter().flat_map(|t| t.target.notes()).collect()
    }

    fn session_facts(&self) -> Vec<(String, String)> {
        self.facts_of(|target| target.session_facts())
    }

    fn end_facts(&self) -> Vec<(String, String)> {
        self.facts_of(|target| target.end_facts())
    }

    fn is_back(&self) -> bool {
        self.targets.iter().all(|t| t.target.is_back())
    }

    /// A session of a target without such times shows none.
    fn inner_kinds(&self) -> &'static [OpKind] {
        let all = self.targets.iter().map(|t| t.target.inner_kinds());
        all.max_by_key(|kinds| kinds.len()).unwrap_or(&[])
    }

    fn pauses(&self) -> Option<Vec<TargetPause>> {
        let pauses = self.targets.iter().filter_map(|t| t.target.pauses());
        pauses.reduce(|mut all, more| {
            // Targets in one virtual machine stop together.
            all.extend(more);
            all.sort_by(|a, b| {
                (a.end_ns, a.start_ns, &a.what).cmp(&(b.end_ns, b.start_ns, &b.what))
            });
            all.dedup();
            all
        })
    }

    /// The paths of the named targets, and what each target has beside its path.
    fn auxiliary_dirs(&self) -> Vec<PathBuf> {
        let named = self.targets.iter().filter(|t| t.name.is_some());
        let paths = named.filter_map(|t| t.path.clone());
        paths.chain(self.targets.iter().flat_map(|t| t.target.auxiliary_dirs())).collect()
    }

    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        for t in &self.targets {
            match &t.name {
                None => t.target.sample(out),
                Some(name) => t.target.sample(&mut |series, value| {
                    out(&format!("{}{series}", target_prefix(name)), value);
                }),
            }
        }
    }

    /// What two targets share, such as a disk, is one counter that the workloads of both raise.
    fn witness(&self) -> Vec<WitnessCount> {
        let mut all: Vec<WitnessCount> = Vec::new();
        for (number, t) in self.targets.iter().enumerate() {
            let places = (0u16..).zip(&self.places).filter(|(_, place)| place.target == number);
            let workloads: Vec<u16> = places.map(|(workload, _)| workload).collect();
            for count in t.target.witness() {
                let same = |it: &&mut WitnessCount| {
                    (&it.source, it.unit, &it.ops) == (&count.source, count.unit, &count.ops)
                };
                match all.iter_mut().find(same) {
                    Some(it) => {
                        it.workloads.get_or_insert_default().extend(&workloads);
                        (it.less, it.more) = (it.less.or(count.less), it.more.or(count.more));
                    }
                    None => all.push(WitnessCount { workloads: Some(workloads.clone()), ..count }),
                }
            }
        }
        all
    }

    fn close(self: Box<Self>) -> Result<()> {
        let closed: Vec<Result<()>> = self.targets.into_iter().map(|t| t.target.close()).collect();
        closed.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct BridgedTarget;

    impl Target for BridgedTarget {
        fn geometry(&self) -> Geometry {
            Geometry::keyed()
        }
        fn session(&self, _: &SessionSpec) -> Result<Box<dyn Session>> {
            Err(Error::internal("nobody asks for one"))
        }
        fn bridges(&self, _: Geometry) -> Vec<TargetBridge> {
            let open = || -> Box<dyn Target> { Box::new(BridgedTarget) };
            vec![TargetBridge { open: Box::new(open), carries: ", of blocks".to_owned() }]
        }
        fn admin(&self, _: AdminAction) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_bridge_says_to_which_target_it_leads() {
        let part = |name: Option<&str>| TargetPart {
            name: name.map(str::to_owned),
            path: None,
            target: Box::new(BridgedTarget),
        };
        let all = OpenTargets { targets: vec![part(None), part(Some("log"))], places: Vec::new() };
        let bridges = all.bridges(Geometry::keyed()).into_iter();
        let carried: Vec<String> = bridges.map(|it| it.carries).collect();
        assert_eq!(carried, [", of blocks", ", of blocks (targets.log)"]);
    }
}
