//! Block traces made by other tools, joined to a run: blktrace, biosnoop, bpftrace.
//!
//! What it is: readers of their files, and the join with `ios.parquet` into `layers.parquet`, from
//! which `taillight explain` works as after a traced run. What it is not: tracing. An I/O without a
//! partner stays without evidence. Called by `cli` for `import`.

pub mod biosnoop;
pub mod blktrace;
pub mod bpftrace;
mod join;

use taillight_core::OpKind;

pub use join::{Joined, join};

use crate::align;

/// One block I/O as another tool saw it. Stamps in ns, on the trace's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockIo {
    /// Disk, by name or `major:minor`.
    pub dev: Box<str>,
    /// First sector of 512 bytes.
    pub sector: u64,
    pub bytes: u64,
    /// Read, write, trim or fsync (a flush).
    pub op: OpKind,
    /// Queued to the block layer.
    pub queued: Option<i64>,
    /// Its request was allocated.
    pub alloc: Option<i64>,
    /// Given to the I/O scheduler.
    pub insert: Option<i64>,
    /// Given to the driver.
    pub issued: Option<i64>,
    pub done: i64,
    /// Thread that queued it.
    pub pid: u64,
    pub comm: Box<str>,
}

impl BlockIo {
    /// The earliest stamp there is.
    pub fn first(&self) -> i64 {
        self.queued.or(self.issued).unwrap_or(self.done)
    }

    /// Whether its place and stamps can be: a damaged file may say anything.
    fn possible(&self) -> bool {
        let stamps = [
            self.queued,
            self.alloc,
            self.insert,
            self.issued,
            Some(self.done),
        ];
        stamps.into_iter().flatten().all(align::is_stamp)
            && align::is_place(self.sector, self.bytes)
    }
}

/// The clock of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceClock {
    /// CLOCK_MONOTONIC, with one moment of it and of wall time where the trace says so.
    Monotonic(Option<(i64, i64)>),
    Unknown,
}

/// A trace that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    pub tool: &'static str,
    pub ios: Vec<BlockIo>,
    pub clock: TraceClock,
    /// What a reader should know: lines left out, a cut end.
    pub notes: Vec<String>,
}

/// Kind of a request from letters like `RA`, `WS`, `FF`, `DS`.
fn letters(text: &str) -> Option<OpKind> {
    let has = |c: char| text.contains(c);
    match text.chars().next()? {
        'D' => Some(OpKind::Trim),
        'F' if !has('W') && !has('R') => Some(OpKind::Fsync),
        _ if has('W') => Some(OpKind::Write),
        _ if has('R') => Some(OpKind::Read),
        _ => None,
    }
}
