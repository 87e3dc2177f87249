//! Why the tail is slow: each outlier of a traced run blamed on a layer, with evidence.
//!
//! `ios.parquet` (what the program saw) and `layers.parquet` (what the kernel did) are joined one I/O at a time. A
//! verdict rests on what was seen of that very I/O, of its threads and of the I/Os that it waited for, not on the
//! maxima of different tools; what was not seen is "unknown". The walk of a slow I/O, each step a folder:
//!
//! 1. `events` decodes the rows of the trace, once, into I/Os and events that have the fields of their kind (`decode`),
//!    and finds those beside an I/O (`IoContext`); `events::stacks` says what a sleeping thread waits for.
//! 2. `time_line` cuts the I/O into segments that sum to its latency. A segment has a phase (where the time went), and
//!    a source (how that is known).
//! 3. `wait_graph` replaces waits by what was waited for, and what that waited for in turn: a table of rules finds who
//!    waited for what, threads first, then other I/Os, and one resolver follows them. To add a kind of wait: a function
//!    that finds it, and a line of the table.
//! 4. `verdict` blames the layer with at least half of the time beyond the usual (else several, or unknown), and says by
//!    the sources whether that is sure.
//! 5. `episodes` groups outliers of one event, with culprits, what to do next, and what many have in common.
//!
//! Imports go one way: `phase` (the parts of an I/O's time), `events`, `time_line`, `verdict`, `wait_graph` (what an I/O
//! waited for is looked for among those that are judged), `traced_run` (reads `layers.parquet`), `episodes`.
//!
//! [`explain()`] walks it for a run, [`SlowSoFar`] for a run that goes on; [`without_each`] shows what each rule is for.

mod episodes;
mod events;
mod explain;
mod explanation;
mod phase;
mod so_far;
mod time_line;
mod traced_run;
mod verdict;
mod wait_graph;

pub use episodes::advice::headline;
pub use episodes::culprits::Culprit;
pub use episodes::patterns::Pattern;
pub use episodes::{CANNOT_SEE, EpisodeView};
pub use events::slow::Slow;
pub use explain::{ExplainInputs, RuleEffect, explain, time_lines, without_each};
pub use explanation::{Blocked, Explanation, LayerShare, PauseSums, PhaseLevel};
pub use phase::{Phase, Phases};
pub use so_far::{SlowNow, SlowSoFar};
pub use time_line::segments::Segment;
pub use traced_run::Coverage;
pub use verdict::in_front::{InFront, RequestSum};
pub use verdict::judge::{Layer, OutlierVerdict, layer, layer_did, layer_words};
pub use wait_graph::is_rule;
