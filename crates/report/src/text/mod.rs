//! Text for people, below all stages: numbers with units, tables on a terminal, where
//! figures come from, what is said of a ceiling that is not decided.

pub mod format;
pub mod origin;
pub mod table;
mod undecided;

pub use undecided::{by_chance, undecided};
