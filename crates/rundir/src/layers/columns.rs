//! The columns of `layers.parquet`.

use taillight_core::OpKind;

use super::{LayerKind, LayerRow};
use crate::columns::{Columns, Int64, Name, Named, Nanos, Nullable, UInt64, Utf8, columns};

impl Named for LayerKind {
    fn name(self) -> &'static str {
        LayerKind::name(self)
    }
    fn from_name(name: &str) -> Option<LayerKind> {
        LayerKind::from_name(name)
    }
}

/// Every column, in file order.
pub(super) const COLUMNS: Columns<LayerRow> = columns!(LayerRow {
    kind: Name<LayerKind>,
    start_ns: Int64,
    end_ns: Int64,
    worker: Nullable<UInt64>,
    op: Nullable<Name<OpKind>>,
    offset: Nullable<UInt64>,
    size: Nullable<UInt64>,
    flags: Nullable<UInt64>,
    dev: Nullable<Utf8<Box<str>>>,
    sector: Nullable<UInt64>,
    bios: Nullable<UInt64>,
    parts: Nullable<UInt64>,
    enter_ns: Nullable<Int64>,
    bio_ns: Nullable<Int64>,
    bio_last_ns: Nullable<Int64>,
    held_ns: Nullable<Int64>,
    alloc_ns: Nullable<Int64>,
    insert_ns: Nullable<Int64>,
    issue_ns: Nullable<Int64>,
    requeue_ns: Nullable<Int64>,
    done_ns: Nullable<Int64>,
    cqe_ns: Nullable<Int64>,
    wake_ns: Nullable<Int64>,
    run_ns: Nullable<Int64>,
    low_dev: Nullable<Utf8<Box<str>>>,
    low_bio_ns: Nullable<Int64>,
    low_alloc_ns: Nullable<Int64>,
    low_issue_ns: Nullable<Int64>,
    low_done_ns: Nullable<Int64>,
    blocked_ns: Nullable<Nanos>,
    waited_ns: Nullable<Nanos>,
    robbed_ns: Nullable<Nanos>,
    middle_ns: Nullable<Int64>,
    state: Nullable<UInt64>,
    pid: Nullable<UInt64>,
    comm: Nullable<Utf8<Box<str>>>,
    other: Nullable<Utf8<Box<str>>>,
    stack: Nullable<Utf8<Box<str>>>,
    token: Nullable<UInt64>,
    punt_ns: Nullable<Int64>,
    served_ns: Nullable<Int64>,
    answered_ns: Nullable<Int64>,
    waker: Nullable<UInt64>,
    on_cpu_ns: Nullable<Nanos>,
    voluntary: Nullable<UInt64>,
    involuntary: Nullable<UInt64>,
    rounds: Nullable<UInt64>,
    sync_punt_ns: Nullable<Int64>,
});
