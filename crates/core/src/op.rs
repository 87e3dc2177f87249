//! Operations: what a worker asks a session to do.

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
}

impl OpKind {
    /// Every kind, in the order of their discriminants.
    pub const ALL: [OpKind; 23] = [
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
    /// Whether it is part of an operation that has a row of its own, or no operation on storage but a wait for one. No
    /// total adds them, no mix draws them and no driver knows them.
    #[inline]
    pub fn is_part(self) -> bool {
        self.request() != self || self == OpKind::Wait
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
    /// Whether it names a key (or object) rather than an offset.
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
        )
    }
    /// Whether the operation changes what is stored, data or names.
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
        ) || self.renames()
    }
    /// Whether it changes names or directories, and no data.
    #[inline]
    pub fn renames(self) -> bool {
        matches!(self, OpKind::Rename | OpKind::Mkdir | OpKind::Rmdir)
    }
    /// Whether it leaves data of its own behind.
    #[inline]
    pub fn carries(self) -> bool {
        let removes = matches!(self.as_record(), OpKind::Trim | OpKind::Delete);
        self.writes() && !removes && !self.renames()
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
}
