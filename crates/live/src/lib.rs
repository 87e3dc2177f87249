//! Views of a run while it goes on: a page in a browser, metrics for Prometheus, a screen on a terminal.
//!
//! What it is: one model ([`LiveModel`]) fed by the collector at each interval's close
//! ([`LiveFeed`]), and a small server ([`LiveServer`]) whose answers are made from it when somebody
//! asks. What it is not: a source of figures (the collector's intervals are), part of the hot loop, or
//! the report. With nobody connected an interval costs one message in a queue. Called by `cli`.

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
