//! Checks the targets of a run: their names, one driver for all, and what only a run with one target can do.

use std::collections::BTreeMap;

use super::{Checked, ensure, name};
use crate::capability::Capabilities;
use crate::plan::{AccessKind, Plan};

/// What the driver can do with the options of each target.
pub(in crate::job) struct TargetCapabilities {
    /// With the options of `[target]`.
    pub own: Capabilities,
    /// With those of each target of `[targets]`, by its name.
    pub named: BTreeMap<String, Capabilities>,
}

impl TargetCapabilities {
    /// Capabilities for the target with this name; for `[target]` without a name, or with an unknown one.
    pub fn of(&self, target: Option<&str>) -> &Capabilities {
        target.and_then(|name| self.named.get(name)).unwrap_or(&self.own)
    }
}

/// Checks that workloads name targets that are there, and that the targets of a plan can be driven together.
pub(super) fn targets(plan: &Plan, can: &TargetCapabilities) -> Checked {
    for (i, w) in plan.workloads.iter().enumerate() {
        let known: Vec<&str> = plan.targets.keys().map(String::as_str).collect();
        let named = w.target.as_deref().unwrap_or_default();
        ensure(
            w.target.as_ref().is_none_or(|name| plan.targets.contains_key(name)),
            &format!("workload.{i}.target"),
            format!("there is no [targets.{named}]"),
            match known.is_empty() {
                true => "write such a table, or leave target out for [target]".to_owned(),
                false => format!("name one of: {}; or leave it out for [target]", known.join(", ")),
            },
        )?;
    }
    if plan.targets.is_empty() {
        return Ok(());
    }
    for (own, target) in plan.all_targets() {
        let path = own.map_or("target".to_owned(), |own| format!("targets.{own}"));
        own.map_or(Ok(()), |own| name(own, &path))?;
        ensure(
            plan.workloads.iter().any(|w| w.target.as_deref() == own),
            &path,
            "no workload drives it",
            "give a workload this target, or leave the target out",
        )?;
        ensure(
            target.driver == plan.target.driver,
            &format!("{path}.driver"),
            format!("`{}` beside `{}`: a run has one driver", target.driver, plan.target.driver),
            "use one run for each driver",
        )?;
        ensure(
            target.path.is_some() || !can.of(own).stores_data,
            &format!("{path}.path"),
            "it has no path",
            "say which file, directory or device it is",
        )?;
    }
    one_only(plan, can)
}

/// Refuses what a run with several targets cannot do.
fn one_only(plan: &Plan, can: &TargetCapabilities) -> Checked {
    let one = "use one target, or one run for each";
    let driver = &plan.target.driver;
    ensure(
        !can.own.keyed() && !can.own.virtual_time,
        "targets",
        format!("driver `{driver}` drives one target in a run"),
        one,
    )?;
    ensure(
        plan.verify.run.is_none(),
        "verify.run",
        "the blocks of an earlier run are looked for on one target",
        one,
    )?;
    ensure(
        !plan.is_series(),
        if plan.search.is_some() { "search" } else { "run.repeat" },
        "a series has one target",
        one,
    )?;
    let follows = plan.workloads.iter().position(|w| w.access.kind == AccessKind::Follow);
    ensure(
        follows.is_none(),
        &format!("workload.{}.access", follows.unwrap_or(0)),
        "a stream has one target",
        one,
    )
}
