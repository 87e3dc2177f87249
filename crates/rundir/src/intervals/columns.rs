//! The columns of `intervals.parquet`.

use taillight_core::OpKind;

use super::IntervalRow as Row;
use crate::columns::{Access, Column, column};

/// Every column, in file order.
pub(super) const COLUMNS: &[Column<Row>] = &[
    column!(start_ns, I64),
    Column {
        name: "length_ns",
        access: Access::I64(|r| r.length_ns as i64, |r, v| r.length_ns = v.max(0) as u64),
    },
    Column {
        name: "phase",
        access: Access::Text(
            |r| &r.phase,
            |r, t| {
                t.clone_into(&mut r.phase);
                true
            },
        ),
    },
    column!(workload, U16),
    Column {
        name: "op",
        access: Access::Text(
            |r| r.op.name(),
            |r, t| OpKind::from_name(t).map(|op| r.op = op).is_some(),
        ),
    },
    column!(ops, U64),
    column!(bytes, U64),
    column!(errors, U64),
    column!(min_ns, OptNs),
    column!(mean_ns, OptF64),
    column!(max_ns, OptNs),
    column!(p10_ns, OptNs),
    column!(p25_ns, OptNs),
    column!(p50_ns, OptNs),
    column!(p75_ns, OptNs),
    column!(p90_ns, OptNs),
    column!(p95_ns, OptNs),
    column!(p99_ns, OptNs),
    column!(p999_ns, OptNs),
    column!(p9999_ns, OptNs),
    column!(response_p99_ns, OptNs),
    column!(slc1, OptF64),
    column!(slc2, OptF64),
    column!(backlog, OptU64),
    column!(depth_mean, F64),
    column!(records, OptU64),
];
