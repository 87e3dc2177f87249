//! Vocabulary shared by the crates of the product: units, clock, operations, records, job file, plan, errors.
//!
//! Types with their meaning and units, and how jobs are read and checked. This crate depends on no other of the
//! workspace; it starts no thread, and of storage it reads files that somebody names and writes files whole.

pub mod atomic;
pub mod block_size_file;
pub mod capability;
pub mod clock;
pub mod error;
pub mod exit;
pub mod job;
pub mod keys;
pub mod latency;
pub mod op;
pub mod options;
pub mod percentile;
pub mod plan;
pub mod probe;
pub mod progress;
pub mod record;
pub mod regular;
pub mod samples;
pub mod secret;
pub mod stop;
pub mod suggest;
pub mod time_span;
pub mod units;
pub mod witness;

pub use clock::{Clock, MonoClock, Stamp};
pub use error::{Error, ErrorKind, Result};
pub use latency::{LatencyKind, LatencyMap};
pub use op::{ALL_FIELDS, Op, OpKind, SyncKind};
pub use percentile::Percentile;
pub use record::{Record, Status};
pub use stop::StopFlag;
pub use time_span::TimeSpan;
