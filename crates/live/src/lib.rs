//! Views of a run while it goes on: a page in a browser, metrics for Prometheus, a screen on a terminal.
//!
//! One model ([`LiveModel`]) is fed by events ([`LiveFeed`]): the collector's intervals, samples of the machine, the
//! layers of slow I/Os, and where the run is. A small server ([`LiveServer`]) makes page and metrics from the model
//! when somebody asks, and [`screen`] draws the model on a terminal. With nobody connected an interval costs a message
//! in a queue. A finished run goes through the same model to files and servers of metrics ([`export()`], [`totals`],
//! [`remote_write`]). Called by `cli`.

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
