//! The columns of `ios.parquet`: one list of names, types and places.

use std::sync::{Arc, LazyLock};

use parquet::schema::types::{SchemaDescriptor, TypePtr};
use taillight_core::{Error, Result};

use crate::table;

/// A set of columns to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnSet(u32);

macro_rules! columns {
    ($($name:ident = $before:literal, $column:literal, $after:literal;)*) => {
        /// Places of the columns in the file's schema.
        #[expect(clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        enum ColumnPlace { $($name),* }

        $(pub(super) const $name: usize = ColumnPlace::$name as usize;)*

        /// Names, in file order; the constants above index this.
        pub(super) const NAMES: &[&str] = &[$($column),*];

        const TEXT: &str = concat!(
            "message ios { ", $($before, " ", $column, " ", $after, "; ",)* "}"
        );

        impl ColumnSet {
            $(
                #[doc = concat!("`", $column, "`.")]
                pub const $name: ColumnSet = ColumnSet(1 << ColumnPlace::$name as usize);
            )*
        }
    };
}
columns! {
    PHASE = "required binary", "phase", "(STRING)";
    WORKLOAD = "required int32", "workload", "(INTEGER(16,false))";
    WORKER = "required int32", "worker", "(INTEGER(16,false))";
    OP = "required binary", "op", "(STRING)";
    TARGET = "required int32", "target", "(INTEGER(16,false))";
    OFFSET = "optional int64", "offset", "";
    KEY = "optional int64", "key", "";
    SIZE = "required int64", "size", "(INTEGER(64,false))";
    MOVED = "optional int64", "moved", "(INTEGER(64,false))";
    COUNT = "optional int32", "count", "(INTEGER(32,false))";
    INTENDED = "optional int64", "intended_ns", "";
    ORIGIN = "optional int64", "origin_ns", "";
    SUBMIT = "required int64", "submit_ns", "";
    ISSUED = "optional int64", "issued_ns", "";
    FIRST = "optional int64", "first_ns", "";
    COMPLETE = "required int64", "complete_ns", "";
    SYNC = "optional int64", "sync_ns", "";
    RETRIES = "optional int32", "retries", "(INTEGER(16,false))";
    STATUS = "required int32", "status", "";
}

impl ColumnSet {
    /// Every column.
    pub const ALL: ColumnSet = ColumnSet((1 << NAMES.len()) - 1);

    /// Whether all of `other` are in `self`.
    pub fn has(self, other: ColumnSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// Places of its columns, in file order.
    pub(super) fn places(self) -> impl Iterator<Item = usize> {
        (0..NAMES.len()).filter(move |place| self.0 >> place & 1 == 1)
    }
}

impl std::ops::BitOr for ColumnSet {
    type Output = ColumnSet;
    fn bitor(self, other: ColumnSet) -> ColumnSet {
        ColumnSet(self.0 | other.0)
    }
}

pub(super) fn schema() -> Result<TypePtr> {
    table::schema(TEXT)
}

/// The schema that files are compared with. Columns that are optional in it may be absent from a
/// file of this version.
pub(super) fn descriptor() -> Result<&'static SchemaDescriptor> {
    static KNOWN: LazyLock<Option<Arc<SchemaDescriptor>>> =
        LazyLock::new(|| Some(Arc::new(SchemaDescriptor::new(schema().ok()?))));
    KNOWN.as_deref().ok_or_else(|| Error::internal("bad Parquet schema"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_names_and_schema_agree() {
        let known = descriptor().unwrap();
        assert_eq!(known.num_columns(), NAMES.len());
        for (i, name) in NAMES.iter().enumerate() {
            assert_eq!(known.column(i).name(), *name);
        }
        assert_eq!((NAMES[COMPLETE], NAMES[STATUS]), ("complete_ns", "status"));
        assert_eq!(ColumnSet::ALL.places().count(), 19);
        let two = ColumnSet::PHASE | ColumnSet::STATUS;
        assert_eq!(two.places().collect::<Vec<_>>(), [PHASE, STATUS]);
        assert!(ColumnSet::ALL.has(two) && !two.has(ColumnSet::ALL));
    }
}
