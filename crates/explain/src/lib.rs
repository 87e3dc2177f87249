//! Why the tail is slow: each outlier blamed on a layer, with evidence.
//!
//! `ios.parquet` (what the program saw) and `layers.parquet` (what the kernel did) are joined one I/O at a
//! time. Every verdict rests on stamps of that very I/O, never on the maxima of different tools; what was
//! not seen is "unknown".

mod episodes;
mod events;
mod explain;
mod explanation;
mod overlays;
mod so_far;
mod time_line;
mod verdict;

pub use episodes::advice::headline;
pub use episodes::culprits::Culprit;
pub use episodes::patterns::Pattern;
pub use episodes::{CANNOT_SEE, EpisodeView};
pub use events::layers::{Coverage, Slow};
pub use explain::{ExplainInputs, RuleEffect, explain, time_lines, without_each};
pub use explanation::{Blocked, Explanation, LayerShare, PhaseLevel};
pub use overlays::is_rule;
pub use so_far::{SlowNow, SlowSoFar};
pub use time_line::phase::{Phase, Phases};
pub use time_line::segments::Segment;
pub use verdict::judge::{Layer, OutlierVerdict, layer, layer_did, layer_words};
