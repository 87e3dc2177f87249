//! One row of `ios.parquet` as the analysis needs it.

use taillight_core::LatencyKind;

/// One I/O. Stamps are CLOCK_MONOTONIC, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    /// Index of the workload in the plan.
    pub workload: u16,
    /// Worker over all workloads.
    pub worker: u16,
    pub target: u16,
    pub offset: Option<u64>,
    pub key: Option<u64>,
    pub size: u64,
    /// Bytes moved; none = `size`.
    pub moved: Option<u64>,
    /// Records of a batch or scan.
    pub count: Option<u32>,
    /// When the schedule wanted it.
    pub intended: Option<i64>,
    /// The writer's stamp, where there is one.
    pub origin: Option<i64>,
    pub submit: i64,
    pub issued: Option<i64>,
    /// First byte of the answer's body.
    pub first: Option<i64>,
    /// When the application saw it done.
    pub complete: i64,
    /// The sync inside it, ns.
    pub sync: Option<u64>,
    /// How it ended; 0 = well.
    pub status: i32,
}

impl Row {
    /// A latency, ns; none where the I/O has none of that kind. Never below zero.
    #[inline]
    pub fn latency(&self, kind: LatencyKind) -> Option<u64> {
        match kind {
            LatencyKind::Service => Some(self.service_ns()),
            LatencyKind::Response => self.intended.map(|at| between(at, self.complete)),
            LatencyKind::Wait => self.intended.map(|at| between(at, self.submit)),
            LatencyKind::Sync => self.sync,
            LatencyKind::EndToEnd => self.origin.map(|at| between(at, self.complete)),
            LatencyKind::BeforeIssue => self.issued.map(|at| between(self.submit, at)),
            LatencyKind::AfterIssue => self.issued.map(|at| between(at, self.complete)),
            LatencyKind::FirstByte => self.first.map(|at| between(self.submit, at)),
        }
    }
    /// Complete - submit, ns.
    #[inline]
    pub fn service_ns(&self) -> u64 {
        between(self.submit, self.complete)
    }
    /// The latency that counts, ns: response time with a schedule, else service time.
    #[inline]
    pub fn main_ns(&self) -> u64 {
        between(self.intended.unwrap_or(self.submit), self.complete)
    }
}

/// `to - from`, never below zero.
#[inline]
fn between(from: i64, to: i64) -> u64 {
    to.saturating_sub(from).max(0) as u64
}
