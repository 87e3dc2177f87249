//! A run over several hosts. Ranks agree before anything is touched, start at one stamp, and merge their
//! figures exactly; what a rank measures it does alone. [`Group`] is all that is asked of MPI; tests have one
//! over threads ([`LocalGroup`]). Results of a group are files of the run directory (`scale.json`).

mod clock;
mod differences;
mod group;
mod local;
mod merge;
mod ranks;

pub use clock::{ClockMap, PINGS, answer_pings, ping};
pub use differences::differences;
pub use group::{Group, Patience};
pub use local::LocalGroup;
pub use merge::{MergeCost, exact_at, merged_percentiles};
pub use ranks::{ANY_STEP, Agreed, LostRank, Ranks, WaitWatch, Waiting};
