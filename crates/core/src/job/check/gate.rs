//! Checks `[gate]`: its figures are there, each named once and of an operation that a measured workload has, and its
//! margin is between 0 and 1.

use super::{Checked, ensure};
use crate::plan::Plan;

/// Checks `[gate]`; a plan without one passes.
pub(super) fn gate(plan: &Plan) -> Checked {
    let Some(gate) = &plan.gate else {
        return Ok(());
    };
    ensure(
        !gate.figures.is_empty(),
        "gate.figures",
        "the list is empty",
        "write figures = [\"read:p99\"], or leave [gate] out",
    )?;
    ensure(
        gate.margin.is_none_or(|m| m > 0.0 && m < 1.0),
        "gate.margin",
        "it is not between 0 and 1",
        "0.05 means: a difference of up to 5 percent counts as none",
    )?;
    for (i, figure) in gate.figures.iter().enumerate() {
        let path = format!("gate.figures.{i}");
        ensure(
            !gate.figures[..i].contains(figure),
            &path,
            format!("`{figure}` stands there twice"),
            "name each figure once",
        )?;
        ensure(
            plan.has_figure(figure),
            &path,
            format!("no measured workload has the operation of `{figure}`"),
            format!("the job has {}", operations(plan)),
        )?;
    }
    Ok(())
}

/// Names of the operations of all measured workloads, for a message.
fn operations(plan: &Plan) -> String {
    let measured = plan.workloads.iter().filter(|w| w.measured);
    let mut names: Vec<&str> = measured.flat_map(|w| &w.mix).map(|part| part.op.name()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}
