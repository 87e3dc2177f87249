//! What rules of the verdict share: which latency a run is judged by, whether it has one, which operations count.

use taillight_core::{LatencyKind, OpKind};
use taillight_rundir::Latency;
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::summary::{Reason, Summary, Totals};

/// Whether only outliers are known: neither a rate nor a distribution.
pub fn unmeasured(summary: &Summary) -> bool {
    unsampled(&summary.totals)
}

/// The same of one set of I/Os.
pub fn unsampled(totals: &Totals) -> bool {
    totals.latencies.service.count == 0 && totals.iops == 0.0 && totals.count > totals.errors
}

/// Whether another tool told no rate of these operations: bytes alone, or latencies alone.
pub fn untold(totals: &Totals, origin: &RunOrigin) -> bool {
    totals.iops == 0.0 && origin.imported().is_some()
}

/// The measure that counts: response with a schedule, else service.
pub fn main(totals: &Totals) -> &Latency {
    totals.latencies.main()
}

/// Operations by kind: all but the parts of read-modify-writes, which totals do not add.
pub fn whole_ops(summary: &Summary) -> impl Iterator<Item = (&OpKind, &Totals)> {
    summary.ops.iter().filter(|(op, _)| !op.is_part())
}

/// What [`asked_for`] calls the time from a writer's stamp.
pub const END_TO_END: &str = "end to end";

/// The measure the run was made for, and its name: the time from the writer's stamp where readers
/// follow writers, else that of `main`.
pub fn asked_for(totals: &Totals) -> (&Latency, &'static str) {
    let known = &totals.latencies;
    match (known.get(LatencyKind::EndToEnd), known.get(LatencyKind::Response)) {
        (Some(latency), _) => (latency, END_TO_END),
        (_, Some(latency)) => (latency, "response"),
        _ => (&totals.latencies.service, "latency"),
    }
}

pub fn reason(code: &str, text: impl Into<String>) -> Reason {
    Reason { code: code.to_owned(), text: text.into() }
}
