//! Progress of long work, reported without knowing who shows it.

/// A step of some long work that is not measuring: layout, writing `ios.parquet`, reading back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// What is being done, for people ("laying out", "writing ios.parquet").
    pub what: &'a str,
    pub done: u64,
    pub total: u64,
    /// Unit of `done` and `total`: "bytes" or "I/Os".
    pub unit: &'a str,
}

/// Receives progress; called often, must be cheap. Returning `false` asks the work to stop.
pub type OnProgress<'a> = dyn FnMut(Progress<'_>) -> bool + 'a;
