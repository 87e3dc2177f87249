//! Vocabulary shared by every crate: units, clock, operations, records, plan, errors.
//!
//! Plain types with their meaning and units. Every other crate depends on this one and this one on none of
//! them; it starts no thread and touches storage only to open a file that somebody names and to write one
//! whole.

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
pub mod units;
pub mod witness;

pub use clock::{Clock, MonoClock, Stamp};
pub use error::{Error, ErrorKind, Result};
pub use latency::{LatencyKind, LatencyMap};
pub use op::{ALL_FIELDS, Op, OpKind, SyncKind};
pub use percentile::Percentile;
pub use record::{Record, Status};
pub use stop::StopFlag;
