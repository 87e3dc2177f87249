//! What is kept of each traced I/O, slow or not: the usual times and the stacked picture are made of it, and there are
//! too many for their time lines.

use taillight_core::OpKind;

use crate::phase::Phases;

/// A traced I/O, reduced to its phases and to what slow ones may have in common.
#[derive(Debug, Clone, Copy)]
pub struct PhasedIo {
    pub op: OpKind,
    /// Complete - submit, ns.
    pub service_ns: u64,
    /// Of the random sample, which is taken without regard to latency.
    pub sample: bool,
    /// It had block I/O of its own.
    pub block: bool,
    /// Where it was, bytes; none of those that are nowhere.
    pub place: Option<u64>,
    /// How long after a flush of its disk it began, ns.
    pub after_flush_ns: Option<i64>,
    /// Where the time went.
    pub phases: Phases,
}
