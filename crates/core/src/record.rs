//! [`Record`]: one I/O as it was measured, from which a row of `ios.parquet` is made; [`Status`] says how it ended.

use crate::clock::Stamp;
use crate::op::OpKind;
use crate::units::readable::system_words;

/// How an I/O ended: 0, an errno above 0, or a code below 0 of this table; the `status` column (docs/design.md,
/// Statuses).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Status(pub i32);

impl Status {
    /// Success.
    pub const OK: Status = Status(0);
    /// Gave up waiting.
    pub const TIMEOUT: Status = Status(-1);
    /// Fewer bytes moved than asked.
    pub const SHORT: Status = Status(-2);
    /// Data read is not the data written.
    pub const VERIFY: Status = Status(-3);
    /// The store reported an error of its own.
    pub const STORE: Status = Status(-4);
    /// Still in flight when the worker ended: the drain time-out passed, or the target was gone.
    pub const UNFINISHED: Status = Status(-5);
    /// Key or object not found.
    pub const NOT_FOUND: Status = Status(-6);
    /// Refused by the driver without asking the store, which takes no write after its first error.
    pub const REFUSED: Status = Status(-7);
    /// The store undid a transaction because of another one (deadlock, serialization failure): it is to be tried again.
    pub const CONFLICT: Status = Status(-8);

    pub fn errno(errno: i32) -> Status {
        debug_assert!(errno > 0);
        Status(errno)
    }
    /// Whether the I/O succeeded.
    #[inline]
    pub fn is_ok(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Display for Status {
    /// In words, with the number of a system error.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match *self {
            Status::OK => "ok",
            Status::TIMEOUT => "timed out",
            Status::SHORT => "moved fewer bytes than asked",
            Status::VERIFY => "data read is not the data written",
            Status::STORE => "the store reported an error of its own",
            Status::UNFINISHED => "still in flight when the worker ended",
            Status::NOT_FOUND => "not found",
            Status::REFUSED => "refused without asking the store, which had failed a write before",
            Status::CONFLICT => "undone by the store for another transaction's sake",
            Status(errno) if errno > 0 => {
                let text = std::io::Error::from_raw_os_error(errno).to_string();
                return write!(f, "{} (errno {errno})", system_words(&text).to_lowercase());
            }
            Status(other) => return write!(f, "unknown status {other}"),
        };
        f.write_str(text)
    }
}

/// One I/O. Stamps are absolute CLOCK_MONOTONIC nanoseconds, or virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Record {
    pub op: OpKind,
    /// Index of the file or endpoint.
    pub target: u16,
    /// Byte offset, where offsets mean something.
    pub offset: Option<u64>,
    /// Key number, where keys mean something.
    pub key: Option<u64>,
    pub size: u64,
    /// Bytes moved; `None` means equal to `size`.
    pub moved: Option<u64>,
    /// Items of a scan or batch.
    pub count: Option<u32>,
    /// When the schedule wanted it to start; `None` in a closed loop.
    pub intended: Option<Stamp>,
    /// End-to-end runs: when the writer stamped the data.
    pub origin: Option<Stamp>,
    /// Just before `submit`.
    pub submit: Stamp,
    /// After `flush` returned, for queued drivers.
    pub issued: Option<Stamp>,
    /// First byte, where only the driver can know.
    pub first: Option<Stamp>,
    /// Directly after the `poll` that returned it.
    pub complete: Stamp,
    /// Duration of the sync inside this write, ns.
    pub sync_ns: Option<u64>,
    /// Retries the driver made.
    pub retries: Option<u16>,
    pub status: Status,
}

impl Record {
    pub fn service_ns(&self) -> u64 {
        self.complete.since(self.submit).max(0) as u64
    }
    /// complete - (intended or submit).
    pub fn response_ns(&self) -> u64 {
        self.complete.since(self.intended.unwrap_or(self.submit)).max(0) as u64
    }
    /// submit - (intended or submit).
    pub fn wait_ns(&self) -> u64 {
        self.submit.since(self.intended.unwrap_or(self.submit)).max(0) as u64
    }
}
