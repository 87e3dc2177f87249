//! The columns of `ios.parquet`, by index, and the schema text they stand in.

use parquet::schema::types::TypePtr;
use taillight_core::Result;

use crate::table;

pub(super) const PHASE: usize = 0;
pub(super) const WORKLOAD: usize = 1;
pub(super) const WORKER: usize = 2;
pub(super) const OP: usize = 3;
pub(super) const TARGET: usize = 4;
pub(super) const OFFSET: usize = 5;
pub(super) const KEY: usize = 6;
pub(super) const SIZE: usize = 7;
pub(super) const MOVED: usize = 8;
pub(super) const COUNT: usize = 9;
pub(super) const INTENDED: usize = 10;
pub(super) const ORIGIN: usize = 11;
pub(super) const SUBMIT: usize = 12;
pub(super) const ISSUED: usize = 13;
pub(super) const FIRST: usize = 14;
pub(super) const COMPLETE: usize = 15;
pub(super) const SYNC: usize = 16;
pub(super) const RETRIES: usize = 17;
pub(super) const STATUS: usize = 18;

/// Names, in file order; the constants above index this.
pub(super) const NAMES: [&str; 19] = [
    "phase",
    "workload",
    "worker",
    "op",
    "target",
    "offset",
    "key",
    "size",
    "moved",
    "count",
    "intended_ns",
    "origin_ns",
    "submit_ns",
    "issued_ns",
    "first_ns",
    "complete_ns",
    "sync_ns",
    "retries",
    "status",
];

const TEXT: &str = "message ios {
    required binary phase (STRING);
    required int32 workload (INTEGER(16,false));
    required int32 worker (INTEGER(16,false));
    required binary op (STRING);
    required int32 target (INTEGER(16,false));
    optional int64 offset;
    optional int64 key;
    required int64 size (INTEGER(64,false));
    optional int64 moved (INTEGER(64,false));
    optional int32 count (INTEGER(32,false));
    optional int64 intended_ns;
    optional int64 origin_ns;
    required int64 submit_ns;
    optional int64 issued_ns;
    optional int64 first_ns;
    required int64 complete_ns;
    optional int64 sync_ns;
    optional int32 retries (INTEGER(16,false));
    required int32 status;
}";

/// Whether a file of this version may lack column `index`.
pub(super) fn optional(index: usize) -> bool {
    matches!(
        index,
        OFFSET | KEY | MOVED | COUNT | INTENDED | ORIGIN | ISSUED | FIRST | SYNC | RETRIES
    )
}

pub(super) fn schema() -> Result<TypePtr> {
    table::schema(TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_names_and_schema_agree() {
        let schema = schema().unwrap();
        let fields = schema.get_fields();
        assert_eq!(fields.len(), NAMES.len());
        for (i, field) in fields.iter().enumerate() {
            assert_eq!(field.name(), NAMES[i]);
            assert_eq!(field.is_optional(), optional(i), "{}", NAMES[i]);
        }
        assert_eq!(NAMES[COMPLETE], "complete_ns");
        assert_eq!(NAMES[STATUS], "status");
    }
}
