//! One row of `ios.parquet` as the analysis needs it.

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
