//! The columns of `layers.parquet`.

use taillight_core::OpKind;

use super::{LayerKind, LayerRow as Row};
use crate::columns::{Access, Column, column};

/// Every column, in file order.
pub(super) const COLUMNS: &[Column<Row>] = &[
    Column {
        name: "kind",
        access: Access::Text(
            |r| r.kind.name(),
            |r, t| LayerKind::from_name(t).map(|kind| r.kind = kind).is_some(),
        ),
    },
    column!(start_ns, I64),
    column!(end_ns, I64),
    column!(worker, OptU64),
    Column {
        name: "op",
        access: Access::OptText(
            |r| r.op.map(OpKind::name),
            |r, t| r.op = OpKind::from_name(t),
        ),
    },
    column!(offset, OptU64),
    column!(size, OptU64),
    column!(flags, OptU64),
    column!(dev, OptText),
    column!(sector, OptU64),
    column!(bios, OptU64),
    column!(parts, OptU64),
    column!(enter_ns, OptI64),
    column!(bio_ns, OptI64),
    column!(bio_last_ns, OptI64),
    column!(held_ns, OptI64),
    column!(alloc_ns, OptI64),
    column!(insert_ns, OptI64),
    column!(issue_ns, OptI64),
    column!(requeue_ns, OptI64),
    column!(done_ns, OptI64),
    column!(cqe_ns, OptI64),
    column!(wake_ns, OptI64),
    column!(run_ns, OptI64),
    column!(low_dev, OptText),
    column!(low_bio_ns, OptI64),
    column!(low_alloc_ns, OptI64),
    column!(low_issue_ns, OptI64),
    column!(low_done_ns, OptI64),
    column!(blocked_ns, OptNs),
    column!(waited_ns, OptNs),
    column!(robbed_ns, OptNs),
    column!(middle_ns, OptI64),
    column!(state, OptU64),
    column!(pid, OptU64),
    column!(comm, OptText),
    column!(other, OptText),
    column!(stack, OptText),
    column!(token, OptU64),
    column!(punt_ns, OptI64),
    column!(served_ns, OptI64),
    column!(answered_ns, OptI64),
    column!(waker, OptU64),
    column!(on_cpu_ns, OptNs),
    column!(voluntary, OptU64),
    column!(involuntary, OptU64),
    column!(rounds, OptU64),
    column!(sync_punt_ns, OptI64),
];
