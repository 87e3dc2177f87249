//! The network layer of drivers: connections, plain or TLS, over one readiness loop for each worker.
//!
//! A driver of a pipelined protocol implements [`PipelineProtocol`], and its session is [`Pipelines`]: what is
//! submitted is collected and leaves with `flush`, so that the stamp *issued* is when its bytes went to the socket.
//! One with a request at a time on each connection uses [`Transport`] and [`ReadinessLoop`] itself; a client library
//! with a descriptor of its own is added to a [`ReadinessLoop`] as well. A lost connection is never used again, and
//! nothing is sent twice.

pub mod connect;
mod counters;
#[cfg(any(feature = "s3", feature = "postgres"))]
pub mod digest;
pub mod peer;
mod pipeline;
mod readiness;
mod slots;
mod socket;
#[cfg(feature = "tls")]
pub mod tls;
mod transport;

pub use connect::{Deadline, ServerAddress, began, process_named};
pub use counters::ConnectionCounters;
pub use pipeline::{PipelineProtocol, PipelinedSockets, Pipelines, of_slot};
pub use readiness::{ReadinessLoop, left};
pub use slots::SlotTable;
pub use socket::{Frame, PipelinedSocket};
pub use transport::{RawSocket, TlsServer, Transport};
