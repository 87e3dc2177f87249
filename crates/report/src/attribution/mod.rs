//! Why the tail is slow: each outlier blamed on a layer, with evidence.
//!
//! `ios.parquet` (what the program saw) and `layers.parquet` (what the kernel did) are joined one I/O at a
//! time. Every verdict rests on stamps of that very I/O, never on the maxima of different tools; what was
//! not seen is "unknown".

mod acting;
mod around;
mod backlog;
mod blocks;
mod commits;
mod context;
mod culprits;
mod disks;
mod episodes;
mod events;
mod explain;
mod explanation;
mod followers;
mod gaps;
mod held_pages;
mod judge;
mod layers;
mod neighbours;
mod next;
mod overlays;
mod pages;
mod patterns;
mod phase;
mod phases;
mod rounds;
mod rules;
mod so_far;
mod stacks;
mod stolen;
mod threads;
mod timeline;
mod who;
mod workers;

pub use culprits::Culprit;
pub use episodes::{CANNOT_SEE, EpisodeView};
pub use explain::{explain, time_lines};
pub use explanation::{Blocked, Explanation, LayerShare, PhaseLevel};
pub use judge::{Layer, OutlierVerdict, layer, layer_did, layer_words};
pub use layers::{Coverage, Slow};
pub use next::headline;
pub use overlays::is_rule;
pub use patterns::Pattern;
pub use phase::{Phase, Phases};
pub use so_far::{SlowNow, SlowSoFar};
