//! Several targets of one suite (`[[targets]]`, several `--path` or several `--target`): all of its phases
//! run on one after another, under one report. The coordinate of a point that says its target is called
//! `target`.

use taillight_core::{Error, Result};
use toml::Value;

use super::SuiteRequest;
use super::matrix::MatrixSuite;
use crate::host::Assignment;

/// The coordinate of a point that says its target, where there are several.
pub const TARGET: &str = "target";

/// One target of several.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SuiteTarget {
    pub name: String,
    /// What makes it, as assignments to fields of the job.
    pub set: Vec<Assignment>,
}

/// The targets of several flags, else those of the file unless a flag names one; empty where there are neither.
/// Errors: `Usage` for several by both kinds of flags, for targets without a name, or with the same one.
pub(super) fn targets(suite: &MatrixSuite, request: &SuiteRequest) -> Result<Vec<SuiteTarget>> {
    let mut all: Vec<SuiteTarget> = request.several_targets()?;
    if all.is_empty() && request.targets.is_empty() && request.paths.is_empty() {
        all = suite.targets.iter().map(|t| written(t, &suite.file)).collect::<Result<_>>()?;
    }
    for (at, target) in all.iter().enumerate() {
        if all[..at].iter().any(|other| other.name == target.name) {
            return Err(Error::usage("two targets of the suite have the same name")
                .with("name", &target.name)
                .hint("each needs one of its own"));
        }
    }
    Ok(all)
}

/// A target of the file: its name, and fields of `[target]`.
fn written(table: &toml::Table, file: &str) -> Result<SuiteTarget> {
    let Some(name) = table.get("name").and_then(Value::as_str).filter(|n| !n.is_empty()) else {
        return Err(Error::usage("a target of the suite has no name")
            .with("at", format!("{file}: targets"))
            .hint("write [[targets]] with name = \"...\" and fields of [target], like path"));
    };
    let mut set = Vec::new();
    fields(TARGET, table, &mut |path, value| {
        if path != "target.name" {
            set.push(Assignment::new(format!("{file}: targets.{name}"), format!("{path}={value}")));
        }
    });
    Ok(SuiteTarget { name: name.to_owned(), set })
}

/// Every value of a table with its dotted path. Options are changed one by one.
fn fields(path: &str, table: &toml::Table, add: &mut dyn FnMut(String, &Value)) {
    for (key, value) in table {
        let path = format!("{path}.{key}");
        match value {
            Value::Table(inner) if path == "target.options" => fields(&path, inner, add),
            value => add(path, value),
        }
    }
}

/// Every phase on each target in turn.
pub(super) fn repeat_phases(suite: &mut MatrixSuite, targets: &[SuiteTarget]) {
    if targets.is_empty() {
        return;
    }
    let phases = std::mem::take(&mut suite.phases);
    for target in targets {
        let of = phases.iter().cloned();
        suite.phases.extend(of.map(|mut phase| {
            phase.target = Some(target.clone());
            phase
        }));
    }
}
