//! Operations: [`Op`], what a worker asks a session to do, and [`OpKind`], the kinds with their names and properties.

use serde::{Deserialize, Serialize};

/// The kinds of operation, with their names in every output (docs/design.md, Columns).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum OpKind {
    /// Read a block.
    #[default]
    Read,
    /// Write a block.
    Write,
    /// Discard a range.
    Trim,
    /// Make earlier writes durable.
    Fsync,
    /// Read a key or object.
    Get,
    /// Write an object.
    Put,
    /// Write a new key.
    Insert,
    /// Overwrite an existing key.
    Update,
    /// Remove a key or object.
    Delete,
    /// Read a range of keys.
    Scan,
    /// Read, then update the same key.
    Rmw,
    /// Ask for an object's metadata.
    Stat,
    /// List objects.
    List,
    /// The get of a read-modify-write.
    #[serde(rename = "rmw_get")]
    RmwGet,
    /// The update of a read-modify-write.
    #[serde(rename = "rmw_update")]
    RmwUpdate,
    /// Make a file, write it, close it.
    Create,
    /// Open a file, read all of it, close it.
    #[serde(rename = "open_read_close")]
    OpenReadClose,
    /// Remove a file.
    Unlink,
    /// Give a file another name in its directory.
    Rename,
    /// Make a directory.
    Mkdir,
    /// Remove a directory.
    Rmdir,
    /// List a directory.
    Readdir,
    /// Of a program that is watched: wait for another of its threads. No job asks for it.
    Wait,
    /// TPC-B's transaction, as pgbench does it: three balances updated, one read, a row of history.
    Tpcb,
    /// One row by its key, as sysbench's `oltp_point_select`.
    #[serde(rename = "oltp_point_select")]
    OltpPointSelect,
    /// sysbench's transaction `oltp_read_write`: 14 reads, 4 writes.
    #[serde(rename = "oltp_read_write")]
    OltpReadWrite,
    /// The begin of a transaction; it and those below are statements of one.
    Begin,
    /// Of TPC-B: the account's balance changes.
    #[serde(rename = "update_accounts")]
    UpdateAccounts,
    /// Of TPC-B: the account's balance is read.
    #[serde(rename = "select_accounts")]
    SelectAccounts,
    /// Of TPC-B: the teller's balance changes.
    #[serde(rename = "update_tellers")]
    UpdateTellers,
    /// Of TPC-B: the branch's balance changes.
    #[serde(rename = "update_branches")]
    UpdateBranches,
    /// Of TPC-B: a row of history is added.
    #[serde(rename = "insert_history")]
    InsertHistory,
    /// Of sysbench: one row by its key.
    #[serde(rename = "select_point")]
    SelectPoint,
    /// Of sysbench: 100 rows in the order of their keys.
    #[serde(rename = "select_range")]
    SelectRange,
    /// Of sysbench: the sum over 100 rows.
    #[serde(rename = "select_sum")]
    SelectSum,
    /// Of sysbench: 100 rows, sorted.
    #[serde(rename = "select_order")]
    SelectOrder,
    /// Of sysbench: 100 rows, sorted, each value once.
    #[serde(rename = "select_distinct")]
    SelectDistinct,
    /// Of sysbench: a column with an index changes.
    #[serde(rename = "update_index")]
    UpdateIndex,
    /// Of sysbench: a column without an index changes.
    #[serde(rename = "update_non_index")]
    UpdateNonIndex,
    /// Of sysbench: a row goes.
    #[serde(rename = "delete_row")]
    DeleteRow,
    /// Of sysbench: the row comes back.
    #[serde(rename = "insert_row")]
    InsertRow,
    /// The commit of a transaction.
    Commit,
    /// A store's log is checked in, asked for by the run.
    Checkpoint,
    /// A store checks in its log by itself, inside another operation; this and the next are times inside operations.
    #[serde(rename = "auto_checkpoint")]
    AutoCheckpoint,
    /// An operation waits for a lock that another one holds.
    #[serde(rename = "lock_wait")]
    LockWait,
}

/// The statements of TPC-B's transaction.
const TPCB: [OpKind; 7] = [
    OpKind::Begin,
    OpKind::UpdateAccounts,
    OpKind::SelectAccounts,
    OpKind::UpdateTellers,
    OpKind::UpdateBranches,
    OpKind::InsertHistory,
    OpKind::Commit,
];

/// The statements of sysbench's `oltp_read_write` as it is by default.
const OLTP_READ_WRITE: [OpKind; 20] = [
    OpKind::Begin,
    OpKind::SelectPoint,
    OpKind::SelectPoint,
    OpKind::SelectPoint,
    OpKind::SelectPoint,
    OpKind::SelectPoint,
    OpKind::SelectPoint,
    OpKind::SelectPoint,
    OpKind::SelectPoint,
    OpKind::SelectPoint,
    OpKind::SelectPoint,
    OpKind::SelectRange,
    OpKind::SelectSum,
    OpKind::SelectOrder,
    OpKind::SelectDistinct,
    OpKind::UpdateIndex,
    OpKind::UpdateNonIndex,
    OpKind::DeleteRow,
    OpKind::InsertRow,
    OpKind::Commit,
];

impl OpKind {
    /// Every kind, in the order of their discriminants.
    pub const ALL: [OpKind; 45] = [
        OpKind::Read,
        OpKind::Write,
        OpKind::Trim,
        OpKind::Fsync,
        OpKind::Get,
        OpKind::Put,
        OpKind::Insert,
        OpKind::Update,
        OpKind::Delete,
        OpKind::Scan,
        OpKind::Rmw,
        OpKind::Stat,
        OpKind::List,
        OpKind::RmwGet,
        OpKind::RmwUpdate,
        OpKind::Create,
        OpKind::OpenReadClose,
        OpKind::Unlink,
        OpKind::Rename,
        OpKind::Mkdir,
        OpKind::Rmdir,
        OpKind::Readdir,
        OpKind::Wait,
        OpKind::Tpcb,
        OpKind::OltpPointSelect,
        OpKind::OltpReadWrite,
        OpKind::Begin,
        OpKind::UpdateAccounts,
        OpKind::SelectAccounts,
        OpKind::UpdateTellers,
        OpKind::UpdateBranches,
        OpKind::InsertHistory,
        OpKind::SelectPoint,
        OpKind::SelectRange,
        OpKind::SelectSum,
        OpKind::SelectOrder,
        OpKind::SelectDistinct,
        OpKind::UpdateIndex,
        OpKind::UpdateNonIndex,
        OpKind::DeleteRow,
        OpKind::InsertRow,
        OpKind::Commit,
        OpKind::Checkpoint,
        OpKind::AutoCheckpoint,
        OpKind::LockWait,
    ];
    /// The name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Trim => "trim",
            OpKind::Fsync => "fsync",
            OpKind::Get => "get",
            OpKind::Put => "put",
            OpKind::Insert => "insert",
            OpKind::Update => "update",
            OpKind::Delete => "delete",
            OpKind::Scan => "scan",
            OpKind::Rmw => "rmw",
            OpKind::Stat => "stat",
            OpKind::List => "list",
            OpKind::RmwGet => "rmw_get",
            OpKind::RmwUpdate => "rmw_update",
            OpKind::Create => "create",
            OpKind::OpenReadClose => "open_read_close",
            OpKind::Unlink => "unlink",
            OpKind::Rename => "rename",
            OpKind::Mkdir => "mkdir",
            OpKind::Rmdir => "rmdir",
            OpKind::Readdir => "readdir",
            OpKind::Wait => "wait",
            OpKind::Tpcb => "tpcb",
            OpKind::OltpPointSelect => "oltp_point_select",
            OpKind::OltpReadWrite => "oltp_read_write",
            OpKind::Begin => "begin",
            OpKind::UpdateAccounts => "update_accounts",
            OpKind::SelectAccounts => "select_accounts",
            OpKind::UpdateTellers => "update_tellers",
            OpKind::UpdateBranches => "update_branches",
            OpKind::InsertHistory => "insert_history",
            OpKind::SelectPoint => "select_point",
            OpKind::SelectRange => "select_range",
            OpKind::SelectSum => "select_sum",
            OpKind::SelectOrder => "select_order",
            OpKind::SelectDistinct => "select_distinct",
            OpKind::UpdateIndex => "update_index",
            OpKind::UpdateNonIndex => "update_non_index",
            OpKind::DeleteRow => "delete_row",
            OpKind::InsertRow => "insert_row",
            OpKind::Commit => "commit",
            OpKind::Checkpoint => "checkpoint",
            OpKind::AutoCheckpoint => "auto_checkpoint",
            OpKind::LockWait => "lock_wait",
        }
    }
    pub fn from_name(name: &str) -> Option<OpKind> {
        OpKind::ALL.into_iter().find(|k| k.name() == name)
    }
    /// The kind with this discriminant.
    pub fn from_index(index: u8) -> Option<OpKind> {
        OpKind::ALL.get(usize::from(index)).copied()
    }
    /// The kind that a driver is asked for.
    pub fn request(self) -> OpKind {
        match self {
            OpKind::RmwGet => OpKind::Get,
            OpKind::RmwUpdate => OpKind::Update,
            other => other,
        }
    }
    /// The kind of a row when this request is a part of a read-modify-write.
    pub fn as_part(self) -> OpKind {
        match self {
            OpKind::Get => OpKind::RmwGet,
            OpKind::Update => OpKind::RmwUpdate,
            other => other,
        }
    }
    /// The kinds of the operations that it is made of, in their order; none where it is one request.
    pub fn parts(self) -> &'static [OpKind] {
        match self {
            OpKind::Rmw => &[OpKind::RmwGet, OpKind::RmwUpdate],
            OpKind::Tpcb => &TPCB,
            OpKind::OltpReadWrite => &OLTP_READ_WRITE,
            _ => &[],
        }
    }
    /// Whether it is a statement of a transaction: a part that a driver is asked for by this very kind.
    #[inline]
    pub fn is_statement(self) -> bool {
        (OpKind::Begin as u8..=OpKind::Commit as u8).contains(&(self as u8))
    }
    /// Whether it is a benchmark's transaction on tables that the driver lays out.
    #[inline]
    pub fn is_transaction(self) -> bool {
        matches!(self, OpKind::Tpcb | OpKind::OltpPointSelect | OpKind::OltpReadWrite)
    }
    /// Whether this statement is about a key of its own, and not about the one of its transaction.
    pub fn draws_key(self) -> bool {
        (OpKind::SelectPoint as u8..=OpKind::DeleteRow as u8).contains(&(self as u8))
    }
    /// Whether it is a time inside an operation that only its driver can tell: nobody asks for it.
    #[inline]
    pub fn is_inner(self) -> bool {
        matches!(self, OpKind::AutoCheckpoint | OpKind::LockWait)
    }
    /// Whether it is part of an operation that has a row of its own, or the wait of a watched program's thread for
    /// another. No total adds such kinds, and no mix draws them. Of drivers only those with transactions are asked for
    /// such a kind, a statement; `sqlite` tells times inside its operations by itself, without being asked.
    #[inline]
    pub fn is_part(self) -> bool {
        self.request() != self || self == OpKind::Wait || self.is_statement() || self.is_inner()
    }
    /// What it is to a record, where files are records by number: a created file is an inserted record.
    #[inline]
    pub fn as_record(self) -> OpKind {
        match self {
            OpKind::Create => OpKind::Insert,
            OpKind::OpenReadClose => OpKind::Get,
            OpKind::Unlink => OpKind::Delete,
            other => other,
        }
    }
    /// Whether its data are named otherwise than by offset: every kind but read, write, trim and fsync.
    #[inline]
    pub fn keyed(self) -> bool {
        self as u8 >= OpKind::Get as u8
    }
    /// Whether it has a size: bytes that it asks for or moves.
    #[inline]
    pub fn sized(self) -> bool {
        !matches!(
            self,
            OpKind::Fsync
                | OpKind::Delete
                | OpKind::Stat
                | OpKind::Unlink
                | OpKind::Rename
                | OpKind::Mkdir
                | OpKind::Rmdir
                | OpKind::Readdir
                | OpKind::Wait
                | OpKind::Checkpoint
        ) && !self.is_transaction()
            && !self.is_statement()
            && !self.is_inner()
    }
    /// Whether the operation changes what is stored, data or names. Of a transaction only the whole does.
    pub fn writes(self) -> bool {
        matches!(
            self,
            OpKind::Write
                | OpKind::Trim
                | OpKind::Put
                | OpKind::Insert
                | OpKind::Update
                | OpKind::Delete
                | OpKind::Rmw
                | OpKind::RmwUpdate
                | OpKind::Create
                | OpKind::Unlink
                | OpKind::Tpcb
                | OpKind::OltpReadWrite
        ) || self.renames()
    }
    /// Whether it changes names or directories, and no data.
    #[inline]
    pub fn renames(self) -> bool {
        matches!(self, OpKind::Rename | OpKind::Mkdir | OpKind::Rmdir)
    }
    /// Whether its request carries data to be stored. Transactions have their own and count as carrying none.
    #[inline]
    pub fn carries(self) -> bool {
        let removes = matches!(self.as_record(), OpKind::Trim | OpKind::Delete);
        self.writes() && !removes && !self.renames() && !self.is_transaction()
    }
}

/// A sync that belongs to a write and is measured inside its latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncKind {
    /// fdatasync after the write.
    Fdatasync,
    /// fsync after the write.
    Fsync,
}

/// The whole value rather than one of its fields.
pub const ALL_FIELDS: u16 = u16::MAX;

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// What to do.
    pub kind: OpKind,
    /// Which file, endpoint or table of the target (index).
    pub target: u16,
    /// Byte offset in that file; 0 where offsets mean nothing.
    pub offset: u64,
    /// Bytes asked; of a batch, those of one record.
    pub size: u64,
    /// Key number, of a batch the first; 0 where keys mean nothing.
    pub key: u64,
    /// Items of a scan or batch; 1 elsewhere.
    pub count: u32,
    /// Which field of a value; [`ALL_FIELDS`] for the whole.
    pub field: u16,
    /// A sync to do after this write, inside its latency.
    pub sync: Option<SyncKind>,
}

impl Op {
    /// An operation on `size` bytes at `offset` of file `target`.
    pub fn block(kind: OpKind, target: u16, offset: u64, size: u64) -> Op {
        Op { kind, target, offset, size, key: 0, count: 1, field: ALL_FIELDS, sync: None }
    }
    /// Bytes asked of all its records: `size` is that of one.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.size * u64::from(self.count.max(1))
    }
    /// An operation on key number `key` with a value of `size` bytes.
    pub fn keyed(kind: OpKind, key: u64, size: u64) -> Op {
        Op { key, ..Op::block(kind, 0, 0, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (i, k) in OpKind::ALL.into_iter().enumerate() {
            assert_eq!(OpKind::from_name(k.name()), Some(k));
            assert_eq!(OpKind::from_index(i as u8), Some(k));
            assert_eq!(k as usize, i);
        }
        assert_eq!(OpKind::from_index(OpKind::ALL.len() as u8), None);
    }

    #[test]
    fn parts_are_known_as_parts() {
        for whole in OpKind::ALL {
            assert!(
                whole
                    .parts()
                    .iter()
                    .all(|part| part.is_part() && !part.writes() | (*part == OpKind::RmwUpdate))
            );
            assert!(whole.parts().is_empty() || !whole.is_part());
        }
        let statements = OpKind::ALL.into_iter().filter(|kind| kind.is_statement());
        assert!(statements.clone().all(|kind| kind.is_part() && !kind.sized() && kind.keyed()));
        assert_eq!(statements.count(), 16);
        let inner = OpKind::ALL.into_iter().filter(|kind| kind.is_inner());
        assert!(inner.clone().all(|kind| kind.is_part() && !kind.sized() && !kind.writes()));
        assert_eq!(inner.count(), 2);
        assert!(!OpKind::Checkpoint.is_part() && !OpKind::Checkpoint.sized());
        assert!(OpKind::Tpcb.writes() && !OpKind::Tpcb.carries() && !OpKind::Tpcb.sized());
    }
}
