//! Views of a run while it goes on: a page in a browser, metrics for Prometheus, a screen on a terminal.
//!
//! One model ([`LiveModel`]) is fed by the collector at each interval's close ([`LiveFeed`]); a small server
//! ([`LiveServer`]) makes its answers from the model when somebody asks. All figures are of the collector's
//! intervals. With nobody connected an interval costs one message in a queue. Called by `cli`.

mod classic;
mod export;
mod feed;
mod head;
mod heat;
mod metrics;
mod model;
mod native;
mod openmetrics;
mod page;
mod protobuf;
mod remote;
pub mod screen;
mod server;
mod state;

pub use export::{export, totals};
pub use feed::{LiveEnd, LiveFeed, LiveState, PlaceInSeries, RunFacts};
pub use model::{LiveModel, Progressed, progressed};
pub use remote::{RemoteWritten, remote_write};
pub use server::{LiveOptions, LiveServer};
